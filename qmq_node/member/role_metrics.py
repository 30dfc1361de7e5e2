"""Metrics of a node's role in its broker group."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from qmq.protocol.codes import ReplicaRole
from qmq_node.daemon.metrics import DaemonMetrics
from qmq_node.member.member_store import MemberStore
from qmq_node.node.metrics import log_metrics
from qmq_node.node.node import Node
from qmq_node.node.storage import Storage
from qmq_node.process.counters import MetricFamilies
from qmq_node.replication.master.leading import Leading

if TYPE_CHECKING:
    from qmq_node.member.replication import Replication


def role_metrics(families: MetricFamilies, role: "Replication") -> Iterable[Metric]:
    """The metrics of a node's role. Those of masters and slaves are there only while it is one."""
    member, gauge, gauge_by = role.member, families.gauge, families.gauge_by
    text = "Ranges of the log and of files of hours that are corrupted or can't be read, and are not repaired"
    yield gauge("damaged_ranges", text, role.damaged_ranges)
    yield from role.repairs.metrics(families)
    yield from role.scrubbing.metrics(families)
    yield from families.counters(role.machine.copy_counters)
    roles = {one.name.lower(): float(one is member.role) for one in ReplicaRole if one is not ReplicaRole.NONE}
    yield gauge_by("replication_role", "1 for the role of this node in its broker group", "role", roles)
    changes = role.machine.role_changes.by_role
    yield families.by("replication_role_changes", "Changes of the role, by the new one", "role", changes)
    yield gauge(
        "replication_epoch", "Highest epoch of the broker group that this node has stored", role.replica.state.epoch
    )
    text = "Log offset below which every in-sync member has everything"
    yield gauge("replication_high_watermark_bytes", text, role.log.high_watermark)
    if member.leading is not None:
        yield from _master_metrics(families, member.leading)
    if member.follower is not None:
        yield from families.counters(member.follower.counters)
        if (silent := member.follower.silent_seconds) is not None:
            yield gauge("replication_master_silent_seconds", "Time since the master sent something", silent)


def _master_metrics(families: MetricFamilies, leading: Leading) -> Iterable[Metric]:
    slaves, membership, gauge_by = leading.slaves(), leading.current_membership, families.gauge_by
    yield from families.counters(leading.counters)
    text = "From the sync of a commit on this node to its confirmation by all in-sync members"
    yield families.histogram("replication_confirm_seconds", text, leading.counters.confirm_seconds)
    text = "Members that have everything that was acknowledged"
    yield families.gauge("replication_in_sync_members", text, len(membership.in_sync))
    lag = {slave.node_id: slave.lag_bytes for slave in slaves}
    yield gauge_by("replication_lag_bytes", "Bytes of the log that a slave has not confirmed", "slave", lag)
    seconds = {slave.node_id: slave.lag_seconds for slave in slaves if slave.lag_seconds is not None}
    yield gauge_by("replication_lag_seconds", "For how long a slave has lacked what it lacks", "slave", seconds)


class MemberMetrics(DaemonMetrics):
    """The metrics of a member that does not serve clients."""

    def __init__(self, node: Node, role: "Replication", storage: Storage, store: MemberStore, prefix: str) -> None:
        super().__init__(node, prefix, {"broker_group": node.options.broker_group})
        self._role = role
        self._storage = storage
        self._store = store

    def collect(self) -> Iterable[Metric]:
        yield from super().collect()
        yield from log_metrics(self, self._storage)
        yield from role_metrics(self, self._role)
        yield from self._store.slave_metrics(self)
