"""class Metaservers: a node's registrations with all metaservers, and whose decisions it follows.

The node serves with or without metaservers: leases make refusals fast after a promotion and are not needed for safety. Each
metaserver has a session of its own, so one that can't be reached never delays the heartbeats to another.

Metaservers read changes of operators from the database at different moments. So that the node does not alternate between two
policies, it follows one metaserver at a time: the first one in the list that answered within its lease and names a policy. One
that names none (it refuses the node, or can't read the database) is followed only while no other one does better. While no
metaserver answers, the last decision stays.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

from qmq.clock import Clock
from qmq.net.node_secret import NodeSecret
from qmq.protocol.codes import BrokerRequestType
from qmq.protocol.extensions import NodeRegisterRequest, NodeRegisterResponse
from qmq.protocol.frames import Frame
from qmq.supervisor import Supervisor
from qmq_node.metaservers.metaserver_session import MetaserverSession
from qmq_node.metaservers.policy_fetcher import PolicyFetcher

logger = logging.getLogger("qmq.metaservers")


@dataclass(eq=False, repr=False)
class Metaservers:
    """Keeps one node registered with the metaservers whose address pages are `urls`; see `qmq.net.discovery.meta_urls`."""

    urls: InitVar[Sequence[str]]
    describe: Callable[[BrokerRequestType], NodeRegisterRequest]
    """The request to send, by request type; called for each heartbeat to each metaserver."""
    _on_answer: Callable[[NodeRegisterResponse], None]
    """Called with every answer of the metaserver that is followed."""
    on_policy: InitVar[Callable[[bytes], Awaitable[None]]]
    """As `PolicyFetcher` calls it."""
    _clock: Clock
    _supervisor: Supervisor
    secret: InitVar[NodeSecret | None] = None
    pushed: Callable[[Frame], None] | None = None
    """Called with each request that a metaserver sends; None: there are none for this kind of node."""
    sessions: tuple[MetaserverSession, ...] = field(init=False)
    """In the order of the list."""
    policies: PolicyFetcher = field(init=False)
    followed: MetaserverSession | None = field(default=None, init=False)
    """The metaserver whose decisions apply; None before the first answer."""
    _task: asyncio.Task[None] | None = field(default=None, init=False)

    def __post_init__(
        self, urls: Sequence[str], on_policy: Callable[[bytes], Awaitable[None]], secret: NodeSecret | None
    ) -> None:
        clock, supervisor = self._clock, self._supervisor
        self.sessions = tuple(MetaserverSession(url, self, clock, supervisor, secret) for url in urls)
        self.policies = PolicyFetcher(on_policy, self.soon, clock, supervisor)

    def start(self) -> None:
        """Begin to register, on the running loop."""
        self._task = self._supervisor.critical("metaservers", self._run())

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for session in self.sessions:
                tasks.create_task(session.run())

    def soon(self) -> None:
        """Send the next heartbeats now, because the node's state changed."""
        for session in self.sessions:
            session.soon()

    async def close(self) -> None:
        """Deregister from all metaservers at the same time, within CALL_SECONDS of `metaserver_session`."""
        if self._task is not None:
            await self._supervisor.cancel(self._task)
        await self.policies.close()
        await asyncio.gather(*(session.leave() for session in self.sessions))

    def problem(self) -> str:
        """Why no metaserver has answered a registration since the start; "" when one has."""
        return "" if self.followed is not None else self.unregistered()

    def unregistered(self) -> str:
        """Which metaservers the node is not registered with at present, and why; "" when it is registered with all."""
        return "; ".join(f"{one.url}: {one.problem or 'no answer'}" for one in self.sessions if not one.is_registered)

    def report(self) -> list[dict[str, Any]]:
        """All sessions for the page `/stats`, in the order of the list."""
        return [{**session.report(), "is_followed": session is self.followed} for session in self.sessions]

    def in_order(self) -> list[MetaserverSession]:
        """Return all sessions, that with the metaserver that is followed first."""
        return sorted(self.sessions, key=lambda session: session is not self.followed)

    # --- of sessions -------------------------------------------------------------------------------------------------

    def session_at(self, address: str) -> MetaserverSession | None:
        """The session that uses the metaserver at this TCP address."""
        return next((session for session in self.sessions if session.address == address), None)

    def answered(self, session: MetaserverSession, request: NodeRegisterRequest) -> None:
        """A registration or heartbeat was answered: choose the metaserver to follow, and apply its last answer."""
        chosen, before = self._chosen(session), self.followed
        if before is not None and chosen is not before:
            why = (
                "it is behind in the list"
                if before.knows_policy
                else before.problem or "it names no policy, or does not answer"
            )
            logger.info("following the decisions of metaserver %s instead of %s: %s", chosen.url, before.url, why)
        self.followed = chosen
        assert chosen.last is not None
        self._on_answer(chosen.last)
        self.policies.check(chosen.caller, request, chosen.last.policy_version)

    def _chosen(self, answered: MetaserverSession) -> MetaserverSession:
        current = [one for one in self.sessions if one.has_lease]
        return next((one for one in current if one.knows_policy), current[0] if current else answered)
