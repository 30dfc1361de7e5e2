"""The event loop of all blocking clients of this process, and methods that wait for it."""

import asyncio
import functools
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from qmq.client.consumer import Consumer
from qmq.client.delayed import DelayedMessages
from qmq.client.producer import Producer
from qmq.client.threads import DaemonThreads
from qmq.errors import LocalProtocolError

T = TypeVar("T")
P = ParamSpec("P")
Inner = TypeVar("Inner", Producer, Consumer, DelayedMessages)

LOOP_THREADS_MAX = 8
"""Threads for look-ups of names and work with files."""
_END = object()
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_thread: threading.Thread | None = None


def shared_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this process's blocking clients, which runs in a thread of its own."""
    global _loop, _thread
    with _lock:
        if _loop is None:
            loop = asyncio.new_event_loop()
            # Its own pool looks names up also while the process ends, when clients send what is queued.
            threads = DaemonThreads(LOOP_THREADS_MAX, "qmq-sync-work")
            threads.submit(int)  # no thread can be started at that time
            loop.set_default_executor(threads)
            _thread = threading.Thread(target=loop.run_forever, name="qmq-sync", daemon=True)
            _thread.start()
            _loop = loop
        return _loop


def _forget_loop() -> None:
    """In a forked child: the loop's thread runs in the parent only, so the child makes its own."""
    global _loop, _lock, _thread
    _lock, _loop, _thread = threading.Lock(), None, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_loop)


def is_on_loop() -> bool:
    return threading.current_thread() is _thread


def start(work: Coroutine[Any, Any, T]) -> "Future[T]":
    """Run a coroutine on the shared loop. Raises LocalProtocolError on the loop's thread, which would wait for itself."""
    if is_on_loop():
        work.close()
        raise LocalProtocolError(
            "this method of qmq.sync waits, and was called on the thread of the event loop, in middleware or in a callback of a"
            " future. Call it from another thread"
        )
    return asyncio.run_coroutine_threadsafe(work, shared_loop())


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the shared loop and wait for its result. Ctrl-C cancels it."""
    future = start(work)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def run_until_stopped(work: Coroutine[Any, Any, None], stop: Callable[[], object]) -> None:
    """Run a coroutine on the shared loop and wait for its end. Ctrl-C calls `stop`, and is raised again after the end."""
    running = start(work)
    try:
        running.result()
    except KeyboardInterrupt:
        stop()
        running.result()
        raise


def iterate(source: AsyncIterator[T]) -> Iterator[T]:
    async def following() -> T | object:
        return await anext(source, _END)

    while (found := run(following())) is not _END:
        yield found  # type: ignore[misc]  # the end is excluded


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Return a method that calls the one of the same name of `self._inner` on the shared loop and waits for its result."""
    name = method.__name__

    @functools.wraps(method)
    def call(self: Any, /, *arguments: P.args, **options: P.kwargs) -> T:
        result: T = run(getattr(self._inner, name)(*arguments, **options))
        return result

    return call


class Client(Generic[Inner]):
    """Base of the blocking clients, which `make` makes on the loop. As a context manager, it enters and leaves that client."""

    def __init__(self, make: Callable[[], Inner]) -> None:
        async def made() -> Inner:
            return make()

        self._inner: Inner = run(made())

    @property
    def inner(self) -> Inner:
        """The asynchronous client, whose methods are called on the loop."""
        return self._inner

    def __enter__(self) -> Self:
        run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run(self._inner.__aexit__(kind, error, trace))
