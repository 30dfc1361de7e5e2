"""What a request needs from the disk: read in a thread, then taken over on the event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
InThread = Callable[[Callable[[], None]], Awaitable[None]]
"""Calls a function in a thread that may wait for the disk."""


class DiskWork(Exception):
    """Raised on the event loop by what would have to wait for the disk; nothing was changed.

    `read` is called in a thread, then `finish` on the event loop, then the request is made again.
    """

    def read(self) -> None:
        """Read; from a thread that may wait for the disk. Raises LogError."""
        raise NotImplementedError

    def finish(self) -> "DiskWork | None":
        """Back on the event loop, after `read`; further work that has to be done before the request is made again."""
        return None

    async def complete_in_thread(self, in_thread: InThread = asyncio.to_thread) -> None:
        """Do everything, with the reads in a thread; called on the event loop."""
        work: DiskWork | None = self
        while work is not None:
            await in_thread(work.read)
            work = work.finish()


async def completed(request: Callable[[], T], in_thread: InThread = asyncio.to_thread) -> T:
    """Make a request until it raises no DiskWork. Nothing else runs between its last try and the result."""
    while True:
        try:
            return request()
        except DiskWork as work:
            await work.complete_in_thread(in_thread)
