"""Forecasts and flags that came due in a window, from the summary tables that hold them and what happened since."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from django.db.models import Count, F, Max, Min, OuterRef, Q, Subquery

from console.analytics import queries
from console.analytics.models import Anomaly, DiskForecast, DrainForecast, Lag, Outlook, Scored
from console.analytics.rows import Window as SummaryWindow
from console.analytics.steps import Step
from console.analytics.tables import TABLES
from spark_analytics.transforms.forecasts import INTERVAL_RATIO
from spark_analytics.transforms.scores import (
    DISK_DUE_MS,
    DRAIN_DUE_MS,
    disk_case,
    drain_case,
    drain_due_ms,
)
from spark_analytics.transforms.windows import Window

HOUR_MS = Step.HOUR.ms
ROWS_AT_ONCE = 2_000
"""Rows fetched from the database at a time."""
Row = tuple[int, int, str, int, int, float | None]
"""`step_ms`, `at_ms` and the columns of `forecast_scores`."""


def score_rows(window: Window, steps: Sequence[int]) -> list[Row]:
    """Rows of `forecast_scores` for the steps of a window, which is whole steps. Steps without cases have no row."""
    cases: Counter[tuple[str, int]] = Counter()
    held: Counter[tuple[str, int]] = Counter()
    for scored, hour, count, of_them in chain.from_iterable(
        kind(window) for kind in (_drains, _disks, _values, _flags)
    ):
        cases[scored, hour] += count
        held[scored, hour] += of_them
    found: list[Row] = []
    for step in steps:
        totals: Counter[tuple[str, int]] = Counter()
        totals_held: Counter[tuple[str, int]] = Counter()
        for (scored, hour), count in cases.items():
            totals[scored, hour - hour % step] += count
            totals_held[scored, hour - hour % step] += held[scored, hour]
        for (scored, at_ms), count in sorted(totals.items()):
            target = INTERVAL_RATIO if scored in (Scored.DRAIN, Scored.DISK) else None
            found.append((step, at_ms, str(scored), count, totals_held[scored, at_ms], target))
    return found


def _hours(model: Any, from_ms: int, to_ms: int) -> Any:
    """Hourly rows of a summary table that begin in [from, to)."""
    return model._default_manager.filter(step_seconds=Step.HOUR.seconds, at_ms__gte=from_ms, at_ms__lt=to_ms).order_by()


def _drains(window: Window) -> Iterator[tuple[str, int, int, int]]:
    """Of each drain forecast that came due its hour, one case, and whether it held."""
    from_ms = window.from_ms - DRAIN_DUE_MS - HOUR_MS
    made = _hours(DrainForecast, from_ms, window.to_ms).filter(lag_messages_last__gt=0).exclude(outlook=Outlook.UNKNOWN)
    columns = ("at_ms", "subject", "group", "drain_seconds_low", "drain_seconds_high")
    due = [
        (at_ms + HOUR_MS, (subject, group), low, high)
        for at_ms, subject, group, low, high in made.values_list(*columns).iterator(ROWS_AT_ONCE)
        if window.from_ms < drain_due_ms(at_ms + HOUR_MS, high) <= window.to_ms
    ]
    # Minutes of groups that drained are the first to be left out: without them, lag that was drained looks as if it had stayed.
    if not due or queries.lacking(TABLES["lag"], Step.MINUTE, SummaryWindow(from_ms, window.to_ms)):
        return
    # The first minute of each hour in which the lag was 0: forecasts are made at the ends of hours.
    empty = Lag._default_manager.filter(
        step_seconds=Step.MINUTE.seconds, at_ms__gte=from_ms, at_ms__lt=window.to_ms, lag_messages_min=0
    ).order_by()
    hour = F("at_ms") - F("at_ms") % HOUR_MS
    firsts: dict[tuple[str, str], list[int]] = {}
    for subject, group, first in (
        empty.values("subject", "group", hour_ms=hour)
        .annotate(first=Min("at_ms"))
        .values_list("subject", "group", "first")
    ):
        firsts.setdefault((subject, group), []).append(first)
    there = _hours(Lag, from_ms, window.to_ms).values("subject", "group").annotate(last=Max("at_ms"))
    last_seen = {(row["subject"], row["group"]): row["last"] for row in there}
    for made_ms, key, low, high in due:
        drained = min((at_ms for at_ms in firsts.get(key, ()) if at_ms >= made_ms), default=None)
        is_there = last_seen.get(key, 0) + HOUR_MS >= drain_due_ms(made_ms, high)
        case = drain_case(made_ms, low, high, drained)
        # The lag of a group that was deleted meanwhile is not drained.
        if case is not None and (is_there or drained is not None):
            yield Scored.DRAIN, case.hour_ms, 1, case.is_held


def _disks(window: Window) -> Iterator[tuple[str, int, int, int]]:
    """Of each disk forecast that came due its hour, one case, and whether it held."""
    later = DiskForecast._default_manager.filter(
        step_seconds=Step.HOUR.seconds,
        broker_group=OuterRef("broker_group"),
        node_id=OuterRef("node_id"),
        at_ms=OuterRef("at_ms") + DISK_DUE_MS,
    )
    made = _hours(DiskForecast, window.from_ms - DISK_DUE_MS, window.to_ms - DISK_DUE_MS).exclude(
        outlook=Outlook.UNKNOWN
    )
    found = made.annotate(later=Subquery(later.values("disk_used_bytes_last")[:1])).filter(later__isnull=False)
    columns = (
        "at_ms",
        "disk_used_bytes_last",
        "disk_total_bytes_last",
        "growth_bytes_per_second",
        "full_seconds_low",
        "full_seconds_high",
        "later",
    )
    for at_ms, used, total, growth, low, high, used_later in found.values_list(*columns):
        case = disk_case(at_ms + HOUR_MS, total - used, growth, low, high, used_later - used)
        if case is not None:
            yield Scored.DISK, case.hour_ms, 1, case.is_held


def _values(window: Window) -> Iterator[tuple[str, int, int, int]]:
    """Of each hour how many values were compared with earlier weeks, and how many of them were not flagged."""
    found = _hours(Anomaly, window.from_ms, window.to_ms).values("at_ms")
    for row in found.annotate(n=Count("pk"), calm=Count("pk", filter=Q(is_flagged=False))):
        yield Scored.ANOMALY, row["at_ms"], row["n"], row["calm"]


def _flags(window: Window) -> Iterator[tuple[str, int, int, int]]:
    """Of each hour how many values were compared that were flagged the hour before, and how many are flagged still."""
    following = Anomaly._default_manager.filter(
        step_seconds=Step.HOUR.seconds,
        subject=OuterRef("subject"),
        group=OuterRef("group"),
        metric=OuterRef("metric"),
        at_ms=OuterRef("at_ms") + HOUR_MS,
    )
    flagged = _hours(Anomaly, window.from_ms - HOUR_MS, window.to_ms - HOUR_MS).filter(is_flagged=True)
    found = flagged.annotate(
        next_score=Subquery(following.values("score")[:1]), still=Subquery(following.values("is_flagged")[:1])
    ).filter(next_score__isnull=False)
    for at_ms, score, next_score, still in found.values_list("at_ms", "score", "next_score", "still"):
        yield Scored.FLAG, at_ms + HOUR_MS, 1, int(bool(still) and (score > 0) == (next_score > 0))
