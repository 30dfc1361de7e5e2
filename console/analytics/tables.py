"""The summary tables that the console may read, by name. Jobs register theirs."""

from dataclasses import dataclass

from django.db.models import Model


@dataclass(frozen=True, slots=True)
class SummaryTable:
    """A table: its model, the columns that are shown with their units, and the column that says when."""

    name: str
    text: str
    model: type[Model]
    columns: dict[str, str]
    """Column -> what it means, with its unit."""
    at: str


TABLES: dict[str, SummaryTable] = {}
