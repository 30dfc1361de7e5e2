"""What happens to clients that are not closed: when the process ends, and in a forked child."""

import asyncio
import atexit
import logging
import os
import sys
import weakref
from concurrent.futures import Future
from typing import Protocol

from qmq.errors import ClientForked

MARGIN_SECONDS = 5.0
"""How much longer than its time limit a client's `close` may take when the process ends."""

logger = logging.getLogger("qmq.client")


def client_forked() -> ClientForked:
    """The error of a client that a child of its process uses."""
    return ClientForked(
        "this client was used before a fork, and its connections belong to the parent process. Create the client in the child"
        " process"
    )


class OpenClient(Protocol):
    """What the registry requires of a client."""

    loop: asyncio.AbstractEventLoop
    """The loop that it was started on."""
    must_close_at_exit: bool
    """False for a client that another one closes."""

    close_seconds: float
    """How long `close` takes at most."""

    async def close(self) -> list[str]: ...

    def warn_unclosed(self, why: str) -> None:
        """Log how many messages are lost or late because the client was not closed, if there are any."""

    def forked(self) -> None:
        """This is a child of the client's process: every use raises ClientForked from now on."""


class OpenClients:
    """The clients of this process that are started and not closed."""

    def __init__(self) -> None:
        self._clients: weakref.WeakSet[OpenClient] = weakref.WeakSet()
        self._is_registered = False

    def add(self, client: OpenClient) -> None:
        self._clients.add(client)
        if not self._is_registered:
            self._is_registered = True
            # Children of `multiprocessing` end without the functions of atexit.
            if (util := sys.modules.get("multiprocessing.util")) is not None:
                util.Finalize(None, self.close_all, exitpriority=0)

    def discard(self, client: OpenClient) -> None:
        self._clients.discard(client)

    def close_all(self) -> None:
        """Close the clients whose event loops run in other threads, all at the same time, and report what the others leave behind.

        Called when the process ends. The blocking clients' loop still runs then, and so do loops in daemon threads.
        """
        closing: list[tuple[OpenClient, Future[list[str]]]] = []
        for client in [client for client in self._clients if client.must_close_at_exit]:
            if client.loop.is_running():
                closing.append((client, asyncio.run_coroutine_threadsafe(client.close(), client.loop)))
            else:
                client.warn_unclosed("the process ended")
        for client, future in closing:
            try:
                future.result(client.close_seconds + MARGIN_SECONDS)
            except TimeoutError:
                client.warn_unclosed("the process ended; its event loop is blocked")
            except Exception as error:  # noqa: BLE001 - logged, and the other clients are closed
                logger.error("a client could not be closed when the process ended: %s", error)

    def forked(self) -> None:
        """In a forked child: the clients' connections and tasks belong to the parent, and may not be touched."""
        for client in list(self._clients):
            client.forked()
        self._clients.clear()
        self._is_registered = False


open_clients = OpenClients()
atexit.register(open_clients.close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=open_clients.forked)
