"""Prometheus metrics of a daemon's supervised jobs."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from qmq.supervisor import Supervisor


def job_metrics(supervisor: Supervisor) -> Iterable[Metric]:
    """One series per job and metric."""
    failures = CounterMetricFamily("qmq_job_failures", "Runs of a job that failed", labels=["job"])
    failing = GaugeMetricFamily("qmq_job_consecutive_failures", "Failed runs since the last success", labels=["job"])
    age = GaugeMetricFamily("qmq_job_last_success_age_seconds", "Time since a job last succeeded", labels=["job"])
    for job in supervisor.status():
        failures.add_metric([job.name], job.failures)
        failing.add_metric([job.name], job.consecutive_failures)
        if job.last_success_age_seconds is not None:
            age.add_metric([job.name], job.last_success_age_seconds)
    return failures, failing, age
