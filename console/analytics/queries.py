"""The read side."""

from typing import Any

from django.db.models import QuerySet

from console.analytics.models import AnalyticsRun
from console.analytics.tables import SummaryTable


def runs() -> QuerySet[AnalyticsRun]:
    """Runs, newest first."""
    return AnalyticsRun.objects.all()


def rows(table: SummaryTable) -> "QuerySet[Any]":
    """Rows of a summary table, newest first."""
    return table.model._default_manager.order_by(f"-{table.at}", "-pk")
