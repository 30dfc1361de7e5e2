"""Filters that work alike on every database and reject invalid values, because an ignored filter would return a wrong list."""

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
    """`?ordering=`: one or more of the view's `ordering_fields`, which are names of its answers. Pages apply it, by the database
    names in the view's `ordering_paths` (api/pagination.py); this class only describes it.
    """

    def filter_queryset(self, request: Any, queryset: "QuerySet[Any]", view: Any) -> "QuerySet[Any]":
        return queryset

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        """Describe the parameter in the OpenAPI file."""
        text = f"One or more of {', '.join(view.ordering_fields)}, with '-' for descending. Null sorts as the greatest value."
        return [
            {"name": "ordering", "required": False, "in": "query", "schema": {"type": "string"}, "description": text}
        ]


class PartFilter(django_filters.CharFilter):  # type: ignore[misc]
    """Words, each of which is a case-insensitive substring of a text, or of one of several: "order created" finds order.created.

    `icontains` depends on the collation, and MariaDB's is case-sensitive (metaserver.stored.database), so it would not ignore case
    there.
    """

    def __init__(self, *fields: str, **options: Any) -> None:
        super().__init__(fields[0], **options)
        self._fields = fields

    def filter(self, queryset: "QuerySet[Any]", value: str) -> "QuerySet[Any]":
        return containing(queryset, value, *self._fields) if value else queryset


class PrefixFilter(django_filters.CharFilter):  # type: ignore[misc]
    """Prefix of a text, case-sensitive. SQLite's LIKE, to which `startswith` compiles, ignores case."""

    def filter(self, queryset: "QuerySet[Any]", value: str) -> "QuerySet[Any]":
        if not value:
            return queryset
        name = f"beginning_of_{self.field_name}"
        lefts: dict[str, Any] = {name: Left(self.field_name, len(value))}
        return cast("QuerySet[Any]", queryset.alias(**lefts).filter(**{name: value}))


class MemberFilter(django_filters.CharFilter):  # type: ignore[misc]
    """A text that a JSON list contains as an exact member.

    SQLite can't ask JSON for that, so its text is searched: quotes inside members are escaped there, a quoted one is found whole.
    Characters outside ASCII are escaped by some databases and not by others.
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
    """Return the rows in which each word of a text occurs in one of these fields, ignoring case. Raises 400 for too many words."""
    # Both sides are lowered by the database: Python's idea of lower case is not SQLite's.
    wanted = Q()
    for word in search_words(value):
        in_one = Q()
        for field in fields:
            in_one |= Q(**{f"lower_{field}__contains": Lower(Value(word))})
        wanted &= in_one
    lowered: dict[str, Any] = {f"lower_{field}": Lower(field) for field in fields}
    return cast("QuerySet[Any]", queryset.alias(**lowered).filter(wanted))


def search_words(text: str) -> list[str]:
    """Return the words of a search. Raises 400 for too many."""
    words = text.split()
    if len(words) > SEARCH_WORDS_MAX:
        raise invalid("search", f"must have at most {SEARCH_WORDS_MAX} words", text)
    return words


SEARCH = OpenApiParameter(
    "search", OpenApiTypes.STR, description="Words that all occur in the row's texts, ignoring case."
)
SEARCH_WORDS_MAX = 10
SEARCH_CHARS_MAX = 200


def searched(request: Request, queryset: "QuerySet[Any]", *fields: str) -> "QuerySet[Any]":
    """`?search=` for lists without a filter set; raises 400 for an invalid text."""
    text = request.query_params.get("search", "")
    problem = text_problem(text) or (len(text) > SEARCH_CHARS_MAX and f"at most {SEARCH_CHARS_MAX} characters")
    if problem:
        raise invalid("search", str(problem))
    return containing(queryset, text, *fields) if text else queryset


class _TruthField(forms.NullBooleanField):
    """true or false; any other value is invalid."""

    def to_python(self, value: Any) -> bool | None:  # type: ignore[override]
        if value in (None, ""):
            return None
        found = {"true": True, "1": True, "false": False, "0": False}.get(str(value).lower())
        if found is None:
            raise forms.ValidationError("must be true or false")
        return found


class TruthFilter(django_filters.BooleanFilter):  # type: ignore[misc]
    """A boolean query parameter."""

    field_class = _TruthField

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("widget", forms.TextInput)
        super().__init__(*args, **kwargs)
