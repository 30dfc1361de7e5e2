"""Blocking code in virtual time: a thread that runs only while the loop waits for it, its sockets and its `sleep`.

One of the two runs at any moment, so a run stays deterministic.
"""

import asyncio
import contextvars
import io
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar

from tests.sim.world.loop import SimulatedLoop, running_loop

T = TypeVar("T")

_current = threading.local()


class _Thread:
    """One call of a blocking function."""

    def __init__(self, loop: SimulatedLoop, work: Callable[[], Any]) -> None:
        self._loop = loop
        self._work = work
        self._continue = threading.Semaphore(0)
        self._paused = threading.Semaphore(0)
        self._awaited: Coroutine[Any, Any, Any] | None = None
        """What the thread waits for; None: it has ended."""
        self._result: Any = None
        self._error: BaseException | None = None
        self._is_abandoned = False

    async def run(self) -> Any:
        """Return what the function returns, or raise what it raises."""
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(self._main,), daemon=True)
        thread.start()
        self._paused.acquire()
        while self._awaited is not None:
            try:
                self._result, self._error = await self._awaited, None
            except BaseException as error:  # noqa: BLE001 - raised in the thread
                self._error = error
                self._is_abandoned = not isinstance(error, Exception)
            self._continue.release()
            self._paused.acquire()
        thread.join()
        if self._error is not None:
            raise self._error
        return self._result

    def _main(self) -> None:
        asyncio._set_running_loop(self._loop)
        _current.thread = self
        try:
            self._result, self._error = self._work(), None
        except BaseException as error:  # noqa: BLE001 - raised by `run`
            self._error = error
        finally:
            self._awaited = None
            self._paused.release()

    def wait(self, awaited: Coroutine[Any, Any, T]) -> T:
        """Block the thread until the loop has run a coroutine."""
        if self._is_abandoned:
            awaited.close()
            raise ConnectionAbortedError("the task that waits for this thread was cancelled")
        self._awaited = awaited
        self._paused.release()
        self._continue.acquire()
        if self._error is not None:
            raise self._error
        result: T = self._result
        return result


async def run_blocking(work: Callable[[], T]) -> T:
    """Run a function that may block on sockets and `sleep`."""
    result: T = await _Thread(running_loop(), work).run()
    return result


def interleave_jobs() -> None:
    """Let jobs of executors `sleep` in the middle from now on: each runs in a thread of its own.

    Without it a job takes effect at its begin, and what it waits for delays its result only.
    """
    loop = running_loop()

    def run_in_executor(executor: Executor | None, work: Callable[..., Any], *arguments: Any) -> "asyncio.Future[Any]":
        return loop.create_task(run_blocking(partial(work, *arguments)))

    loop.run_in_executor = run_in_executor  # type: ignore[assignment,method-assign]


def _thread() -> _Thread:
    thread: _Thread | None = getattr(_current, "thread", None)
    assert thread is not None, (
        "a blocking call in virtual time belongs into `blocking(...)` of tests.support.drivers.in_process"
    )
    return thread


def sleep(seconds: float) -> None:
    """Block the calling thread or process in virtual time."""
    if getattr(_current, "thread", None) is not None:
        _thread().wait(asyncio.sleep(seconds))
    else:
        running_loop().block(seconds)


TIME = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
"""In the place of the module `time` in `qmq.clock`."""


class BlockingSocket(io.RawIOBase):
    """A connected socket of a blocking client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout: float | None) -> None:
        super().__init__()
        self._reader, self._writer = reader, writer
        self._timeout = timeout

    def settimeout(self, seconds: float | None) -> None:
        self._timeout = seconds

    def setsockopt(self, *_: object) -> None:
        """Accept any option."""

    def sendall(self, data: bytes | bytearray | memoryview) -> None:
        async def send() -> None:
            async with asyncio.timeout(self._timeout):
                self._writer.write(data)
                await self._writer.drain()

        _thread().wait(send())

    def recv_into(self, buffer: Any) -> int:
        async def receive() -> bytes:
            async with asyncio.timeout(self._timeout):
                return await self._reader.read(len(buffer))

        data = _thread().wait(receive())
        buffer[: len(data)] = data
        return len(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self.recv_into(buffer)

    def makefile(self, mode: str, *_: object) -> io.BufferedReader:
        assert mode == "rb"
        return io.BufferedReader(self)

    def close(self) -> None:
        self._writer.close()
        super().close()


def create_connection(
    address: tuple[str, int], timeout: float | None = None, source_address: object = None
) -> BlockingSocket:
    """In the place of `socket.create_connection`."""

    async def connect() -> BlockingSocket:
        async with asyncio.timeout(timeout):
            return BlockingSocket(*await asyncio.open_connection(*address), timeout)

    return _thread().wait(connect())
