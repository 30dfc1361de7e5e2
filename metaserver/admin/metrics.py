"""The metaserver's Prometheus metrics; texts name the metrics of QMQ that operators know."""

from collections.abc import Iterable
from typing import Protocol

from prometheus_client.core import Metric

from metaserver.choices import GroupState
from metaserver.memory.directory import Directory
from metaserver.replication.membership_changes import MembershipChanges
from metaserver.requests.handlers import MetaHandlers
from metaserver.stored.route_file import RouteFile
from metaserver.stored.write_behind import WriteBehind
from qmq.clock import Clock
from qmq_node.daemon.daemon import Daemon
from qmq_node.daemon.metrics import DaemonMetrics


class MeasuredMetaserver(Protocol):
    """What metrics and pages read of a metaserver."""

    clock: Clock
    tcp_address: str
    directory: Directory
    handlers: MetaHandlers
    write_behind: WriteBehind
    route_file: RouteFile
    membership_changes: MembershipChanges


class MetaMetrics(DaemonMetrics):
    def __init__(self, daemon: Daemon, metaserver: MeasuredMetaserver) -> None:
        super().__init__(daemon, "qmq_meta")
        self._metaserver = metaserver

    def collect(self) -> Iterable[Metric]:
        yield from super().collect()
        meta = self._metaserver
        handlers, write_behind = meta.handlers, meta.write_behind
        yield from self.counters(
            handlers.counters, write_behind.counters, meta.route_file.counters, meta.membership_changes.counters
        )
        registrations, is_saved = handlers.registrations, not meta.route_file.save_problem
        restored, promotions = handlers.restored_memberships.blocked, handlers.promotions.blocked
        for name, text, value in (
            ("database_up", "1 when the database responds", not write_behind.problem),
            ("unstored_things", "Changes not stored yet", write_behind.pending),
            ("route_file_saved", "1 when the last save of the route file succeeded", is_saved),
            ("registrations", "Registrations that receive pushed routes", len(registrations)),
            ("held_registrations", "Registrations that wait for a usable broker group", registrations.pending_count),
            ("restored_memberships", "Broker groups whose stored membership is older than a known one", len(restored)),
            ("blocked_promotions", "Broker groups that need another master, and have none", len(promotions)),
            ("subjects", "Subjects routed", len(meta.directory.routes)),
        ):
            yield self.gauge(name, text, value)
        groups = meta.directory.groups
        memberships = {name: live.membership for name, live in groups.items()}
        is_live = {name: int(live.state is not GroupState.OFFLINE) for name, live in groups.items()}
        for name, text, values in (
            (
                "broker_group_epoch",
                "Epoch, which rises with each promotion",
                {name: one.epoch for name, one in memberships.items()},
            ),
            ("broker_group_members", "Members", {name: len(one.members) for name, one in memberships.items()}),
            ("broker_group_in_sync", "Members in sync", {name: len(one.in_sync) for name, one in memberships.items()}),
            (
                "broker_group_copies",
                "Members that it should have",
                {name: one.copies for name, one in memberships.items()},
            ),
            ("broker_group_live", "1 when the group is not offline", is_live),
        ):
            yield self.gauge_by(name, text, "broker_group", values)
