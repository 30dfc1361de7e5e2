"""Filters that mean the same on every database."""

from typing import Any

import django_filters
from django.db.models import QuerySet, Value
from django.db.models.functions import Lower


class PartFilter(django_filters.CharFilter):  # type: ignore[misc]
    """Part of a text, whatever the case.

    `icontains` leaves case to the collation, and MariaDB's has to tell orders from Orders (metaserver.database): there it
    would find upper case only where upper case was asked for.
    """

    def filter(self, queryset: "QuerySet[Any]", value: str) -> "QuerySet[Any]":
        if not value:
            return queryset
        name = f"lower_{self.field_name}"
        # Both sides are lowered by the database: Python's idea of lower case is not SQLite's.
        found: QuerySet[Any] = queryset.alias(**{name: Lower(self.field_name)})
        return found.filter(**{f"{name}__contains": Lower(Value(value))})
