"""What producers and consumers have in common: start, close, failure, and the first connection to a broker."""

import asyncio
from types import TracebackType
from typing import Self

from qmq.errors import ClientFailed, QmqError, RouteUnknown
from qmq.net.pool import Pool
from qmq.net.routing import READABLE, WRITABLE, usable
from qmq.net.session import MetaSession
from qmq.net.timing import Backoff
from qmq.protocol.codes import BrokerGroupState, ClientType
from qmq.protocol.commands import BrokerGroupRoute
from qmq.words import seconds as seconds_text

_STATES = {int(state): state.name.lower() for state in BrokerGroupState}


class Client:
    """Base of Producer and Consumer: `async with` starts and closes it."""

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
