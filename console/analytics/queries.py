"""The read side."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any

from django.conf import settings
from django.db.models import F, Max, Min, Q, QuerySet, Sum

from console.analytics.models import (
    DEMO_JOB,
    AnalyticsRun,
    CaseClass,
    ForecastScore,
    LeftOut,
    Scored,
    Summary,
    TableState,
)
from console.analytics.rows import Window
from console.analytics.steps import DAY_MS, Step
from console.analytics.tables import SummaryTable
from metaserver import queries as metadata

TEAM = "team"
RANKED_MAX = 50
"""Most keys of one ranking."""
RANKED_POINTS_MAX = 200
"""Most steps of the range of a ranking, so most values of each of its keys."""

SCORE_DAYS = 30
"""The days that the hit rate of forecasts is of."""
SCORE_CASES_MIN = 30
"""Fewer cases verify nothing."""
HELD_RATIO_MIN, HELD_RATIO_MAX = 0.7, 0.9
"""Alerts use no forecasts of a class of which fewer or more held."""
_SCORED = {
    "drain_forecasts": (Scored.DRAIN,),
    "disk_forecasts": (Scored.DISK,),
    "anomalies": (Scored.ANOMALY, Scored.FLAG),
}
"""Table -> what is scored of it."""


@dataclass(frozen=True, slots=True)
class Score:
    """How a table's forecasts of a class, or flags, turned out in the last SCORE_DAYS."""

    scored: str
    case_class: str
    cases_count: int = 0
    held_count: int = 0
    below_count: int | None = None
    """Forecasts whose lower bound was missed; None: these are no forecasts."""
    above_count: int | None = None
    width_ratio_mean: float | None = None
    """Width of the intervals: the mean, by cases, of each hour's median; None: not known."""
    target_ratio: float | None = None
    days: int = SCORE_DAYS

    @property
    def held_ratio(self) -> float | None:
        """The share that held; None: not yet verified, there are fewer cases than SCORE_CASES_MIN."""
        return self.held_count / self.cases_count if self.cases_count >= SCORE_CASES_MIN else None

    @property
    def is_trusted(self) -> bool | None:
        """Whether alerts may use forecasts of this class; None: these are no forecasts."""
        if self.scored not in (Scored.DRAIN, Scored.DISK):
            return None
        return self.held_ratio is not None and HELD_RATIO_MIN <= self.held_ratio <= HELD_RATIO_MAX


def scores_of(table: str, now: datetime) -> list[Score]:
    """How the forecasts or flags of a table turned out, by class; empty where a table has none.

    A class without cases is left out. What has no cases at all is there once, as class *all*.
    """
    kinds = _SCORED.get(table, ())
    since_ms = int(now.timestamp() * 1000) - SCORE_DAYS * DAY_MS
    found = ForecastScore._default_manager.filter(
        step_seconds=Step.HOUR.seconds, at_ms__gte=since_ms, scored__in=kinds
    ).order_by()
    sums = found.values("scored", "case_class").annotate(
        cases=Sum("cases_count"),
        held=Sum("held_count"),
        below=Sum("below_count"),
        above=Sum("above_count"),
        wide=Sum(F("width_ratio_median") * F("cases_count")),
        wide_cases=Sum("cases_count", filter=Q(width_ratio_median__isnull=False)),
        target=Max("target_ratio"),
    )
    scores: dict[str, dict[str, Score]] = {kind: {} for kind in kinds}
    for row in sums.filter(cases__gt=0):
        width = row["wide"] / row["wide_cases"] if row["wide_cases"] else None
        below, above = (None if row[name] is None else int(row[name]) for name in ("below", "above"))
        numbers = (int(row["cases"]), int(row["held"] or 0), below, above, width, row["target"])
        scores[row["scored"]][row["case_class"]] = Score(row["scored"], row["case_class"], *numbers)
    return [
        score
        for kind, by_class in scores.items()
        for score in ([by_class[each] for each in CaseClass if each in by_class] or [Score(kind, CaseClass.ALL)])
    ]


def found_while_reading(from_at: datetime, to_at: datetime) -> tuple[int, int]:
    """Holes and late rows that runs found which read the nodes and ended in [from, to)."""
    ended = AnalyticsRun.objects.filter(finished_at__gte=from_at, finished_at__lt=to_at)
    found = ended.order_by().aggregate(holes=Sum("holes"), late_rows=Sum("late_rows"))
    return int(found["holes"] or 0), int(found["late_rows"] or 0)


def states() -> dict[str, TableState]:
    """How far each table is; one that no run has filled is not there."""
    return {state.table: state for state in TableState.objects.all()}


def demo_states() -> list[TableState]:
    """Tables that contain demo data, with the run that made it."""
    return list(TableState.objects.filter(run__job=DEMO_JOB).select_related("run").order_by("table"))


def keep_days() -> dict[Step, int]:
    """How long rows of each step are kept."""
    return {step: settings.ANALYTICS_KEEP_DAYS[step] for step in Step}


def kept_since_ms(step: Step, now: datetime) -> int:
    """Rows of a step that begin earlier are forgotten."""
    return int(now.timestamp() * 1000) - keep_days()[step] * DAY_MS


def filters_of(table: SummaryTable) -> tuple[str, ...]:
    """What rows of a table can be narrowed by: its key, the run, and the team that owns its subjects."""
    names = dict.fromkeys(table.model.key)
    if "subject" in names:
        names[TEAM] = None
    return (*names, *(column.name for column in table.columns if column.type == "boolean"), "run")


@dataclass(frozen=True, slots=True)
class Ranked:
    """One key of a table, such as a consumer group, in a range."""

    extreme: float | None
    """The highest value of the ranked column, or the lowest of an ascending ranking; None: a time that never comes."""
    last: Summary
    """Its latest row."""
    values: list[tuple[int, float | None]]
    """The beginning of each step with a row, in milliseconds, ascending, and the column's value."""


def ranking(found: "QuerySet[Any]", key: tuple[str, ...], column: str, *, descending: bool) -> tuple[list[Ranked], int]:
    """Return the RANKED_MAX keys of rows with the highest (or lowest) value of a column, and how many keys there are.

    Keys without a value are left out: they were not measured. A time that never comes is longer than all others.
    """
    extreme = Max(column) if descending else Min(column)
    ranked_by = F("extreme").desc(nulls_first=True) if descending else F("extreme").asc(nulls_last=True)
    known = (column, found.model.never.get(column, column))
    measured = found.filter(reduce(or_, (Q(**{f"{name}__isnull": False}) for name in known))).order_by()
    keys = measured.values(*key).annotate(extreme=extreme)
    ordered = keys.order_by(ranked_by, *key)
    chosen = {tuple(row[name] for name in key): row["extreme"] for row in ordered[:RANKED_MAX]}
    if not chosen:
        return [], 0
    wanted = reduce(or_, (Q(**dict(zip(key, values, strict=True))) for values in chosen))
    rows_of: dict[tuple[Any, ...], list[Summary]] = {values: [] for values in chosen}
    for row in found.filter(wanted).order_by("at_ms"):
        rows_of[tuple(getattr(row, name) for name in key)].append(row)
    ranked = [
        Ranked(chosen[values], of[-1], [(row.at_ms, getattr(row, column)) for row in of])
        for values, of in rows_of.items()
    ]
    return ranked, keys.count()


@dataclass(frozen=True, slots=True)
class Omission:
    """What a window of a table lacks because its moments have only the rows that rank highest (SummaryTable.ranked_by)."""

    ranked_by: str
    left_out_count: int
    """Most rows that a moment lacks."""
    rows_count: int
    """Rows that this moment would have."""
    moments_count: int
    """Moments that lack rows."""


def omission(table: SummaryTable, step: Step, window: Window) -> Omission | None:
    """What is left out of a window; None: nothing."""
    found = _left_out(table, step, window)
    most = found.order_by("-left_out_count", "at_ms").first()
    if most is None:
        return None
    return Omission(table.model.ranked_by, most.left_out_count, most.rows_count, found.count())


def lacking(table: SummaryTable, step: Step, window: Window) -> set[int]:
    """Moments of a window that lack rows: a key without a row may have had values."""
    return set(_left_out(table, step, window).values_list("at_ms", flat=True))


def _left_out(table: SummaryTable, step: Step, window: Window) -> "QuerySet[LeftOut]":
    return LeftOut.objects.filter(
        table=table.name, step_seconds=step.seconds, at_ms__gte=window.from_ms, at_ms__lt=window.to_ms
    )


def rows(table: SummaryTable, step: Step, window: Window, filters: Mapping[str, Any]) -> "QuerySet[Any]":
    """Rows of a table that begin in a window, without those of windows that are being published.

    Args:
        filters: names of `filters_of` and the values that are wanted.
    """
    wanted = dict(filters)
    found: QuerySet[Any] = table.model._default_manager.filter(
        step_seconds=step.seconds, at_ms__gte=window.from_ms, at_ms__lt=window.to_ms
    )
    unfinished = TableState.objects.filter(table=table.name).values_list("unfinished", flat=True).first()
    for seconds, from_ms, to_ms in unfinished or ():
        if seconds == step.seconds and from_ms < window.to_ms and to_ms > window.from_ms:
            found = found.exclude(at_ms__gte=from_ms, at_ms__lt=to_ms)
    if TEAM in wanted and TEAM not in table.model.key:
        owned = metadata.subjects().filter(owner__name=wanted.pop(TEAM)).order_by()
        found = found.filter(subject__in=owned.values("name"))
    return found.filter(**wanted)
