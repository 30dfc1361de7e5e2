"""What alert rules are evaluated on: the newest hour of a table, and how forecasts of each class turned out."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet, Sum

from console.analytics import queries
from console.analytics.models import DEMO_JOB, Scored, TableState
from console.analytics.rows import WHOLE_MAX, Window
from console.analytics.steps import DAY_MS, Step
from console.analytics.tables import TABLES

HELD_RATIO_MIN = 0.7
HELD_RATIO_MAX = 0.9
"""Share of the forecasts of a class that held, below or above which alerts do not use the class."""
AGE_MS_MAX = 7_200_000
"""Age of a row, from the end of its hour on, above which alerts do not use it."""


@dataclass(frozen=True, slots=True)
class Held:
    """Forecasts of a class that came due in the last SCORE_DAYS, and those of them that held."""

    cases_count: int = 0
    held_count: int = 0


def doubt(held: Held) -> str:
    """Return why alerts do not use forecasts of a class; "": they do."""
    if held.cases_count < queries.SCORE_CASES_MIN:
        return f"similar forecasts that came due in 30 days: {held.cases_count} of at least {queries.SCORE_CASES_MIN}"
    ratio = held.held_count / held.cases_count
    if not HELD_RATIO_MIN <= ratio <= HELD_RATIO_MAX:
        return f"of similar forecasts {100 * ratio:.1f}% held in 30 days, not between 70% and 90%"
    return ""


def outdated(at_ms: int, now_ms: int) -> str:
    """Return why alerts do not use rows of an hour that begins at `at_ms`; "": they do."""
    is_old = now_ms - (at_ms + Step.HOUR.ms) > AGE_MS_MAX
    return "the newest hour of analytics ended more than 2 hours ago" if is_old else ""


def newest_hour(table: str) -> "QuerySet[Any]":
    """Rows of the newest hour of a table, which is not being published; none while the table has demo data."""
    hours = _hours(table, Window(0, WHOLE_MAX))
    return hours.filter(at_ms=hours.order_by("-at_ms").values("at_ms")[:1])


def held_by_class(scored: Scored, now: datetime) -> dict[str, Held]:
    """How forecasts of each class (`CaseClass`) turned out; a class of which none came due is not there."""
    now_ms = int(now.timestamp() * 1000)
    scores = _hours("forecast_scores", Window(now_ms - queries.SCORE_DAYS * DAY_MS, now_ms)).filter(scored=scored)
    sums = scores.order_by().values_list("case_class").annotate(Sum("cases_count"), Sum("held_count"))
    return {case_class: Held(int(cases or 0), int(held or 0)) for case_class, cases, held in sums}


def _hours(table: str, window: Window) -> "QuerySet[Any]":
    found = queries.rows(TABLES[table], Step.HOUR, window, {})
    has_demo = TableState.objects.filter(table=table, run__job=DEMO_JOB).exists()
    return found.none() if has_demo else found
