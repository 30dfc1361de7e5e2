"""What producers and consumers have in common: start, close, failure, and the first connection to a broker."""

import asyncio
import logging
from types import TracebackType
from typing import Self

from qmq.client.open_clients import client_forked, open_clients
from qmq.errors import ClientFailed, ClientForked, QmqError, RouteUnknown
from qmq.net.pool import Pool
from qmq.net.routing import READABLE, WRITABLE, usable
from qmq.net.session import MetaSession
from qmq.net.timing import Backoff
from qmq.protocol.codes import BrokerGroupState, ClientType
from qmq.protocol.commands import BrokerGroupRoute
from qmq.words import seconds as seconds_text

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

    def forked(self) -> None:
        """This is a child of the process that started the client."""
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


def client_failed(what: str, error: BaseException) -> ClientFailed:
    """The error of a producer or consumer whose background task failed, with the task's exception as its cause."""
    if isinstance(error, ClientForked):
        return client_forked()
    failure = ClientFailed(f"the {what} failed: {error}")
    failure.__cause__ = error.__cause__ or error
    return failure


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
