"""Older numbers, from the summary tables that jobs fill: those of analytics, and of broker groups `summaries`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

from django.db.models import Max, Min, QuerySet

from console.analytics import queries
from console.analytics.models import BROKER_GROUP_COLUMNS, DEMO_JOB, AnalyticsRun, TableState
from console.analytics.rows import Window
from console.analytics.steps import Step, step_for
from console.analytics.tables import TABLES, SummaryTable
from console.jobs.analytics import ANALYTICS
from console.jobs.summaries import SUMMARIES
from console.reports.timelines.points import Column, Points

ROWS_MAX = 1_500
"""Steps of a table that are read for one range: minutes of a day, ten minutes of a week, hours of 30 days."""


@dataclass(frozen=True, slots=True)
class Source:
    """A table, and the fields that its columns stand for: the highest value of a step, and its mean."""

    table: str
    columns: Mapping[str, tuple[str, str]]
    is_of_events: bool = False
    """Whether a step without a row is a step without events: 0."""
    job: str = ANALYTICS.name
    """The background job that fills the table."""


def _pair(name: str) -> tuple[str, str]:
    return f"{name}_max", f"{name}_mean"


SOURCES: dict[str, tuple[Source, ...]] = {
    "subjects": (
        Source(
            "subject_rates",
            {"send_rate": _pair("sent_messages_per_second"), "send_bytes_rate": _pair("sent_bytes_per_second")},
            is_of_events=True,
        ),
    ),
    "groups": (
        Source(
            "lag",
            {
                "backlog": _pair("backlog_messages"),
                "in_flight": _pair("in_flight_messages"),
                "lag": _pair("lag_messages"),
                "time_lag_seconds": _pair("time_lag_seconds"),
            },
        ),
        Source(
            "group_rates",
            {"pull_rate": _pair("pulled_messages_per_second"), "ack_rate": _pair("acked_messages_per_second")},
            is_of_events=True,
        ),
    ),
    "broker_groups": (
        Source(
            "broker_group_numbers",
            {field: _pair(column) for field, column in BROKER_GROUP_COLUMNS.items()},
            job=SUMMARIES.name,
        ),
    ),
    "nodes": (Source("disk_forecasts", {"disk_used_bytes": ("disk_used_bytes_last", "disk_used_bytes_last")}),),
}
"""By section of the history: what the tables have of it."""


@dataclass(frozen=True, slots=True)
class Summaries:
    """What the tables have of a range."""

    points: Points
    job: str
    """The background job that fills the tables."""
    state: str
    """`no_run_yet` until a run has filled one of the tables; else `filled`."""
    as_of: datetime | None
    """All of the tables are complete up to this time."""
    is_demo: bool = False
    missing: list[str] = field(default_factory=list)
    """Broker groups that runs could not read: the values of these steps are too low."""
    fields: tuple[str, ...] = ()
    omitted_steps: int = 0
    """Steps without a row of which rows were left out, because others rank higher: whether there were values is not known."""


def read_summaries(section: str, key: Mapping[str, str], window: Window, now: datetime) -> Summaries:
    """Return the steps of a range, the finest ones that are still kept, at most ROWS_MAX.

    Args:
        section: one of SOURCES.
        key: values of the key columns of its tables.
        window: at most 30 days; the step that contains its beginning belongs to it.
    """
    sources = SOURCES[section]
    step = _step(TABLES[sources[0].table], window, now)
    begin_ms = window.from_ms - window.from_ms % step.ms
    at_ms = range(begin_ms, window.to_ms, step.ms)
    states = {state.table: state for state in TableState.objects.filter(table__in=[one.table for one in sources])}
    highest: dict[str, Column] = {}
    mean: dict[str, Column] = {}
    runs: set[int] = set()
    omitted: set[int] = set()
    for source in sources:
        table = TABLES[source.table]
        found = queries.rows(table, step, Window(begin_ms, window.to_ms), key).order_by()
        known = _columns(found, source)
        lacking = queries.lacking(table, step, Window(begin_ms, window.to_ms)) - known.keys()
        omitted |= lacking
        if source.is_of_events:
            end = states[source.table].complete_until if source.table in states else None
            steps = (at for at in _complete(table, step, at_ms, end, highest.get("lag")) if at not in lacking)
            zeros: list[float | None] = [0.0 for _ in range(2 * len(source.columns))]
            known = dict.fromkeys(steps, zeros) | known
        runs.update(found.values_list("run_id", flat=True).distinct())
        for number, name in enumerate(source.columns):
            highest[name] = [known[at][2 * number] if at in known else None for at in at_ms]
            mean[name] = [known[at][2 * number + 1] if at in known else None for at in at_ms]
    made = list(AnalyticsRun.objects.filter(pk__in=runs).values_list("job", "missing"))
    ends = [state.complete_until for state in states.values()]
    return Summaries(
        Points(step.ms, at_ms, highest, mean),
        sources[0].job,
        "filled" if states else "no_run_yet",
        min((end for end in ends if end is not None), default=None),
        any(job == DEMO_JOB for job, _ in made),
        sorted({name for _, missing in made for name in missing}),
        tuple(highest),
        len(omitted),
    )


def _step(table: SummaryTable, window: Window, now: datetime) -> Step:
    now_ms = int(now.timestamp() * 1000)
    found = step_for(window.from_ms, window.to_ms, now_ms, table.model.steps, queries.keep_days(), points_max=ROWS_MAX)
    assert found is not None, "days of a range of 30 days are few"
    return found


def _columns(found: "QuerySet[Any]", source: Source) -> dict[int, list[float | None]]:
    """Values by step, two for each field; of several rows of a step, such as those of nodes, the highest."""
    names = {f"of_{number}": name for number, name in enumerate(chain.from_iterable(source.columns.values()))}
    rows = found.values("at_ms").annotate(**{alias: Max(name) for alias, name in names.items()})
    return {row["at_ms"]: [row[alias] for alias in names] for row in rows}


def _complete(
    table: SummaryTable, step: Step, at_ms: Sequence[int], end: datetime | None, lag: Column | None
) -> Iterator[int]:
    """Steps that a table is complete for, up to `end`; of a group only those in which it existed, so that it had a lag."""
    first = table.model._default_manager.filter(step_seconds=step.seconds).aggregate(first=Min("at_ms"))["first"]
    if end is None or first is None:
        return
    last = int(end.timestamp() * 1000) - step.ms
    for index, at in enumerate(at_ms):
        if first <= at <= last and (lag is None or lag[index] is not None):
            yield at
