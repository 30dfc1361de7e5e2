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
        server, guard = self._daemon.server.metrics, self._daemon.admin.guard
        text = "Frames that caused their connection to be closed"
        yield self.by("bad_frames", text, "reason", server.bad_frames)
        yield self.by(
            "cut_admin_connections", "Admin connections closed by the node, by reason", "reason", dict(guard.cut)
        )
        for name, text, value in (
            ("half_frames", "Connections closed because a frame was not completed in time", server.half_frames),
            ("write_stalls", "Connections closed because the client did not read", server.write_stalls),
            ("refused_connections", "Connections over the limit", server.refused),
            ("paused_connections", "Pauses of connections that exceeded a limit", server.paused),
            ("large_frames_waited", "Large frames that waited for memory", server.large_frames_waited),
            ("handler_errors", "Requests that failed with an internal error", server.handler_errors),
            ("received_bytes", "Bytes received from clients", server.bytes_in),
            ("sent_bytes", "Bytes sent to clients", server.bytes_out),
            ("bad_admin_requests", "Admin requests that were not valid HTTP", guard.bad_requests),
        ):
            yield self.counter(name, text, value)
        yield from self.counters(self._daemon.bulk_reads.counters)
        text, connections = "Client connections (brokerActiveClientCount)", len(self._daemon.server.connections)
        yield self.gauge("connections", text, connections)
        yield from self._daemon.machine.loop_pauses.metrics()
        jobs, process = self._daemon.supervisor.status(), MetricFamilies("qmq")
        failures = {job.name: job.failures for job in jobs}
        failing = {job.name: job.consecutive_failures for job in jobs}
        ages = {job.name: age for job in jobs if (age := job.last_success_age_seconds) is not None}
        yield process.by("job_failures", "Runs of a job that failed", "job", failures)
        yield process.gauge_by("job_consecutive_failures", "Failed runs since the last success", "job", failing)
        yield process.gauge_by("job_last_success_age_seconds", "Time since a job last succeeded", "job", ages)
