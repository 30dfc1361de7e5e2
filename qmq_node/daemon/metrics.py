"""Prometheus metrics that every daemon has, read from its counters when /metrics is requested."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from qmq_node.process.counters import MetricFamilies

if TYPE_CHECKING:
    from qmq_node.daemon.daemon import Daemon


class DaemonMetrics(MetricFamilies):
    """The metrics of one daemon. Subclasses yield more in `collect`."""

    def __init__(self, daemon: "Daemon", prefix: str, labels: Mapping[str, str] | None = None) -> None:
        super().__init__(prefix, labels)
        self._daemon = daemon

    async def families(self) -> list[Metric]:
        """All families. What grows with subjects is read in slices, between which the event loop serves clients."""
        return list(self.collect())

    def collect(self) -> Iterable[Metric]:
        """The families that can be read at once."""
        server, guard = self._daemon.server, self._daemon.admin.guard
        yield from self.counters(server.metrics, self._daemon.bulk_reads.counters)
        yield self.by(
            "cut_admin_connections", "Admin connections closed by the node, by reason", "reason", dict(guard.cut)
        )
        yield self.counter("bad_admin_requests", "Admin requests that were not valid HTTP", guard.bad_requests)
        yield self.gauge("connections", "Client connections (brokerActiveClientCount)", len(server.connections))
        yield from self._daemon.machine.loop_pauses.metrics()
        jobs, process = self._daemon.supervisor.status(), MetricFamilies("qmq")
        failures = {job.name: job.failures for job in jobs}
        failing = {job.name: job.consecutive_failures for job in jobs}
        ages = {job.name: age for job in jobs if (age := job.last_success_age_seconds) is not None}
        yield process.by("job_failures", "Runs of a job that failed", "job", failures)
        yield process.gauge_by("job_consecutive_failures", "Failed runs since the last success", "job", failing)
        yield process.gauge_by("job_last_success_age_seconds", "Time since a job last succeeded", "job", ages)
