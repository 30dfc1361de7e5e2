"""Runs the apps of a Django project in one process, each handler with usable database connections."""

import asyncio
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections

import qmq
from qmq import sync
from qmq.client.handlers import is_coroutine_handler
from qmq.client.threads import DaemonThreads

AnyApp = qmq.App | sync.App

STOP_AGAIN_SECONDS = 0.2
"""Apps are stopped again after this time until they have ended: one that was just starting did not notice."""


def with_connections(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Return a handler that closes unusable and outdated database connections before and after it, as Django does for a request.

    Args:
        handler: a coroutine function, or a function that runs in a thread with connections of its own.
    """
    if is_coroutine_handler(handler):

        @functools.wraps(handler)
        async def handle(*arguments: Any) -> None:
            # Django's asynchronous interface runs queries in this one thread, so its connections are there.
            await sync_to_async(close_old_connections)()
            try:
                await handler(*arguments)
            finally:
                await sync_to_async(close_old_connections)()

        return handle

    @functools.wraps(handler)
    def handle_in_thread(*arguments: Any) -> None:
        close_old_connections()
        try:
            handler(*arguments)
        finally:
            close_old_connections()

    return handle_in_thread


class Worker:
    """Runs apps until `stop` is called or one of them fails.

    Args:
        concurrency: handlers of each consumer that run at the same time; None: as registered.
    """

    def __init__(self, apps: Sequence[AnyApp], *, concurrency: int | None = None) -> None:
        for app in apps:
            app.adapt(wrap=with_connections, concurrency=concurrency)
        self._apps = apps
        self._is_stopping = threading.Event()
        self._ended = threading.Event()
        self._wake: Callable[[], object] = lambda: None

    def run(self) -> None:
        """Consume until `stop` is called; then running handlers finish, and their acknowledgements are sent.

        Raises:
            ExceptionGroup: apps failed, for example because an official broker cannot start a consumer group where it should. All
                apps have ended.
        """
        try:
            asyncio.run(self._run())
        finally:
            self._ended.set()

    def stop(self) -> None:
        """Make `run` return. Can be called from another thread, from a signal handler, and before `run`."""
        self._is_stopping.set()
        self._wake()

    def wait_ended(self, timeout: float) -> bool:
        """Wait until `run` has returned, for at most `timeout` seconds; return whether it has."""
        return self._ended.wait(timeout)

    async def _run(self) -> None:
        loop, wake = asyncio.get_running_loop(), asyncio.Event()
        self._wake = functools.partial(loop.call_soon_threadsafe, wake.set)
        threads = DaemonThreads(max(1, len(self._apps)), "qmq-app")
        try:
            running: list[asyncio.Future[None]] = [
                loop.run_in_executor(threads, app.run) if isinstance(app, sync.App) else loop.create_task(app.run())
                for app in self._apps
            ]
            stopped = loop.create_task(wake.wait())
            if self._is_stopping.is_set():
                wake.set()
            waited: list[asyncio.Future[Any]] = [stopped, *running]
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            while any(not task.done() for task in running):
                for app in self._apps:
                    app.stop()
                await asyncio.wait(running, timeout=STOP_AGAIN_SECONDS)
        finally:
            threads.shutdown(wait=False)
        self._wake = lambda: None
        errors = [error for task in running if (error := task.exception()) is not None]
        if errors:
            raise ExceptionGroup("apps failed", [error for error in errors if isinstance(error, Exception)])
