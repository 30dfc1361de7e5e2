"""class LoopThread: an event loop in a thread of its own, for nodes that serve tests of any kind."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from qmq.clock import SystemClock

T = TypeVar("T")


class _Loop(asyncio.SelectorEventLoop):
    """A loop whose timers run although a test has frozen `time.monotonic`."""

    _clock = SystemClock()

    def time(self) -> float:
        return self._clock.monotonic()


class LoopThread:
    """Runs coroutines in another thread. It starts when it is made and ends with `close`, which may be called twice."""

    def __init__(self, name: str) -> None:
        self._loop = _Loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # At its end, the runner cancels what no caller waits for any more, such as a wait whose test has failed.
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._stop.wait())

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start a coroutine in the thread.

        Raises:
            RuntimeError: the thread has ended.
        """
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("the test server has been closed")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread and return its result. Blocks; an interrupt of the caller cancels the coroutine."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop and wait for the end of the thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
