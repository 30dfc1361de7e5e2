"""What became of the messages of a schedule of delay groups, and what must hold of each delivery."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from delay_node.batches import BatchSender
from delay_node.delay_node import DelayNode
from delay_node.group_clock import GroupClock
from delay_node.lanes import Item
from delay_node.schedule_log import message_id_of
from delay_node.trusted_clock import STEP_ACCEPTED_MS
from qmq.protocol.commands import SendFailure
from qmq.protocol.messages import Message
from qmq_node.node.storage import Storage
from tests.sim.slaves.hooks import Hook
from tests.sim.slaves.watch import GroupWatch
from tests.sim.swarm.history import Broken, History, Sent
from tests.sim.swarm.workload import true_ms
from tests.sim.world.cluster import Cluster, Host

POISON = "poison"
"""A property of messages that brokers refuse."""


@dataclass(slots=True)
class Delayed:
    """A message: what its sender knows, and what became of it."""

    sent: Sent
    """`due_ms`: its due time as the last confirmed answer says."""
    begins: int
    """How often a member had begun to serve when it was sent."""
    unknown_dues_ms: list[int] = field(default_factory=list)
    """Due times of reschedules without an answer."""
    delivered: int = 0
    answered: int = 0
    """Deliveries whose answer reached the delay node."""

    @property
    def earliest_ms(self) -> int:
        """The earliest due time that it may have."""
        assert self.sent.due_ms is not None
        return min(self.sent.due_ms, *self.unknown_dues_ms) if self.unknown_dues_ms else self.sent.due_ms

    @property
    def is_certain(self) -> bool:
        """Whether it was accepted, and no cancel was confirmed or is without an answer: it must be delivered."""
        sent = self.sent
        return sent.is_acked and sent.cancelled_ms is None and not sent.may_be_cancelled


class Deliveries:
    """Looks at each delivery. What is broken goes to the history."""

    def __init__(self, cluster: Cluster, history: History, watch: GroupWatch, *, are_changes_planned: bool) -> None:
        """`are_changes_planned`: whether masters change by switch-overs alone, which repeat nothing."""
        self._are_changes_planned = are_changes_planned
        self._cluster, self._history, self._watch = cluster, history, watch
        self.messages: dict[str, Delayed] = {}
        """By message id."""
        self._begins = 0
        """How often a member began to serve: what is claimed, and not recorded as delivered, is sent again then."""
        self._followed: set[GroupClock] = set()
        """Clocks of nodes that followed a master."""
        self._ahead_ms = 0
        """How far ahead of true time the group's may be."""
        watch.hooks += [
            Hook(Storage, "make_committer", self._serves),
            Hook(BatchSender, "_claim", self._sends, is_before=True),
            Hook(BatchSender, "_apply_results", self._answered),
            Hook(GroupClock, "stated", lambda clock, *_: self._followed.add(clock)),
        ]

    def send(self, sent: Sent) -> Delayed:
        """Note a message before it is sent."""
        self._history.sent[sent.message_id] = sent
        found = self.messages[sent.message_id] = Delayed(sent, self._begins)
        return found

    def _serves(self, storage: Storage) -> None:
        """A member begins to write to the log of its group."""
        node = storage._node
        if not isinstance(node, DelayNode) or not self._watch.owns(storage.log):
            return
        self._begins += 1
        _, host = self._watch.node_of(storage.log)
        if node.data.group_time not in self._followed:
            # It had no master to compare its clock with.
            self._ahead_ms = max(self._ahead_ms, host.clock.offset_ms)

    def clock_steps(self, host: Host, by_ms: int) -> None:
        """A clock steps. If only a little, the group's time may follow."""
        if host.clock.offset_ms + by_ms <= STEP_ACCEPTED_MS:
            self._ahead_ms = max(self._ahead_ms, host.clock.offset_ms + by_ms)

    def _sends(self, _: BatchSender, items: list[Item]) -> None:
        """A delay node is about to send a frame. Only a failover or a lost answer has it repeat a message."""
        for item in items:
            found = self.messages.get(message_id_of(item.data))
            if found is None or self._watch.has_lost:
                continue
            begins = 0 if self._are_changes_planned else self._begins - found.begins
            if found.answered > begins:
                what = f"{found.sent.message_id} is sent again, and {found.answered} deliveries of it were answered"
                self._break("repeated", f"{what}; since it was sent a member began to serve {begins} times")

    def _answered(self, _: BatchSender, items: list[Item], failures: dict[str, SendFailure], *__: object) -> None:
        """The answer to a frame has reached a delay node."""
        for item in items:
            message_id = message_id_of(item.data)
            if message_id not in failures and message_id in self.messages:
                self.messages[message_id].answered += 1

    def store(self, messages: Iterable[Message]) -> None:
        """A broker stores messages that a delay node sent."""
        now_ms = true_ms(self._cluster)
        for message in messages:
            self._history.counts["delivered"] = self._history.counts.get("delivered", 0) + 1
            found = self.messages.get(message.message_id)
            if found is None:
                self._break("phantom", f"never sent: {message.message_id}")
                continue
            found.delivered += 1
            self._check(found, message, now_ms)

    def _check(self, found: Delayed, message: Message, now_ms: int) -> None:
        sent, name = found.sent, message.message_id
        self._watch.seen(name, "delivered")
        if message.subject != sent.subject or message.properties["data"] != sent.properties["data"]:
            self._break("content", f"not as it was sent: {name}")
        if self._watch.has_lost:
            # What was claimed, cancelled or rescheduled may be lost, too.
            return
        if sent.is_refused:
            self._break("phantom", f"{name} was refused, and is delivered")
        if (early_ms := found.earliest_ms - self._ahead_ms - now_ms) > 0:
            self._break("early", f"{name} is delivered {early_ms} ms before its time, {found.earliest_ms}")
        if sent.cancelled_ms is not None:
            self._break("cancelled", f"{name} is delivered though cancelled at {sent.cancelled_ms}")

    def changed(self, found: Delayed, how: str) -> None:
        """A change of a message was confirmed: until then it was not delivered. One that is held may have been."""
        if found.delivered and POISON not in found.sent.properties and not self._watch.has_lost:
            self._break("too_late", f"{found.sent.message_id} was delivered, and {how} was confirmed later")

    def _break(self, check: str, what: str) -> None:
        self._watch.report(check, what)

    @property
    def undelivered(self) -> list[Delayed]:
        """Those that must be delivered, and are not yet."""
        lost = self._watch.lost_ids
        return [
            found
            for name, found in self.messages.items()
            if found.is_certain and not found.delivered and name not in lost
        ]

    def check_all(self) -> None:
        """Check that everything accepted is delivered or cancelled; at the end."""
        for found in self.undelivered:
            self._history.broken.append(Broken("lost", f"acknowledged and never delivered: {found}"))
