"""class DaemonThreads: the threads of handlers and of the blocking clients' event loop."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class DaemonThreads(ThreadPoolExecutor):
    """A pool of at most `threads_max` threads that never keep the process from ending.

    Python waits for the threads of a ThreadPoolExecutor when the process ends, whatever its `shutdown` was called with, and lets it
    start no work any more while functions of `atexit` run. Code of users may never return, so its threads must not be waited for.

    It is a subclass because event loops accept no other class as their default executor; nothing else is inherited.
    """

    def __init__(self, threads_max: int, name: str) -> None:
        self._max_workers = threads_max
        self._name = name
        self._changed = threading.Condition()
        self._work: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._started: list[threading.Thread] = []
        self._idle = 0
        """Threads that wait for work."""
        self._is_shut_down = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Run a function as soon as a thread is free. Raises RuntimeError after `shutdown`, or if no thread can be started."""
        future: Future[T] = Future()
        with self._changed:
            if self._is_shut_down:
                raise RuntimeError("the pool of threads is shut down")
            self._work.append((future, partial(fn, *args, **kwargs)))
            if self._idle < len(self._work) and len(self._started) < self._max_workers:
                self._start_thread()
            self._changed.notify()
        return future

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name=f"{self._name}_{len(self._started)}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the process ends, or has too many threads: those that it has do the work
            if not self._started:
                self._work.pop()
                raise
        else:
            self._started.append(thread)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._work:
                    if self._is_shut_down:
                        return
                    self._idle += 1
                    self._changed.wait()
                    self._idle -= 1
                future, call = self._work.popleft()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001 - the caller gets it from the future
                    future.set_exception(error)
            del future, call  # while it waits, a thread holds nothing of its last work

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more work; threads end when there is none left. `wait`: until they have ended."""
        with self._changed:
            self._is_shut_down = True
            work = [*self._work] if cancel_futures else []
            if cancel_futures:
                self._work.clear()
            self._changed.notify_all()
        for future, _ in work:
            future.cancel()
            future.set_running_or_notify_cancel()
        if wait:
            for thread in self._started:
                thread.join()
