"""class OsThread: a thread that does jobs for an event loop, one after the other; JobThread is its interface.

A simulation implements the interface in virtual time.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

Job = Callable[[], object]


class JobThread(Protocol):
    """Does jobs in the order of `put`. The first that raises is the last: `on_failure` gets its error, on the event loop."""

    def put(self, job: Job, done: Job | None = None) -> None:
        """Do `job` in the thread, then call `done` on the event loop."""

    async def stop(self) -> None:
        """Finish the jobs that were put, then end."""


StartThread = Callable[[str, Callable[[BaseException], None]], JobThread]
"""Starts a thread that works for the running event loop, by its name and what gets its failure."""


class OsThread:
    """A thread of the operating system. A job costs one switch to the thread, and one back for `done`."""

    def __init__(self, name: str, on_failure: Callable[[BaseException], None]) -> None:
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Job, Job | None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, job: Job, done: Job | None = None) -> None:
        self._jobs.put((job, done))

    async def stop(self) -> None:
        self._jobs.put(None)
        await self._loop.run_in_executor(None, self._thread.join)

    def _run(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, done = item
            try:
                job()
            except BaseException as error:  # noqa: BLE001 - reported to the owner
                self._loop.call_soon_threadsafe(self._on_failure, error)
                return
            if done is not None:
                self._loop.call_soon_threadsafe(done)
