"""Prometheus metrics that every node with a log has, read from its counters when somebody asks."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Histogram, Metric
from prometheus_client.registry import Collector, CollectorRegistry

from qmq.daemon.job_metrics import job_metrics

if TYPE_CHECKING:
    from qmq.daemon.node import Node


class NodeMetrics(Collector):
    """Collects from a node; histograms are kept here. Names begin with `prefix`."""

    def __init__(self, node: "Node", prefix: str) -> None:
        self._node = node
        self.prefix = prefix
        self.labels = {"broker_group": node.options.group}
        self.registry = CollectorRegistry()
        self.commit_seconds = Histogram(
            f"{prefix}_commit_seconds",
            "Duration of a commit, write and sync (QMQ: putMessageTime)",
            buckets=(0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5),
            registry=self.registry,
        )
        self.commit_bytes = Histogram(
            f"{prefix}_commit_bytes",
            "Size of a commit",
            buckets=(256, 1024, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 8 << 20),
            registry=self.registry,
        )
        self.registry.register(self)

    def counter(self, name: str, text: str, value: float) -> Metric:
        """A counter of the whole node."""
        family = CounterMetricFamily(f"{self.prefix}_{name}", text, labels=list(self.labels))
        family.add_metric(list(self.labels.values()), value)
        return family

    def gauge(self, name: str, text: str, value: float) -> Metric:
        """A gauge of the whole node."""
        family = GaugeMetricFamily(f"{self.prefix}_{name}", text, labels=list(self.labels))
        family.add_metric(list(self.labels.values()), value)
        return family

    def by(self, name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
        """A counter apart by one more label."""
        family = CounterMetricFamily(f"{self.prefix}_{name}", text, labels=[*self.labels, label])
        for key, value in values.items():
            family.add_metric([*self.labels.values(), key], value)
        return family

    async def families(self) -> list[Metric]:
        """All families. What grows with subjects is read in slices, between which the event loop serves clients."""
        return list(self.registry.collect())

    def collect(self) -> Iterable[Metric]:
        node, server, log = self._node, self._node.server.metrics, self._node.log
        yield self.counter("commits", "Commits written", node.committer.commits)
        yield self.by(
            "bad_frames", "Frames that caused their connection to be closed", "reason", dict(server.bad_frames)
        )
        yield self.counter(
            "half_frames", "Connections closed because a frame was not completed in time", server.half_frames
        )
        yield self.counter("write_stalls", "Connections closed because the client did not read", server.write_stalls)
        yield self.counter("refused_connections", "Connections over the limit", server.refused)
        yield self.by(
            "cut_admin_connections",
            "Admin connections closed by the node, by reason",
            "reason",
            dict(node.admin.guard.cut),
        )
        yield self.counter(
            "bad_admin_requests", "Admin requests that were not valid HTTP", node.admin.guard.bad_requests
        )
        yield self.counter("handler_errors", "Requests that failed with an internal error", server.handler_errors)
        yield self.counter("received_bytes", "Bytes received from clients", server.bytes_in)
        yield self.counter("sent_bytes", "Bytes sent to clients", server.bytes_out)
        reads = node.read_gate.counters
        yield self.by("bulk_reads", "Accepted bulk reads, by command", "command", dict(reads.reads))
        yield self.by("refused_bulk_reads", "Rejected bulk reads, by reason", "reason", dict(reads.refused))
        yield self.counter("bulk_read_bytes", "Bytes returned by bulk reads", reads.bytes)
        yield self.counter("bulk_read_wait_seconds", "Time that bulk reads were throttled", reads.waited_seconds)
        yield self.gauge("connections", "Client connections (brokerActiveClientCount)", server.connections)
        yield self.gauge("unsynced_bytes", "Bytes appended and not synced yet", log.pending_bytes)
        yield self.gauge("log_end_bytes", "Log end offset", log.written_end)
        yield self.gauge("log_begin_bytes", "Log start offset", log.begin)
        yield self.gauge("damaged_ranges", "Corrupted ranges of the log", len(log.damaged))
        yield self.gauge("disk_free_bytes", "Free space on the disk of the log", node.disk_free_bytes)
        yield self.gauge("disk_total_bytes", "Size of the disk of the log", node.disk_total_bytes)
        failures = node.membership.policy_failures if node.membership is not None else 0
        yield self.counter("policy_failures", "Policies that could not be fetched, kept or applied", failures)
        yield from job_metrics(node.supervisor)
        yield from node.machine.loop_pauses.metrics()
        yield self.gauge("writable", "1 when sends are accepted", 0 if node.refuse_sends() else 1)
