"""Clients of a broker group with slaves, on the bare protocol: they connect to any member that lets them, also to an old master."""

from random import Random

from qmq.errors import QmqError
from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode, SendResult
from qmq.protocol.commands import decode_send_response
from qmq.protocol.messages import Message, encode_entry
from tests.sim.slaves.watch import GroupWatch
from tests.sim.swarm.history import Got, History, Sent
from tests.sim.swarm.workload import RAW_SECONDS, Actor, RawMember, true_ms
from tests.sim.world.cluster import Cluster

SIZES = (10, 10, 100, 300, 1000, 5000)
"""Bytes of messages."""
PAUSE_SECONDS = 0.2
"""Mean time between two requests of a producer."""


class Address:
    """A broker group as clients see it: a connection goes to the membership's master, or, now and then, to another member."""

    def __init__(self, cluster: Cluster, group: str, rng: Random) -> None:
        self._cluster, self.name, self._rng = cluster, group, rng

    @property
    def port(self) -> int:
        """The port of a member."""
        members = self._cluster.members(self.name)
        group = self._cluster.database.stored.groups.get(self.name)
        if group is not None and group.membership.master in members and self._rng.random() < 0.7:
            return members[group.membership.master].port
        return self._rng.choice(list(members.values())).port


class SlavesSender(Actor):
    """Sends single messages and small batches, and notes what was answered."""

    def __init__(self, cluster: Cluster, history: History, watch: GroupWatch, name: str, subjects: list[str]) -> None:
        super().__init__(cluster, history, name)
        self._watch = watch
        self._subjects = subjects
        self._address = Address(cluster, "g1", self.rng)
        self._count = 0
        self.requests = 0

    async def run(self) -> None:
        while not self.stopping.is_set():
            caller = Caller("127.0.0.1", self._address.port, connect_seconds=1.0)
            try:
                await caller.connect()
                while not self.stopping.is_set() and not caller.is_closed and await self._send(caller):
                    await self.nap(self.rng.expovariate(1 / PAUSE_SECONDS))
            except QmqError:
                pass
            finally:
                await caller.close()
            await self.nap(self.rng.random() * 0.5)

    async def _send(self, caller: Caller) -> bool:
        """Send one or several; False if another member should be asked."""
        batch = [self._message() for _ in range(self.rng.choice((1, 1, 1, 3)))]
        self.requests += 1
        body = b"".join(encode_entry(message) for message in batch)
        frame = await caller.call(Command.SEND_MESSAGE, body, timeout_s=RAW_SECONDS)
        if frame.code != ResponseCode.SUCCESS:
            return False
        failures = decode_send_response(frame.body)
        for message in batch:
            sent, failure = self.history.sent[message.message_id], failures.get(message.message_id)
            if failure is None:
                sent.is_acked, sent.broker_group, sent.attempts = True, "g1", 1
                self._watch.seen(message.message_id, "acknowledged")
            elif failure.result != SendResult.MESSAGE_DUPLICATE:
                sent.is_refused = True
        return not failures

    def _message(self) -> Message:
        self._count += 1
        now = true_ms(self.cluster)
        message_id = f"{self.name}.{self.starts}.{self._count}"
        data = f"<{message_id}>" + "x" * self.rng.choice(SIZES)
        properties = {"qmq_createTime": str(now), "data": data}
        subject = self.rng.choice(self._subjects)
        self.history.sent[message_id] = Sent(message_id, subject, properties, (), now)
        return Message(subject, message_id, properties, (), 0, now, now)


class SlavesConsumer(RawMember):
    """Pulls and acks, and notes which acks were confirmed."""

    nap_share = 0.7

    def __init__(
        self, cluster: Cluster, history: History, watch: GroupWatch, name: str, subject: str, lease: float
    ) -> None:
        super().__init__(cluster, history, name, subject, f"group-{subject}", lease=lease)
        self._watch = watch
        self._address = Address(cluster, "g1", self.rng)

    async def run(self) -> None:
        await self._follow(self._address, self.subject)

    def _note(self, message: Message, source: str, broker_group: str, number: int, life: int) -> None:
        super()._note(message, source, broker_group, number, life)
        self._watch.seen(message.message_id, "delivered")


__all__ = ["Address", "Got", "SlavesConsumer", "SlavesSender"]
