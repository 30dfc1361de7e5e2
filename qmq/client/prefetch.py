"""When a consumer may pull: class Prefetch."""

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
