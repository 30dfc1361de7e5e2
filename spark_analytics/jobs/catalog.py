"""The jobs: which summary tables each fills, at which steps, from which tables of the lake, and how.

What numbers mean stands at the transforms (spark_analytics.transforms) and in docs/analytics.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from console.analytics.steps import Step
from spark_analytics.jobs.inputs import Inputs
from spark_analytics.transforms.anomalies import LOOKBACK_MS, anomalies, metric_values
from spark_analytics.transforms.capacity import team_capacity
from spark_analytics.transforms.delayed_load import delayed_load
from spark_analytics.transforms.failures import failures
from spark_analytics.transforms.forecasts import DISK_LOOKBACK_MS, disk_forecasts, drain_forecasts
from spark_analytics.transforms.latency import latencies
from spark_analytics.transforms.skew import consumer_shares, group_skew
from spark_analytics.transforms.windows import LONG_STEPS as LONG_MS
from spark_analytics.transforms.windows import SHORT_STEPS as SHORT_MS

Frames = Mapping[str, DataFrame]
"""Summary table -> its rows, with `step_ms` and `at_ms`."""

ALL_STEPS = tuple(Step)
LONG_STEPS = (Step.HOUR, Step.DAY)


@dataclass(frozen=True, slots=True)
class Job:
    """A job that fills summary tables."""

    name: str
    text: str
    tables: tuple[str, ...]
    inputs: tuple[str, ...]
    """Tables of the lake it reads: it goes up to the time that all of these are complete to."""
    steps: tuple[Step, ...]
    compute: Callable[[Inputs], Frames]
    is_ahead: bool = False
    """It looks ahead: its tables are replaced whole by what is true now."""


def _lag(given: Inputs) -> Frames:
    return {"lag": given.lag}


def _rates(given: Inputs) -> Frames:
    return {"subject_rates": given.subject_rates, "group_rates": given.group_rates}


def _latency(given: Inputs) -> Frames:
    steps = given.steps(SHORT_MS)
    return {"latencies": latencies(given.index_of_acked, given.runs, window=given.window, steps=steps)}


def _skew(given: Inputs) -> Frames:
    steps = given.steps(LONG_MS)
    return {
        "group_skew": group_skew(given.runs, window=given.window, steps=steps),
        "consumer_shares": consumer_shares(given.runs, window=given.window, steps=steps),
    }


def _failures(given: Inputs) -> Frames:
    retries, dead = given.table("retries"), given.table("dead_letters")
    return {"failures": failures(retries, dead, window=given.window, steps=given.steps(LONG_MS))}


def _delayed(given: Inputs) -> Frames:
    return {"delayed_load": delayed_load(given.live("delayed"), steps=LONG_MS)}


def _forecasts(given: Inputs) -> Frames:
    steps = given.steps(LONG_MS)
    nodes = given.table("nodes", given.window.from_ms - DISK_LOOKBACK_MS)
    return {
        "drain_forecasts": drain_forecasts(given.lag, given.progress, window=given.window, steps=steps),
        "disk_forecasts": disk_forecasts(nodes, window=given.window, steps=steps),
    }


def _anomalies(given: Inputs) -> Frames:
    steps = given.steps(LONG_MS)
    tables = ("lag", "subject_rates", "group_rates", "latencies", "failures")
    values = metric_values(*(given.summary(table, given.window.from_ms - LOOKBACK_MS, steps) for table in tables))
    return {"anomalies": anomalies(values, window=given.window, steps=steps)}


def _scores(given: Inputs) -> Frames:
    return {"forecast_scores": given.scores(given.steps(LONG_MS))}


def _capacity(given: Inputs) -> Frames:
    steps = given.steps(LONG_MS)
    return {"team_capacity": team_capacity(given.stored, given.owners, given.ranges, window=given.window, steps=steps)}


_HISTORY = ("index", "progress")
JOBS = {
    job.name: job
    for job in (
        Job(
            "lag",
            "backlog, messages in flight, lag and time lag of each consumer group",
            ("lag",),
            _HISTORY,
            ALL_STEPS,
            _lag,
        ),
        Job(
            "rates",
            "messages sent to each subject, and pulled and acknowledged by each consumer group",
            ("subject_rates", "group_rates"),
            _HISTORY,
            ALL_STEPS,
            _rates,
        ),
        Job(
            "latency",
            "latencies from storing and from delivery to acknowledgement",
            ("latencies",),
            _HISTORY,
            ALL_STEPS,
            _latency,
        ),
        Job(
            "skew",
            "load balance between the consumers of a group",
            ("group_skew", "consumer_shares"),
            _HISTORY,
            LONG_STEPS,
            _skew,
        ),
        Job(
            "failures",
            "retries and dead letters by cause",
            ("failures",),
            ("retries", "dead_letters"),
            LONG_STEPS,
            _failures,
        ),
        Job(
            "delayed",
            "pending delayed messages by due time",
            ("delayed_load",),
            _HISTORY,
            LONG_STEPS,
            _delayed,
            is_ahead=True,
        ),
        Job(
            "forecasts",
            "forecasts of drain times and of full disks",
            ("drain_forecasts", "disk_forecasts"),
            _HISTORY,
            LONG_STEPS,
            _forecasts,
        ),
        Job(
            "anomalies",
            "anomalies compared with the same hour of previous days",
            ("anomalies",),
            (*_HISTORY, "retries", "dead_letters"),
            LONG_STEPS,
            _anomalies,
        ),
        Job(
            "scores",
            "accuracy of forecasts and anomaly flags",
            ("forecast_scores",),
            (*_HISTORY, "retries", "dead_letters"),
            LONG_STEPS,
            _scores,
        ),
        Job(
            "capacity",
            "usage by team",
            ("team_capacity",),
            _HISTORY,
            LONG_STEPS,
            _capacity,
        ),
    )
}
"""In the order they run: later ones read what earlier ones published."""

UPKEEP = {
    "ingest": "read new messages and histories from the nodes into the lake",
    "state": "store the state of consumer groups at the end of each hour",
    "compact": "merge the files of each hour",
    "retain": "delete expired data of the lake",
}
"""Jobs that fill no summary table."""
ORDER = ("ingest", "state", *JOBS, "compact", "retain")
"""What `all` runs."""
