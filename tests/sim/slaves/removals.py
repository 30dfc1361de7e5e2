"""What retention may remove in a broker group with slaves: only what is committed, too old, and needed by no slave that gets on."""

from collections import defaultdict
from typing import Any

from qmq_node.log.log import SegmentedLog
from qmq_node.member.replication import Replication
from qmq_node.replication.master import retention_holds
from qmq_node.replication.master.leading import Leading
from qmq_node.replication.master.retention_holds import RetentionHolds
from qmq_node.replication.rules.membership import Membership
from tests.sim.slaves.committed import MARK
from tests.sim.slaves.hooks import Hook
from tests.sim.slaves.member_logs import durable_state
from tests.sim.slaves.watch import GroupWatch
from tests.sim.swarm.history import History
from tests.sim.swarm.workload import true_ms
from tests.sim.world.cluster import Cluster

AGE_TOLERANCE_MS = 1_000
"""Steps of the wall clock up to this much count towards ages."""


class RemovalWatch:
    """Looks at each removal of segments, and at each log that a member discards. What is broken goes to the history."""

    def __init__(self, cluster: Cluster, history: History, watch: GroupWatch, keep_seconds: float) -> None:
        """`keep_seconds`: how long messages are kept; 0.0: ages are not checked, because clocks step."""
        self._cluster, self._history, self._watch = cluster, history, watch
        self._keep_ms = round(keep_seconds * 1000)
        self._needed: dict[RetentionHolds, dict[str, tuple[int, float]]] = defaultdict(dict)
        """By master and slave: the log offset that the slave needs next, as it told the master, and until when it is held. A time
        is monotonic."""
        self._leading: dict[SegmentedLog, Leading] = {}
        """By log, the master that writes it."""
        cluster.database.on_membership.append(self._membership_changed)
        watch.hooks += [
            Hook(SegmentedLog, "hide_before", self._removes, is_before=True),
            Hook(Leading, "start", self._leads),
            Hook(RetentionHolds, "hold", self._heard),
            Hook(Replication, "_clear", self._discards, is_before=True),
        ]

    def _heard(self, holds: RetentionHolds, slave: str, offset: int, now: float, **_: Any) -> None:
        """A slave told its master what it needs next. Only progress renews the promise to keep that."""
        if self._watch.membership is not None and slave not in self._watch.membership.members:
            return
        known = self._needed[holds].get(slave)
        until = now + retention_holds.HOLD_SECONDS if known is None or offset > known[0] else known[1]
        self._needed[holds][slave] = offset, until

    def _membership_changed(self, name: str, before: Membership, membership: Membership) -> None:
        """Nothing is held for a node that was removed, also if it joins again later."""
        for node in set(before.members) - set(membership.members) if name == self._watch.group else ():
            for needed in self._needed.values():
                needed.pop(node, None)

    def _leads(self, leading: Leading) -> None:
        self._leading[leading.log] = leading

    def _removes(self, log: SegmentedLog, offset: int) -> None:
        """A member removes whole segments below a log offset."""
        watch = self._watch
        if not watch.owns(log):
            return
        node, _ = watch.node_of(log)
        end = max((info.end for info in log.stored.segments()[:-1] if info.end <= offset), default=0)
        if end <= watch.removed_to:
            return
        if log.is_slave:
            if node not in watch.damaged:
                text = f"{node}, a slave, removes up to {end}, and no master removed more than {watch.removed_to}"
                watch.report("retention", text)
            return
        if watch.loses(log):
            return
        if end > min(len(watch.committed), log.high_watermark):
            watch.report("retention", f"{node} removes up to {end}, and {len(watch.committed)} bytes are committed")
        if (leading := self._leading.get(log)) is not None:
            now = leading.clock.monotonic()
            for slave, (needed, until) in self._needed[leading._holds].items():
                if needed < end and now < until:
                    watch.report("retention", f"{node} removes up to {end}, and {slave}, which gets on, needs {needed}")
        self._remove_messages(node, end)

    def _remove_messages(self, node: str, end: int) -> None:
        watch = self._watch
        removed = {message_id.decode() for message_id in MARK.findall(watch.committed[watch.removed_to : end])}
        before_ms = true_ms(self._cluster) - self._keep_ms + AGE_TOLERANCE_MS
        for sent in (self._history.sent[message_id] for message_id in removed) if self._keep_ms else ():
            if sent.at_ms > before_ms:
                watch.report(
                    "retention", f"{node} removes {sent.message_id}, which is {sent.at_ms - before_ms} ms too young"
                )
        watch.removed_ids |= removed
        watch.removed_to = end

    def _discards(self, member: Replication, *_: object) -> None:
        """A member discards its log, and begins again with a copy."""
        watch, node = self._watch, member.member.node_id
        if node not in watch.hosts:
            return
        # One that does not know yet that an operator has promoted it may copy a master that should not run any more.
        knows_decision = watch.knows_decision(durable_state(watch.hosts[node]).epoch)
        if node in watch.in_sync_nodes() - watch.damaged and knows_decision:
            watch.report("in_sync", f"{node} discards its log, and is in sync")
        watch.discarded(node)
        self._history.counts["copies"] = self._history.counts.get("copies", 0) + 1
