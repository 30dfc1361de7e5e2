"""The messages of one answer to a pull, and what a consumer holds of all answers."""

import asyncio
from collections.abc import Callable
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
    """Counts the messages that a consumer has pulled and that are not settled, and their bytes.

    There is no room from the moment on at which a limit is reached, until half of the messages are settled and the bytes are
    below their limit.
    """

    __slots__ = ("_bytes_max", "_is_full", "_messages_max", "_room", "bytes", "messages")

    def __init__(self, limits: Limits) -> None:
        self.messages = 0
        self.bytes = 0
        self._messages_max = limits.prefetch_messages
        self._bytes_max = limits.prefetch_bytes
        self._is_full = False
        self._room = asyncio.Event()
        self._room.set()

    async def room(self) -> int:
        """Wait until there is room, and return for how many messages, at least one."""
        await self._room.wait()
        return max(1, self._messages_max - self.messages)

    def add(self, messages: int, size: int) -> None:
        """Count messages that were pulled."""
        self.messages += messages
        self.bytes += size
        if self.messages >= self._messages_max or self.bytes >= self._bytes_max:
            self._is_full = True
            self._room.clear()

    def remove(self, messages: int, size: int) -> None:
        """Count messages that were settled."""
        self.messages -= messages
        self.bytes -= size
        if self._is_full and self.messages <= self._messages_max // 2 and self.bytes < self._bytes_max:
            self._is_full = False
            self._room.set()


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
