"""The read side."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from console.analytics.models import AnalyticsRun, TableState
from console.analytics.rows import Window
from console.analytics.steps import DAY_MS, Step
from console.analytics.tables import SummaryTable
from metaserver import queries as metadata

TEAM = "team"


def runs() -> QuerySet[AnalyticsRun]:
    """Runs, newest first."""
    return AnalyticsRun.objects.all()


def runs_of(ids: Iterable[int]) -> list[AnalyticsRun]:
    """These runs, newest first."""
    return list(AnalyticsRun.objects.filter(pk__in=sorted(set(ids))))


def states() -> dict[str, TableState]:
    """How far each table is; one that no run has filled is not there."""
    return {state.table: state for state in TableState.objects.all()}


def state_of(table: str) -> TableState | None:
    """How far a table is; None: no run has filled it."""
    return TableState.objects.filter(table=table).first()


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


def rows(table: SummaryTable, step: Step, window: Window, filters: Mapping[str, Any]) -> "QuerySet[Any]":
    """Rows of a table that begin in a window.

    Args:
        filters: names of `filters_of` and the values that are wanted.
    """
    wanted = dict(filters)
    found: QuerySet[Any] = table.model._default_manager.filter(
        step_seconds=step.seconds, at_ms__gte=window.from_ms, at_ms__lt=window.to_ms
    )
    if TEAM in wanted and TEAM not in table.model.key:
        owned = metadata.subjects().filter(owner__name=wanted.pop(TEAM)).order_by()
        found = found.filter(subject__in=owned.values("name"))
    return found.filter(**wanted).defer(*(column.name for column in table.columns if column not in table.shown))
