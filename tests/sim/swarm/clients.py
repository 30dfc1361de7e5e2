"""The clients of one run of a whole system: producers, consumer groups of all kinds, and what each group still has to get."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from broker_node.broker import Broker
from delay_node.delay_node import DelayNode
from qmq.protocol.messages import decode_raw
from tests.sim.swarm.checks import GroupPlan
from tests.sim.swarm.history import History
from tests.sim.swarm.workload import Actor, Member, RawMember, Sender
from tests.sim.world.cluster import Cluster
from tests.support.disks.disk_work import read_and_repair

GROUPS = ("raw", "real", "tags", "broadcast", "once", "reset")
"""Kinds of consumer groups."""
PRODUCERS = 2
LEASE_SECONDS = 12.0
"""Consumers that are silent for so long lose what they hold, so that a run sees it."""
ONCE_LEASE_SECONDS = 180.0
"""At most once needs a lease of more than a minute."""


@dataclass(frozen=True)
class ClientMix:
    """What the clients of one run do."""

    subjects: int
    groups: tuple[str, ...]
    """Kinds of consumer groups, of GROUPS."""
    delayed: float
    """Share of messages with a due time."""
    batches: float
    """Share of sends that are a burst."""
    poison: float
    """Share of messages that handlers always give back."""
    gives_back: float
    """Share of other messages that handlers give back."""

    @property
    def lease_seconds(self) -> float:
        """Of consumers."""
        return ONCE_LEASE_SECONDS if "once" in self.groups else LEASE_SECONDS


class Clients:
    """Producers and consumers of a run."""

    def __init__(
        self,
        cluster: Cluster,
        history: History,
        mix: ClientMix,
        *,
        sender: type[Sender] = Sender,
        raw_member: type[RawMember] = RawMember,
    ) -> None:
        """`sender` and `raw_member` are what stands for them where broker groups have slaves."""
        self._cluster, self._history, self._mix = cluster, history, mix
        self._raw_member = raw_member
        self.subjects = [f"s{number}" for number in range(mix.subjects)]
        self.plans: list[GroupPlan] = []
        self.senders = [
            sender(
                cluster, history, f"p{number}", self.subjects,
                delayed=mix.delayed if number else 0.0, batches=mix.batches, poison=mix.poison,
            )
            for number in range(PRODUCERS)
        ]  # fmt: skip
        self.consumers: list[Actor] = []
        for kind in mix.groups:
            self._add(kind)

    @property
    def actors(self) -> Sequence[Actor]:
        """All programs."""
        return [*self.senders, *self.consumers]

    def start(self) -> None:
        """Start consumers, then producers."""
        for actor in [*self.consumers, *self.senders]:
            actor.start()

    def _add(self, kind: str) -> None:
        """Add the consumer groups of a kind."""
        first = self.subjects[0]
        match kind:
            case "raw":
                for subject in self.subjects:
                    group = f"raw-{subject}"
                    self.plans.append(GroupPlan(subject, group, is_exact=True))
                    for number in range(2):
                        self._add_raw(f"{group}-{number}", subject, group)
            case "real":
                for subject in self.subjects:
                    group = f"real-{subject}"
                    self.plans.append(GroupPlan(subject, group, gives_up=True))
                    for number in range(2):
                        self._add_member(f"{group}-{number}", subject, group)
            case "tags":
                self.plans.append(GroupPlan(first, "tags", tags=("a", "b"), gives_up=True))
                self._add_member("tags-0", first, "tags", tags=("a", "b"))
            case "broadcast":
                self.plans.append(GroupPlan(first, "broadcast-0"))
                self._add_member("broadcast-0", first, "broadcast-0", broadcast=True)
            case "once":
                self.plans.append(GroupPlan(first, "once", is_at_most_once=True))
                for number in range(2):
                    self._add_member(f"once-{number}", first, "once", at_most_once=True)
            case "reset":
                self._add_raw("reset-0", first, "reset", is_exact=False)

    def _add_raw(self, name: str, subject: str, group: str, **options: bool) -> None:
        member = self._raw_member(
            self._cluster, self._history, name, subject, group, lease=self._mix.lease_seconds, **options
        )
        self.consumers.append(member)

    def _add_member(self, name: str, subject: str, group: str, **options: object) -> None:
        member = Member(self._cluster, self._history, name, subject, group, gives_back=self._mix.gives_back, **options)
        self.consumers.append(member)

    # --- what they still have to get -------------------------------------------------------------------------------

    def undelivered(self) -> Iterator[str]:
        """What consumers still have to get: each acknowledged message, delivered and acked or given up."""
        history = self._history
        for name, host in self._cluster.serving_delay_nodes().items():
            if not isinstance(host.server, DelayNode) or host.server.store.pending > waiting_for_repair(host.server):
                yield f"messages of delay node {name}"
        readable = self._readable() if history.damaged else None
        delivered = {one.message_id for one in history.got}
        for plan in self.plans:
            if plan.is_at_most_once:
                continue
            got = {one.message_id for one in history.got if one.group == plan.group}
            for sent in history.sent.values():
                if readable is not None and sent.message_id not in readable:
                    continue
                # A cancel without an answer decided nothing about a message that was delivered.
                may_be_cancelled = sent.may_be_cancelled and sent.message_id not in delivered
                if not sent.is_acked or not plan.wants(sent) or sent.cancelled_ms is not None or may_be_cancelled:
                    continue
                key = (plan.group, sent.message_id)
                if sent.message_id not in got:
                    yield f"{plan.group} {sent.message_id}"
                elif plan.is_exact and key not in history.acks_tried:
                    yield f"{plan.group} {sent.message_id}, unacked"
                elif not plan.is_exact and key not in history.dead and key not in history.acked_by_client:
                    yield f"{plan.group} {sent.message_id}, unsettled"

    def _readable(self) -> set[str]:
        """Ids of the messages that brokers can read."""
        found = set()
        for host in self._cluster.serving().values():
            if isinstance(host.server, Broker):
                store = host.server.store
                for subject in store.subjects.values():
                    raws = read_and_repair(store, subject, subject.begin, subject.visible_end)
                    found |= {decode_raw(raw)[0].message_id for raw in raws if raw is not None}
        return found


def waiting_for_repair(node: DelayNode) -> int:
    """Due messages of subjects whose only broker group takes nothing because its log is damaged."""
    return sum(
        int(found["waiting"])
        for found in node.serving.dispatcher.lanes.problems(20)
        if "the message log is corrupted" in str(found["why"])
    )
