"""Rows and runs past their time go."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from console.analytics import queries
from console.analytics.models import AnalyticsRun, LeftOut
from console.analytics.steps import Step
from console.analytics.tables import TABLES, SummaryTable
from metaserver.services.changes import delete_some

BATCH_ROWS = 5_000
"""Rows of one statement, and the others of the same moment: no lock lasts."""
RUNS_MAX = 500


def forget_old(now: datetime, *, is_time_up: Callable[[], bool]) -> int:
    """Delete rows that are kept no longer, batch by batch until none are left or the time is up; how many.

    Runs go when even days are kept no longer. Minutes come by the million where there are many subjects, so that a fixed number
    at a time would fall behind.
    """
    deleted = 0
    for table in TABLES.values():
        for step in table.model.steps:
            while not is_time_up() and (done := _forget_batch(table, step, now)):
                deleted += done
            if not is_time_up():
                old_notes = LeftOut.objects.filter(
                    table=table.name, step_seconds=step.seconds, at_ms__lt=queries.kept_since_ms(step, now)
                )
                delete_some(old_notes.order_by("at_ms"), BATCH_ROWS)
    old = now - timedelta(days=max(queries.keep_days().values()))
    delete_some(AnalyticsRun.objects.filter(started_at__lt=old).order_by("pk"), RUNS_MAX)
    return deleted


def _forget_batch(table: SummaryTable, step: Step, now: datetime) -> int:
    old: QuerySet[Any] = table.model._default_manager.filter(
        step_seconds=step.seconds, at_ms__lt=queries.kept_since_ms(step, now)
    )
    moments = old.order_by("at_ms").values_list("at_ms", flat=True)
    last = moments[BATCH_ROWS - 1 : BATCH_ROWS].first() or moments.last()
    return 0 if last is None else int(old.filter(at_ms__lte=last).delete()[0])
