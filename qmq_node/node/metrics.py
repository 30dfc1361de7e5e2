"""Prometheus metrics that every node with a log has beside those of every daemon."""

from collections.abc import Iterable

from prometheus_client.core import Metric

from qmq_node.daemon.metrics import DaemonMetrics
from qmq_node.node.node import Node
from qmq_node.node.storage import Storage
from qmq_node.process.counters import Buckets, MetricFamilies


def log_metrics(families: MetricFamilies, storage: Storage) -> Iterable[Metric]:
    """The metrics of a log and its disk, also of a node that does not serve."""
    log, space, write_watch = storage.log, storage.space, storage.write_watch
    yield families.gauge("log_end_bytes", "Log end offset", log.written_end)
    yield families.gauge("log_begin_bytes", "Log start offset", log.begin)
    yield families.gauge("disk_free_bytes", "Free space on the disk of the log", space.disk_free_bytes)
    yield families.gauge("disk_total_bytes", "Size of the disk of the log", space.disk_total_bytes)
    text = "For how long the disk has not completed a write that is under way"
    yield families.gauge("disk_stuck_seconds", text, write_watch.stuck_seconds)


class NodeMetrics(DaemonMetrics):
    """The metrics of one node. Names begin with `prefix`."""

    def __init__(self, node: Node, prefix: str) -> None:
        super().__init__(node, prefix, {"broker_group": node.options.broker_group})
        self._node = node
        self.commit_seconds = Buckets(0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5)
        self.commit_bytes = Buckets(256, 1024, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 8 << 20)
        node.committer.observe_commit = self.observe_commit

    def observe_commit(self, seconds: float, size: int) -> None:
        """Record a commit of `size` bytes."""
        self.commit_seconds.observe(seconds)
        self.commit_bytes.observe(size)

    def collect(self) -> Iterable[Metric]:
        yield from super().collect()
        node, log = self._node, self._node.log
        text = "Duration of a commit, write and sync (QMQ: putMessageTime)"
        yield self.commit_seconds.family(f"{self._prefix}_commit_seconds", text)
        yield self.commit_bytes.family(f"{self._prefix}_commit_bytes", "Size of a commit")
        yield self.counter("commits", "Commits written", node.committer.commits)
        yield self.gauge("unsynced_bytes", "Bytes appended and not synced yet", log.gather.pending_bytes)
        yield from log_metrics(self, node.storage)
        metaservers = node.registration.metaservers
        failures = metaservers.policies.failures if metaservers is not None else 0
        yield self.counter("policy_failures", "Policies that could not be fetched, stored or applied", failures)
        sessions = metaservers.sessions if metaservers is not None else ()
        registered = {session.url: float(session.is_registered) for session in sessions}
        text = "1 when the metaserver has accepted this node and its lease has not expired"
        yield self.gauge_by("metaserver_registered", text, "metaserver", registered)
        yield self.gauge("writable", "1 when sends are accepted", 0 if node.registration.refuse_sends() else 1)
