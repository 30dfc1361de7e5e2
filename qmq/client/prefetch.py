"""When a consumer may pull, and how many messages a pull requests."""

import asyncio
from collections.abc import Sized

from qmq.client.config import Limits


class Prefetch:
    """Decides when a consumer may pull, by what it holds: messages that were pulled and are not settled, and their bytes.

    There is no room from the moment on at which a limit is reached, until half of the messages are settled and the bytes are below
    their limit. Besides, no pull is sent while more messages are queued ahead of the application (`queued`) than the largest of the
    pulls asks for, so that a slow consumer does not keep messages from others of its group. That number is common to all subjects
    and broker groups of the consumer: a busy one must not keep the others from pulling.
    """

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
        """Wait until there is room for a pull of `ahead` messages by `source`; for how many there is, at least one."""
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
        self.messages += messages
        self.bytes += size
        if self.messages >= self._messages_max or self.bytes >= self._bytes_max:
            self._is_full = True

    def remove(self, messages: int, size: int) -> None:
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


MESSAGES_FIRST = 100
"""What the first pull requests, and at least what a slow application gets."""
SLOW_SECONDS = 1.0
"""An application that takes longer for the messages of a response is slow."""


class PullSize:
    """The number of messages to request, from the responses so far; of at most `messages_max` and about `bytes_target`.

    A response should hold about `Limits.pull_bytes`: our brokers limit the bytes of a response, but the official server does not,
    and 100 large messages are a response of hundreds of MiB. And it should hold at most the messages that the application processes
    in a second, so that a slow one leaves messages to the other consumers of its group; a fast one waits for few responses.
    """

    def __init__(self, messages_max: int, bytes_target: int) -> None:
        self._messages_max = messages_max
        self._messages_min = min(MESSAGES_FIRST, messages_max)
        self._bytes_target = bytes_target
        self.messages = self._messages_min

    def received(self, messages: int, size: int, *, was_awaited: bool) -> None:
        """A response arrived: request what fits the target at its average size.

        If the application waited for it (`was_awaited`) and it has all that was requested, request twice as many.
        """
        fitting = max(1, self._bytes_target * messages // max(1, size))
        wanted = self.messages
        if was_awaited and messages >= self.messages:
            wanted *= 2
        elif self.messages < self._messages_min:  # after large messages
            wanted = min(self._messages_min, 2 * wanted)
        self.messages = min(self._messages_max, fitting, wanted)

    def waited(self, seconds: float) -> None:
        """The next pull waited this long for the application to process enough messages: request half if it is slow."""
        if seconds > SLOW_SECONDS:
            self.messages = max(min(self.messages, self._messages_min), self.messages // 2)

    def found_nothing(self) -> None:
        """There was no message: start again with a small pull, because the application may be slower when there are some."""
        self.messages = min(self.messages, self._messages_min)

    def failed(self, requested: int) -> None:
        """The response to a pull for `requested` messages was too large, or did not arrive in time: request half."""
        self.messages = max(1, requested // 2)
