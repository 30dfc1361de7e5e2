"""Values of the last 24 hours, as far as they were stored: for the preview of a rule."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from django.conf import settings
from redis.exceptions import RedisError

from console.alerts.arrivals import WINDOW_SECONDS_MAX, Arrivals
from console.alerts.models import DeadLetterCount
from console.alerts.past import Point, Source, Span, rows_of_minutes, sums_of_window
from console.alerts.readings import Reading
from console.alerts.rules import ROLE_CHANGES_SECONDS, Kind
from console.analytics.models import DEMO_JOB, TableState, summaries
from console.analytics.steps import Step
from console.snapshot.history import SECTIONS, STEP_SECONDS
from console.snapshot.many_histories import Histories, Row, read_histories
from console.snapshot.state import group_key
from metaserver import queries
from qmq.protocol.names import retry_subject

LOOK_BACK = timedelta(hours=24)
TARGETS_MAX = 1_000
"""Targets whose past is evaluated: those with the highest values now."""
ROWS_MAX = 50_000
"""Rows of a summary table that are read: minutes above the threshold, the newest ones."""
_LAG_COLUMNS = {Kind.LAG: "lag_messages_max", Kind.TIME_LAG: "time_lag_seconds_max"}


@dataclass(frozen=True, slots=True)
class PastValues:
    """Points by target, and the ranges of time that they cover; no range: nothing of the kind is stored."""

    points: Mapping[str, Sequence[Point]] = field(default_factory=dict)
    spans: Sequence[Span] = ()


def past_values(
    kind: Kind,
    targets: Sequence[Reading],
    above: float,
    window_seconds: float,
    snapshot: Mapping[str, Any] | None,
    now: datetime,
) -> PastValues:
    """The past of at most TARGETS_MAX targets.

    Args:
        targets: their readings now.
        above: values of summary tables that are at or below this are not read; they count as 0.
        snapshot: the collector's, for the size of disks.
    """
    names = [reading.target for reading in targets]
    if kind == Kind.ROLE_CHANGES:
        return _role_changes(names, now)
    if kind == Kind.DEAD_LETTERS:
        return _dead_letters(names, window_seconds, now)
    if kind in (Kind.LAG, Kind.TIME_LAG, Kind.DISK, Kind.LATENESS):
        live, span = _live(kind, names, snapshot, now)
        if kind not in _LAG_COLUMNS:
            return PastValues(live, [span] if span else [])
        border = span.begin if span else now.timestamp()
        old, old_span = _analytics(kind, set(names), above, now - LOOK_BACK, border)
        points = {name: [*old.get(name, ()), *live.get(name, ())] for name in names}
        return PastValues(points, [one for one in (old_span, span) if one is not None])
    return PastValues()


def _role_changes(names: Sequence[str], now: datetime) -> PastValues:
    begin, end = (now - LOOK_BACK).timestamp(), now.timestamp()
    times = queries.role_change_times(now - LOOK_BACK - timedelta(seconds=ROLE_CHANGES_SECONDS))
    points = {}
    for name in names:
        changes: Arrivals = [[at.timestamp(), 1.0] for at in times.get(name, ())]
        points[name] = list(sums_of_window(changes, ROLE_CHANGES_SECONDS, begin, end))
    return PastValues(points, [Span(Source.AUDIT_LOG, begin, end)])


def _dead_letters(names: Sequence[str], window_seconds: float, now: datetime) -> PastValues:
    end = now.timestamp()
    begin = end - (WINDOW_SECONDS_MAX - window_seconds)
    if begin >= end:
        return PastValues()
    wanted = set(names)
    points = {
        row.target: list(sums_of_window(row.arrivals, window_seconds, begin, end))
        for row in DeadLetterCount.objects.exclude(target="")
        if row.target in wanted
    }
    return PastValues(points, [Span(Source.ARRIVALS, begin, end)])


# --- the last hour ----------------------------------------------------------------------------------------------------


def _live(
    kind: Kind, names: Sequence[str], snapshot: Mapping[str, Any] | None, now: datetime
) -> tuple[dict[str, list[Point]], Span | None]:
    """Points of Redis; None: it has none."""
    of_groups = kind in _LAG_COLUMNS
    section = "groups" if of_groups else "nodes"
    series = {name: _series_of(name) if of_groups else [name] for name in names}
    try:
        found = read_histories(settings.REDIS_URL, section, chain.from_iterable(series.values()), now.timestamp)
    except (RedisError, OSError):
        return {}, None
    value = _value(kind, SECTIONS[section], snapshot)
    points = {name: _points(name, parts, found, value) for name, parts in series.items()}
    first = min((at for row in points.values() for at, number in row if number is not None), default=None)
    if first is None:
        return {}, None
    return points, Span(Source.LIVE_HISTORY, first, now.timestamp())


def _series_of(target: str) -> list[str]:
    """The series of a consumer group and of its retries."""
    subject, _, group = target.partition("/")
    return [group_key(subject, group), group_key(retry_subject(subject, group), group)]


def _value(
    kind: Kind, fields: tuple[str, ...], snapshot: Mapping[str, Any] | None
) -> Callable[[str, Sequence[Row | None]], float | None]:
    """How a target's value is made of the rows of its series, the first of which decides whether it was measured."""
    place = {name: number for number, name in enumerate(fields)}
    nodes = {} if snapshot is None else snapshot["nodes"]

    def of_row(row: Row | None) -> float | None:
        if row is None:
            return None
        if kind == Kind.LAG:
            found = row[place["backlog"]] + row[place["in_flight"]]
        else:
            names = {
                Kind.TIME_LAG: "time_lag_seconds",
                Kind.LATENESS: "lateness_p99_seconds",
                Kind.DISK: "disk_used_bytes",
            }
            found = row[place[names[kind]]]
        return None if math.isnan(found) else found

    def of_rows(target: str, rows: Sequence[Row | None]) -> float | None:
        first, *retries = map(of_row, rows)
        if first is None:
            return None
        if kind == Kind.DISK:
            total = nodes.get(target, {}).get("disk_total_bytes")
            return 100.0 * first / total if total else None
        known = [first, *(number for number in retries if number is not None)]
        return sum(known) if kind == Kind.LAG else max(known)

    return of_rows


def _points(
    name: str, parts: Sequence[str], found: Histories, value: Callable[[str, Sequence[Row | None]], float | None]
) -> list[Point]:
    columns = [found.series[part] for part in parts if part in found.series]
    if parts[0] not in found.series:
        return []
    begin = found.begin_ms / 1000
    return [(begin + at * STEP_SECONDS, value(name, rows)) for at, rows in enumerate(zip(*columns, strict=True))]


# --- summary tables ---------------------------------------------------------------------------------------------------


def _analytics(
    kind: Kind, names: set[str], above: float, since: datetime, until: float
) -> tuple[dict[str, list[Point]], Span | None]:
    """Points of the summary table before `until`; None: the table has none, or demo data."""
    state = TableState.objects.select_related("run").filter(table="lag").first()
    if state is None or state.complete_until is None or state.run.job == DEMO_JOB:
        return {}, None
    end = min(until, state.complete_until.timestamp())
    minutes = summaries.Lag._default_manager.filter(
        step_seconds=Step.MINUTE.seconds, at_ms__gte=int(since.timestamp() * 1000), at_ms__lt=int(end * 1000)
    )
    oldest = minutes.order_by("at_ms").values_list("at_ms", flat=True).first()
    if oldest is None:
        return {}, None
    column = _LAG_COLUMNS[kind]
    rows = minutes.filter(**{f"{column}__gt": above}).order_by("-at_ms")
    read = list(rows.values_list("subject", "group", "at_ms", column)[:ROWS_MAX])
    begin = read[-1][2] if len(read) == ROWS_MAX else oldest
    by_target: dict[str, list[tuple[float, float]]] = {}
    for subject, group, at_ms, number in reversed(read):
        target = f"{subject}/{group}"
        if target in names:
            by_target.setdefault(target, []).append((at_ms / 1000, float(number)))
    points = {
        target: [point for point in rows_of_minutes(found, Step.MINUTE.seconds) if math.isfinite(point[0])]
        for target, found in by_target.items()
    }
    return points, Span(Source.ANALYTICS, begin / 1000, end)
