"""The jobs: which summary tables each fills, at which steps, from which tables of the lake, and how.

What numbers mean stands at the transforms (spark_analytics.transforms) and in docs/analytics.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from django.conf import settings
from pyspark.sql import DataFrame

from console.analytics.steps import Step
from spark_analytics.forecasts.anomalies import LOOKBACK_HOURS
from spark_analytics.jobs.forecasting import forecasts
from spark_analytics.jobs.inputs import Inputs
from spark_analytics.jobs.states import buckets_of
from spark_analytics.lake.tables import GOLD
from spark_analytics.transforms.anomalies import (
    OF_LAG,
    anomalies,
    groups_with_lag,
    hours_of_lag,
    metric_values,
    values_from_ms,
)
from spark_analytics.transforms.capacity import team_capacity
from spark_analytics.transforms.delayed_load import delayed_load
from spark_analytics.transforms.failures import failures
from spark_analytics.transforms.latency import latencies
from spark_analytics.transforms.scores import forecast_scores
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
    has_memory: bool = False
    """Its rows depend on earlier ones, not only on where groups were when a window began."""
    after: tuple[str, ...] = ()
    """Jobs whose rows it reads: while one of them fails, it waits."""


JOBS: dict[str, Job] = {}
"""In the order they run: later ones read what earlier ones published."""
HISTORY = ("index", "progress")
"""Tables of the lake from which states follow."""
_FAILED = ("retries", "dead_letters")


def _job(
    text: str,
    tables: tuple[str, ...],
    steps: tuple[Step, ...],
    inputs: tuple[str, ...] = HISTORY,
    *,
    is_ahead: bool = False,
    has_memory: bool = False,
    after: tuple[str, ...] = (),
) -> Callable[[Callable[[Inputs], Frames]], None]:
    """Register what computes a job's tables; the job has the function's name."""

    def register(compute: Callable[[Inputs], Frames]) -> None:
        name = compute.__name__.removeprefix("_")
        JOBS[name] = Job(name, text, tables, inputs, steps, compute, is_ahead, has_memory, after)

    return register


@_job("backlog, messages in flight, lag and time lag of each consumer group", ("lag",), ALL_STEPS)
def _lag(given: Inputs) -> Frames:
    return {"lag": given.lag}


@_job(
    "messages sent to each subject, and pulled and acknowledged by each consumer group",
    ("subject_rates", "group_rates"),
    ALL_STEPS,
)
def _rates(given: Inputs) -> Frames:
    return {"subject_rates": given.subject_rates, "group_rates": given.group_rates}


@_job("latencies from storing and from delivery to acknowledgement", ("latencies",), ALL_STEPS)
def _latency(given: Inputs) -> Frames:
    steps, buckets = given.steps(SHORT_MS), given.buckets_of_acked
    found = latencies(given.index_of_acked, given.runs, window=given.window, buckets=buckets, steps=steps)
    return {"latencies": found}


@_job("load balance between the consumers of a group", ("group_skew", "consumer_shares"), LONG_STEPS)
def _skew(given: Inputs) -> Frames:
    steps = given.steps(LONG_MS)
    return {
        "group_skew": group_skew(given.runs, window=given.window, steps=steps),
        "consumer_shares": consumer_shares(given.runs, window=given.window, steps=steps),
    }


@_job("retries and dead letters by cause", ("failures",), LONG_STEPS, _FAILED)
def _failures(given: Inputs) -> Frames:
    retries, dead = given.table("retries"), given.table("dead_letters")
    return {"failures": failures(retries, dead, window=given.window, steps=given.steps(LONG_MS))}


@_job("pending delayed messages by due time", ("delayed_load",), LONG_STEPS, is_ahead=True)
def _delayed(given: Inputs) -> Frames:
    return {"delayed_load": delayed_load(given.live("delayed"), steps=LONG_MS)}


@_job(
    "forecasts of drain times and of full disks",
    ("drain_forecasts", "disk_forecasts"),
    LONG_STEPS,
    has_memory=True,
)
def _forecasts(given: Inputs) -> Frames:
    return forecasts(given)


@_job(
    "anomalies compared with the same hour of previous weeks",
    ("anomalies",),
    LONG_STEPS,
    (*HISTORY, *_FAILED),
    has_memory=True,
    after=("lag", "rates", "latency", "failures"),
)
def _anomalies(given: Inputs) -> Frames:
    window, from_ms = given.window, values_from_ms(given.window)
    hours = given.gold("lag", Step.HOUR, from_ms)
    days = given.gold("lag", Step.DAY, from_ms - from_ms % Step.DAY.ms)
    with_lag = given.keep(groups_with_lag(hours, days, window=window))
    tables = ("subject_rates", "group_rates", "latencies", "failures")
    values = metric_values(
        hours_of_lag(hours, days, with_lag, window=window), *(given.gold(name, Step.HOUR, from_ms) for name in tables)
    )
    rows_of_lag = with_lag.count() * len(OF_LAG) * LOOKBACK_HOURS
    buckets = buckets_of(given.lake, window.to_ms, rows_of_lag, **{GOLD + name: from_ms for name in tables})
    found = anomalies(values, window=window, zone=settings.ANALYTICS_ZONE, buckets=buckets, steps=given.steps(LONG_MS))
    return {"anomalies": found}


@_job(
    "accuracy of forecasts and anomaly flags",
    ("forecast_scores",),
    LONG_STEPS,
    (*HISTORY, *_FAILED),
    has_memory=True,
    after=("forecasts", "anomalies"),
)
def _scores(given: Inputs) -> Frames:
    flags = given.gold("anomalies", Step.HOUR, given.window.from_ms - Step.HOUR.ms)
    cases = given.table("forecast_cases")
    return {"forecast_scores": forecast_scores(cases, flags, window=given.window, steps=given.steps(LONG_MS))}


@_job(
    "usage by team", ("team_capacity",), LONG_STEPS, has_memory=True
)  # of what subjects keep, also bytes of late messages
def _capacity(given: Inputs) -> Frames:
    steps = given.steps(LONG_MS)
    return {"team_capacity": team_capacity(given.stored, given.owners, given.ranges, window=given.window, steps=steps)}


UPKEEP = {
    "ingest": "read new messages and histories from the nodes into the lake",
    "state": "store the state of consumer groups at the end of each hour",
    "compact": "merge the files of each hour or day",
    "retain": "delete expired data of the lake",
}
"""Jobs that fill no summary table."""
ORDER = ("ingest", "state", *JOBS, "compact", "retain")
"""What `all` runs."""
