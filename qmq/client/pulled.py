"""The messages of one answer to a pull, and what a consumer holds of all answers."""

import asyncio
from collections.abc import Callable, Sized
from typing import TYPE_CHECKING, Protocol

from qmq.client.ack_window import OPEN, SETTLED, Span
from qmq.client.config import Limits
from qmq.protocol.raw import PropertyFinder

if TYPE_CHECKING:
    from qmq.client.message import Delivery
    from qmq.client.middleware import MiddlewareChain

_DATA = b"data"


class Owner(Protocol):
    """What a delivery needs of its consumer."""

    group: str
    delivered_subject: str | None
    """The subject of all deliveries; None: each message's own."""
    middleware: "MiddlewareChain | None"
    """None when there is none."""

    async def send_back(self, delivery: "Delivery", cause: str) -> None:
        """Store the next attempt or the dead letter."""
        ...


class Prefetch:
    """Decides when a consumer may pull, by what it holds: messages that were pulled and are not settled, and their bytes.

    There is no room from the moment on at which a limit is reached, until half of the messages are settled and the bytes are
    below their limit. Besides, no pull is sent while more messages are queued ahead of the application than the largest of the
    pulls asks for, so that a slow consumer does not keep messages from others of its group. That number is common to all subjects
    and broker groups of the consumer: a busy one must not keep the others from pulling.

    Args:
        queued: the deliveries that the application has not received yet.
    """

    __slots__ = (
        "_ahead",
        "_aheads",
        "_bytes_max",
        "_is_full",
        "_messages_max",
        "_queued",
        "_waiters",
        "bytes",
        "messages",
    )

    def __init__(self, limits: Limits, queued: Sized = ()) -> None:
        self.messages = 0
        self.bytes = 0
        self._messages_max = limits.prefetch_messages
        self._bytes_max = limits.prefetch_bytes
        self._queued = queued
        self._is_full = False
        self._waiters: list[asyncio.Future[None]] = []
        self._aheads: dict[str, int] = {}
        self._ahead = 0
        """The highest of them: most messages queued when a pull is sent."""

    async def room(self, source: str, ahead: int) -> int:
        """Wait until there is room, and return for how many messages, at least one.

        Args:
            source: who pulls.
            ahead: for how many messages the pull asks.
        """
        self._aheads[source] = ahead
        self._ahead = max(self._aheads.values())
        while self._is_full or len(self._queued) > self._ahead:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
        return max(1, self._messages_max - self.messages)

    @property
    def is_awaited(self) -> bool:
        """Whether the application has received all that was pulled."""
        return not len(self._queued)

    def add(self, messages: int, size: int) -> None:
        """Count messages that were pulled."""
        self.messages += messages
        self.bytes += size
        if self.messages >= self._messages_max or self.bytes >= self._bytes_max:
            self._is_full = True

    def remove(self, messages: int, size: int) -> None:
        """Count messages that were settled."""
        self.messages -= messages
        self.bytes -= size
        if self._is_full and self.messages <= self._messages_max // 2 and self.bytes < self._bytes_max:
            self._is_full = False
        if self._waiters:
            self.wake()

    def wake(self) -> None:
        """End the waits if there is room. Called when messages were settled, and when the application waits."""
        if self._is_full or len(self._queued) > self._ahead:
            return
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()


class Pulled(Span):
    """The messages of one answer.

    A raw message is released when it is settled, so that one that is processed for long does not hold the memory of the others.

    Args:
        raws: the raw messages.
        is_plain: no message has a body with a content type or encoding.
        on_settled: called after messages were settled.
    """

    __slots__ = (
        "broker_group",
        "data_finder",
        "is_plain",
        "middleware",
        "on_settled",
        "owner",
        "prefetch",
        "raws",
        "received_at_ms",
    )

    def __init__(
        self,
        first: int,
        raws: "list[bytes | None]",
        *,
        owner: Owner,
        prefetch: Prefetch,
        broker_group: str,
        received_at_ms: int,
        is_plain: bool,
        on_settled: Callable[[], None],
    ) -> None:
        super().__init__(first, len(raws))
        self.raws = raws
        self.owner = owner
        self.middleware = owner.middleware
        self.prefetch = prefetch
        self.broker_group = broker_group
        self.received_at_ms = received_at_ms
        self.is_plain = is_plain
        self.on_settled = on_settled
        self.data_finder = PropertyFinder(_DATA)

    def skip(self, index: int) -> None:
        """Settle a message that is not delivered."""
        super().settle(index)
        self.raws[index] = None

    def settle(self, index: int) -> None:
        """Settle a delivered message, which may allow the next pull and an ack."""
        # The body of Span.settle: this runs for each message.
        self.marks[index] = SETTLED
        self.open -= 1
        raw = self.raws[index]
        self.raws[index] = None
        self.prefetch.remove(1, 0 if raw is None else len(raw))
        self.on_settled()

    def settle_range(self, begin: int, end: int) -> int:
        """As `Span.settle_range`, for delivered messages."""
        is_whole = self.marks.count(OPEN, begin, end) == end - begin
        if is_whole:
            size = sum(map(len, self.raws[begin:end]))  # type: ignore[arg-type]  # none of them is settled
            self.raws[begin:end] = [None] * (end - begin)
        else:
            size = 0
            for index in range(begin, end):
                raw = self.raws[index]
                if raw is not None and not self.marks[index]:
                    size += len(raw)
                    self.raws[index] = None
        count = super().settle_range(begin, end)
        if count:
            self.prefetch.remove(count, size)
            self.on_settled()
        return count
