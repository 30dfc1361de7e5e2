"""Filters that mean the same on every database, and refuse what they don't understand.

A list that quietly left a filter out would answer something else than was asked.
"""

from typing import Any

import django_filters
from django import forms
from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Left, Lower


class PartFilter(django_filters.CharFilter):  # type: ignore[misc]
    """Part of a text, whatever the case.

    `icontains` leaves case to the collation, and MariaDB's has to tell orders from Orders (metaserver.database): there it
    would find upper case only where upper case was asked for.
    """

    def filter(self, queryset: "QuerySet[Any]", value: str) -> "QuerySet[Any]":
        return containing(queryset, value, self.field_name) if value else queryset


class PrefixFilter(django_filters.CharFilter):  # type: ignore[misc]
    """The beginning of a text, as it is written: SQLite's LIKE, which `startswith` becomes, does not look at case."""

    def filter(self, queryset: "QuerySet[Any]", value: str) -> "QuerySet[Any]":
        if not value:
            return queryset
        name = f"beginning_of_{self.field_name}"
        found: QuerySet[Any] = queryset.alias(**{name: Left(self.field_name, len(value))})
        return found.filter(**{name: value})


def containing(queryset: "QuerySet[Any]", value: str, *fields: str) -> "QuerySet[Any]":
    """Rows one of whose fields contains a text, whatever the case."""
    # Both sides are lowered by the database: Python's idea of lower case is not SQLite's.
    found: QuerySet[Any] = queryset.alias(**{f"lower_{field}": Lower(field) for field in fields})
    wanted = Q()
    for field in fields:
        wanted |= Q(**{f"lower_{field}__contains": Lower(Value(value))})
    return found.filter(wanted)


class _TruthField(forms.NullBooleanField):
    """true or false; anything else is a mistake."""

    def to_python(self, value: Any) -> bool | None:  # type: ignore[override]
        if value in (None, ""):
            return None
        found = {"true": True, "1": True, "false": False, "0": False}.get(str(value).lower())
        if found is None:
            raise forms.ValidationError("true or false is needed")
        return found


class TruthFilter(django_filters.BooleanFilter):  # type: ignore[misc]
    """A truth value of the query."""

    field_class = _TruthField

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("widget", forms.TextInput)
        super().__init__(*args, **kwargs)
