"""What producers and consumers have in common: start, close, failure, the first connection to a broker, and what happens to those
that are not closed: when the process ends, and in a forked child."""

import asyncio
import atexit
import logging
import os
import sys
import weakref
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from qmq.errors import ClientClosed, ClientFailed, ClientForked, QmqError, RouteUnknown
from qmq.net.pool import Pool
from qmq.net.routing import READABLE, WRITABLE, usable
from qmq.net.session import MetaSession
from qmq.net.timing import Backoff
from qmq.protocol.codes import BrokerGroupState, ClientType
from qmq.protocol.commands import BrokerGroupRoute
from qmq.words import seconds as seconds_text

MARGIN_SECONDS = 5.0
"""How much longer than its time limit a client's `close` may take when the process ends."""

logger = logging.getLogger("qmq.client")

_STATES = {int(state): state.name.lower() for state in BrokerGroupState}


class Client:
    """Base of Producer and Consumer: `async with` starts and closes it."""

    loop: asyncio.AbstractEventLoop
    """The event loop on which it was started."""
    must_close_at_exit = True
    """Whether it is closed when the process ends, if its event loop still runs then; False for one that another client closes."""
    close_seconds: float
    """How long `close` takes at most by default."""
    _is_open = False
    _is_forked = False
    _is_reported = False

    def _opened(self) -> None:
        self._is_open = True
        self.loop = asyncio.get_running_loop()
        open_clients.add(self)

    def check_process(self) -> None:
        """Raise ClientForked if it was started before this process was forked."""
        if self._is_forked:
            raise client_forked()

    def check_started(self) -> None:
        """Raise ClientForked, as `check_process`, or ClientClosed if it was never started; a closed one was."""
        self.check_process()
        if not hasattr(self, "loop"):
            raise ClientClosed("this client is not started. Use it in a `with` block, or call `start`")

    def forked(self) -> None:
        """This is a child of the process that started the client: every use raises ClientForked from now on."""
        self._is_open, self._is_forked = False, True

    def warn_unclosed(self, why: str) -> None:
        """Log once what is lost or late because it was not closed, if there is anything."""
        if self.must_close_at_exit and not self._is_reported and (what := self._unfinished()):
            self._is_reported = True
            logger.warning("%s: it was not closed before %s. Close clients, by `async with` or `close`", what, why)

    def _unfinished(self) -> str:
        """What it has not finished, with the number of messages; "" for nothing."""
        raise NotImplementedError

    def __del__(self) -> None:
        if self._is_open:
            self.warn_unclosed("it was deleted")

    async def start(self) -> None:
        raise NotImplementedError

    async def close(self, timeout: float | None = None) -> list[str]:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except ClientFailed:
            # The block's own exception says more, and may be this failure.
            if error is None:
                raise


def client_forked() -> ClientForked:
    """The error of a client that a child of its process uses."""
    return ClientForked(
        "this client was used before a fork, and its connections belong to the parent process. Create the client in the child"
        " process"
    )


def client_failed(what: str, error: BaseException) -> ClientFailed:
    """The error of a producer or consumer whose background task failed, with the task's exception as its cause."""
    if isinstance(error, ClientForked):
        return client_forked()
    failure = ClientFailed(f"the {what} failed: {error}")
    failure.__cause__ = error.__cause__ or error
    return failure


class OpenClients:
    """The clients of this process that are started and not closed."""

    def __init__(self) -> None:
        self._clients: weakref.WeakSet[Client] = weakref.WeakSet()
        self._is_registered = False

    def add(self, client: Client) -> None:
        self._clients.add(client)
        if not self._is_registered:
            self._is_registered = True
            # Children of `multiprocessing` end without the functions of atexit.
            if (util := sys.modules.get("multiprocessing.util")) is not None:
                util.Finalize(None, self.close_all, exitpriority=0)

    def discard(self, client: Client) -> None:
        self._clients.discard(client)

    def close_all(self) -> None:
        """Close the clients whose event loops run in other threads, all at the same time, and report what the others leave behind.

        Called when the process ends. The blocking clients' loop still runs then, and so do loops in daemon threads.
        """
        closing: list[tuple[Client, Future[list[str]]]] = []
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


async def reach(
    session: MetaSession,
    pool: Pool,
    subject: str,
    client_type: ClientType,
    group: str,
    *,
    seconds: float,
    backoff: Backoff,
) -> list[BrokerGroupRoute]:
    """The usable routes of a subject, once one of their nodes accepts a connection. Raises RouteUnknown with what to do."""
    states = READABLE if client_type is ClientType.CONSUMER else WRITABLE
    problem = ""
    failures = 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                known = await session.wait_routes(subject, client_type, group)
                routes = usable(known, states)
                if not routes:
                    listed = ", ".join(f"{route.name} ({_STATES.get(route.state, route.state)})" for route in known)
                    problem = f"none of the subject's broker groups is available: {listed}. Check their state with `qmq status`"
                for route in routes:
                    try:
                        await pool.get(route.master)
                        return routes
                    except QmqError as error:
                        problem = f"{route.name}: {error}. Check that the node is running and its address is reachable from here."
                failures += 1
                session.refresh(subject, client_type)
                await asyncio.sleep(backoff.pause(failures))
    except (TimeoutError, RouteUnknown) as error:
        what = "delay node" if client_type is ClientType.DELAY_PRODUCER else "broker"
        if not problem and session.last_error:
            problem = f"{session.last_error}. Check that the metaserver is running at this address."
        elif not problem:
            problem = f"the metaserver has no usable {what} for it. Start one; `qmq status` lists registered groups"
        raise RouteUnknown(
            f"no {what} could be reached for subject {subject} through {session.metaservers} in {seconds_text(seconds)}: {problem}"
        ) from error
