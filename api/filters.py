"""Filters that mean the same on every database, and refuse what they don't understand.

A list that quietly left a filter out would answer something else than was asked.
"""

import json
from typing import Any, cast

import django_filters
from django import forms
from django.db import connections
from django.db.models import Q, QuerySet, TextField, Value
from django.db.models.functions import Cast, Collate, Left, Lower, StrIndex
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.filters import OrderingFilter
from rest_framework.request import Request

from api.problems import invalid
from metaserver.services.changes import text_problem


class Ordering(OrderingFilter):
    """`?ordering=`: one or more of the view's `ordering_fields`, which are names of its answers. Pages order, by what the view's
    `ordering_paths` calls them in the database (api/pagination.py); here it is only described."""

    def filter_queryset(self, request: Any, queryset: "QuerySet[Any]", view: Any) -> "QuerySet[Any]":
        return queryset

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """For the OpenAPI file."""
        text = (
            f"One or more of {', '.join(view.ordering_fields)}, with '-' for descending. Null counts as the greatest."
        )
        return [
            {"name": "ordering", "required": False, "in": "query", "schema": {"type": "string"}, "description": text}
        ]


class PartFilter(django_filters.CharFilter):  # type: ignore[misc]
    """Part of a text, or of one of several, whatever the case.

    `icontains` leaves case to the collation, and MariaDB's has to tell orders from Orders (metaserver.database): there it
    would find upper case only where upper case was asked for.
    """

    def __init__(self, *fields: str, **options: Any) -> None:
        super().__init__(fields[0], **options)
        self._fields = fields

    def filter(self, queryset: "QuerySet[Any]", value: str) -> "QuerySet[Any]":
        return containing(queryset, value, *self._fields) if value else queryset


class PrefixFilter(django_filters.CharFilter):  # type: ignore[misc]
    """The beginning of a text, as it is written: SQLite's LIKE, which `startswith` becomes, does not look at case."""

    def filter(self, queryset: "QuerySet[Any]", value: str) -> "QuerySet[Any]":
        if not value:
            return queryset
        name = f"beginning_of_{self.field_name}"
        lefts: dict[str, Any] = {name: Left(self.field_name, len(value))}
        return cast("QuerySet[Any]", queryset.alias(**lefts).filter(**{name: value}))


class MemberFilter(django_filters.CharFilter):  # type: ignore[misc]
    """A text that a JSON list of texts has in it, exactly.

    SQLite can't ask JSON for that, so its text is searched: quotes inside members are escaped there, a quoted one is found whole.
    Letters past ASCII are escaped by some databases and not by others.
    """

    def filter(self, queryset: "QuerySet[Any]", value: str) -> "QuerySet[Any]":
        if not value:
            return queryset
        wanted = Q()
        places: dict[str, Any] = {}
        for escapes in (True, False):
            name = f"place_{escapes}_in_{self.field_name}".lower()
            quoted = Value(json.dumps(value, ensure_ascii=escapes))
            text: Any = Cast(self.field_name, TextField())
            if connections[queryset.db].vendor == "mysql":
                # What is cast has the connection's collation there, which takes g1 for G1.
                text = Collate(text, "utf8mb4_bin")
            places[name] = StrIndex(text, quoted)
            wanted |= Q(**{f"{name}__gt": 0})
        return cast("QuerySet[Any]", queryset.alias(**places).filter(wanted))


def containing(queryset: "QuerySet[Any]", value: str, *fields: str) -> "QuerySet[Any]":
    """Rows one of whose fields contains a text, whatever the case."""
    # Both sides are lowered by the database: Python's idea of lower case is not SQLite's.
    wanted = Q()
    for field in fields:
        wanted |= Q(**{f"lower_{field}__contains": Lower(Value(value))})
    lowered: dict[str, Any] = {f"lower_{field}": Lower(field) for field in fields}
    return cast("QuerySet[Any]", queryset.alias(**lowered).filter(wanted))


SEARCH = OpenApiParameter("search", OpenApiTypes.STR, description="Case-insensitive substring of the row's texts.")
SEARCH_CHARS_MAX = 200


def searched(request: Request, queryset: "QuerySet[Any]", *fields: str) -> "QuerySet[Any]":
    """`?search=` for lists without a filter set; raises 400 for a text that can't be searched for."""
    text = request.query_params.get("search", "")
    problem = text_problem(text) or (len(text) > SEARCH_CHARS_MAX and f"at most {SEARCH_CHARS_MAX} characters")
    if problem:
        raise invalid("search", str(problem))
    return containing(queryset, text, *fields) if text else queryset


class _TruthField(forms.NullBooleanField):
    """true or false; anything else is a mistake."""

    def to_python(self, value: Any) -> bool | None:  # type: ignore[override]
        if value in (None, ""):
            return None
        found = {"true": True, "1": True, "false": False, "0": False}.get(str(value).lower())
        if found is None:
            raise forms.ValidationError("must be true or false")
        return found


class TruthFilter(django_filters.BooleanFilter):  # type: ignore[misc]
    """A truth value of the query."""

    field_class = _TruthField

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("widget", forms.TextInput)
        super().__init__(*args, **kwargs)
