"""class IoThreads: the threads in which a delay node reads files while it serves."""

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

SLICE_BYTES = 8 << 20
"""Bytes of an hour's files that one slice of a job reads; then the next job has its turn."""


def _advance(steps: Generator[None, None, T]) -> tuple[bool, T | None]:
    """Run one slice: whether it was the last, and then the result."""
    try:
        next(steps)
    except StopIteration as end:
        return True, end.value
    return False, None


class IoThreads:
    """Two threads read message bodies; one runs everything longer, slice by slice, so that no job waits for a whole other one."""

    def __init__(self) -> None:
        self._bodies = ThreadPoolExecutor(max_workers=2, thread_name_prefix="delay-read")
        self._slices = ThreadPoolExecutor(max_workers=1, thread_name_prefix="delay-scan")

    async def read(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a short read: due messages wait for it."""
        return await asyncio.get_running_loop().run_in_executor(self._bodies, lambda: work(*args, **kwargs))

    async def run(self, steps: Generator[None, None, T]) -> T:
        """Run a job that yields after each SLICE_BYTES that it read; its result."""
        loop = asyncio.get_running_loop()
        while True:
            is_done, result = await loop.run_in_executor(self._slices, _advance, steps)
            if is_done:
                return result  # type: ignore[return-value]

    async def close(self) -> None:
        """Cancel what has not begun, and wait for the reads under way."""
        for pool in (self._bodies, self._slices):
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)
