"""What alert rules are evaluated on: the newest hour of a table, and how forecasts of each class turned out."""

from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from console.analytics import queries
from console.analytics.models import DEMO_JOB, TableState
from console.analytics.queries import Score
from console.analytics.rows import WHOLE_MAX, Window
from console.analytics.steps import Step
from console.analytics.tables import TABLES

AGE_MS_MAX = 7_200_000
"""Age of a row, from the end of its hour on, above which alerts do not use it."""


def doubt(score: Score | None) -> str:
    """Return why alerts do not use forecasts of a class that turned out so; "": they do. None: no case came due."""
    cases_count = 0 if score is None else score.cases_count
    if score is None or score.held_ratio is None:
        return f"similar forecasts that came due in 30 days: {cases_count} of at least {queries.SCORE_CASES_MIN}"
    if not score.is_trusted:
        return f"of similar forecasts {100 * score.held_ratio:.1f}% held in 30 days, not between 70% and 90%"
    return ""


def outdated(at_ms: int, now_ms: int) -> str:
    """Return why alerts do not use rows of an hour that begins at `at_ms`; "": they do."""
    is_old = now_ms - (at_ms + Step.HOUR.ms) > AGE_MS_MAX
    return "the newest hour of analytics ended more than 2 hours ago" if is_old else ""


def newest_hour(table: str) -> "QuerySet[Any]":
    """Rows of the newest hour of a table, which is not being published; none while the table has demo data."""
    hours = _hours(table, Window(0, WHOLE_MAX))
    newest = hours.order_by("-at_ms").values("at_ms")[:1]
    # Not a part of `hours`: with a range beside it, SQLite reads the whole range.
    return TABLES[table].model._default_manager.filter(step_seconds=Step.HOUR.seconds, at_ms=newest)


def scores_by_class(table: str, now: datetime) -> dict[str, Score]:
    """How forecasts of each class (`CaseClass`) turned out; none while the scores are demo data."""
    scores = [] if _has_demo("forecast_scores") else queries.scores_of(table, now)
    return {score.case_class: score for score in scores}


def _hours(table: str, window: Window) -> "QuerySet[Any]":
    found = queries.rows(TABLES[table], Step.HOUR, window, {})
    return found.none() if _has_demo(table) else found


def _has_demo(table: str) -> bool:
    return TableState.objects.filter(table=table, run__job=DEMO_JOB).exists()
