"""Brokers of a schedule of delay groups: they store what falls due, and fail over. Each is as small as a delay node lets it be."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from delay_node import batches
from delay_node.delay_node import DelayNode
from qmq.net.session import MetaSession
from qmq.protocol.codes import BrokerGroupState, ClientType, ResponseCode, SendResult
from qmq.protocol.commands import BrokerGroupRoute, SendFailure, encode_send_response
from qmq.protocol.frames import Frame
from qmq_node.server.connection import Connection
from qmq_node.server.server import FrameServer
from tests.sim.slaves.deliveries import POISON, Deliveries
from tests.sim.swarm.history import History
from tests.sim.swarm.workload import Actor
from tests.sim.world.cluster import Cluster
from tests.sim.world.network import SimulatedListener
from tests.support.drivers.wire import decode_entries

FIRST_PORT = 25_000
BROKERS = 2
"""Of the one broker group; one is its master."""
SEND_SECONDS = 1.0
"""How long delay nodes wait for an answer."""
REFUSAL_PAUSE_SECONDS = 0.05
"""Of delay nodes, so that a schedule is long enough for messages to be held."""
LEARNED_SECONDS = (0.1, 1.5)
"""Delay nodes learn of another master within this."""
BUSY = (SendResult.BROKER_BUSY, SendResult.STORE_ERROR, SendResult.BROKER_READ_ONLY)


class DueBroker(Actor):
    """One member of the broker group. What it stores as master, its group has."""

    def __init__(
        self, cluster: Cluster, history: History, name: str, port: int, group: "DueBrokers", odd_answers: float
    ) -> None:
        super().__init__(cluster, history, name)
        self.address = f"127.0.0.1:{port}"
        self._port, self._group = port, group
        self._odd_answers = odd_answers

    async def run(self) -> None:
        server = FrameServer(
            "127.0.0.1", self._port, self._handle, clock=self.clock, listen=SimulatedListener, checks_itself=False
        )
        await server.start()
        try:
            await self.stopping.wait()
        finally:
            await server.close(0)

    def _handle(self, connection: Connection, frame: Frame) -> None:
        """One SEND."""
        group = self._group
        if group.master is not self:
            connection.reply(frame, ResponseCode.BROKER_REJECT)
            return
        messages = decode_entries(frame.body)
        is_odd = not group.is_healed and self.rng.random() < self._odd_answers
        how = self.rng.choice(("lost", "late", "busy", "reject", "fails")) if is_odd else ""
        if how == "reject":
            connection.reply(frame, ResponseCode.BROKER_REJECT)
            return
        if how == "fails":
            group.deliveries.store(messages[: self.rng.randint(0, 1)])
            connection.reply(frame, ResponseCode.BROKER_ERROR)
            return
        refused = [m.message_id for m in messages if POISON in m.properties and not group.is_healed]
        failures = [SendFailure(message_id, SendResult.BLOCK, "refused") for message_id in refused]
        if how == "busy":
            result = self.rng.choice(BUSY)
            busy = [m.message_id for m in messages if self.rng.random() < 0.5 and m.message_id not in refused]
            failures += [SendFailure(message_id, result, "busy") for message_id in busy]
        failed = {failure.message_id for failure in failures}
        group.deliveries.store([m for m in messages if m.message_id not in failed])
        if how == "lost":
            connection.drop(frame)
            return
        answer = encode_send_response(failures)
        if how != "late":
            connection.reply(frame, ResponseCode.SUCCESS, answer)
            return
        loop = asyncio.get_running_loop()
        loop.call_later(self.rng.uniform(0.05, 2.5), connection.reply, frame, ResponseCode.SUCCESS, answer)


class DueBrokers:
    """The broker group, and what delay nodes know of it: its subjects are all that there are."""

    def __init__(
        self, cluster: Cluster, history: History, deliveries: Deliveries, subjects: list[str], odd_answers: float
    ) -> None:
        self._cluster = cluster
        self._subjects = subjects
        self._rng = cluster.loop.rng("due brokers")
        self.deliveries = deliveries
        self.is_healed = False
        """Whether all requests are answered in time, and nothing is refused any more."""
        self.members = [
            DueBroker(cluster, history, f"b{number + 1}", FIRST_PORT + number, self, odd_answers)
            for number in range(BROKERS)
        ]
        self.master = self._known = self.members[0]

    def start(self) -> None:
        """Start all."""
        for member in self.members:
            member.start()

    async def fail_over(self) -> None:
        """The other member is the master, and delay nodes learn that a moment later."""
        former = self.master
        self.master = next(member for member in self.members if member is not former)
        await asyncio.sleep(self._rng.uniform(*LEARNED_SECONDS))
        self._announce_master(former)

    def heal(self) -> None:
        """From now on all requests are answered in time, nothing is refused, and delay nodes know the master."""
        self.is_healed = True
        if self._known is not self.master:
            self._announce_master(self._known)

    def _announce_master(self, former: DueBroker) -> None:
        self._known = self.master
        for host in self._cluster.delay_nodes:
            if host.process is not None and isinstance(host.server, DelayNode):
                host.process.start(self._announce(host.server, former))

    async def _announce(self, node: DelayNode, former: DueBroker) -> None:
        if not node.replication.is_serving:
            return
        dispatcher = node.serving.dispatcher
        for subject in self._subjects:
            dispatcher.master_changed(subject, ClientType.PRODUCER, former.address)
            dispatcher.routes_changed(subject, ClientType.PRODUCER)

    def _routes(self, *_: object) -> tuple[BrokerGroupRoute, ...]:
        return (BrokerGroupRoute("g1", self._known.address, 0, BrokerGroupState.READ_WRITE),)

    @contextmanager
    def routed(self) -> Iterator[None]:
        """Have delay nodes send to this group, and retry soon."""
        with ExitStack() as stack:
            stack.enter_context(patch.object(MetaSession, "routes", self._routes))
            for name in ("start", "register", "refresh"):
                stack.enter_context(patch.object(MetaSession, name, _nothing))
            stack.enter_context(patch.object(batches, "REFUSAL_PAUSE_SECONDS", REFUSAL_PAUSE_SECONDS))
            yield


def _nothing(*_: object) -> None:
    """Do nothing."""
