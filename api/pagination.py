"""Cursor pages: stable while rows come and go, and as fast on the last page as on the first.

A cursor holds the ordering and the values of the row it stands at; the page after it are the rows whose values are beyond.
However many rows have one value, and whether it is null: the last thing that orders is always one that no two rows share.
"""

from dataclasses import dataclass
from datetime import date
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.db.models import F, Q, QuerySet
from rest_framework.filters import OrderingFilter
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response

from api.problems import invalid
from console.cursors import decode_cursor, encode_cursor

PAGE_DEFAULT = 50
PAGE_MAX = 500


@dataclass(frozen=True, slots=True)
class _Key:
    """One thing that orders. Null counts as greater than everything."""

    name: str
    descending: bool
    nullable: bool
    unique: bool
    field: Any
    """The model's; None for what a query computes."""

    def order(self, backwards: bool) -> Any:
        name = F(self.name)
        if self.descending != backwards:
            return name.desc(nulls_first=True) if self.nullable else name.desc()
        return name.asc(nulls_last=True) if self.nullable else name.asc()

    def value(self, row: Any) -> Any:
        for part in self.name.split("__"):
            row = None if row is None else getattr(row, part)
        return row

    def same(self, value: Any) -> Q:
        return Q(**{f"{self.name}__isnull": True}) if value is None else Q(**{self.name: value})

    def beyond(self, value: Any, backwards: bool) -> Q | None:
        """Rows that come later; None: none do."""
        if self.descending != backwards:
            return Q(**{f"{self.name}__isnull": False}) if value is None else Q(**{f"{self.name}__lt": value})
        if value is None:
            return None
        later = Q(**{f"{self.name}__gt": value})
        return later | Q(**{f"{self.name}__isnull": True}) if self.nullable else later

    def read(self, value: Any) -> Any:
        """A cursor's value as the database wants it."""
        return value if value is None or self.field is None else self.field.to_python(value)


class CursorPages(BasePagination):
    """`?limit=&cursor=`; the answer is `{results, next, previous}`, the last two being cursors or null."""

    default_ordering = "name"

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any]:
        """Return the rows of the requested page.

        Raises:
            Problem: 400 for an illegal ordering or limit.
            ChangeRefused: the cursor belongs to another list or ordering.
        """
        keys = _keys(queryset, self._ordering(request, view))
        query = (queryset.model._meta.label, [(key.name, key.descending) for key in keys])
        limit = _limit(request)
        given = request.query_params.get("cursor")
        backwards, position = False, None
        if given:
            backwards, values = decode_cursor(given, query)
            position = tuple(key.read(value) for key, value in zip(keys, values, strict=True))
        rows = queryset.order_by(*(key.order(backwards) for key in keys))
        if position is not None:
            rows = rows.filter(_beyond(keys, position, backwards))
        found = list(rows[: limit + 1])
        has_more, found = len(found) > limit, found[:limit]
        download = getattr(view, "download", None)
        if download is not None and download.is_longer is None:
            most = download.rows_max
            download.is_longer = has_more and rows[most : most + 1].exists()
        if backwards:
            found.reverse()
        has_next = bool(found) and (backwards or has_more)
        has_previous = bool(found) and (has_more if backwards else position is not None)
        self._next = encode_cursor(query, [False, _place(keys, found[-1])]) if has_next else None
        self._previous = encode_cursor(query, [True, _place(keys, found[0])]) if has_previous else None
        return found

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self._next, "previous": self._previous})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        cursor = {"type": "string", "nullable": True, "description": "pass it as ?cursor="}
        return {
            "type": "object",
            "required": ["results", "next", "previous"],
            "properties": {"results": schema, "next": cursor, "previous": cursor},
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        limit = {"type": "integer", "minimum": 1, "default": PAGE_DEFAULT}
        return [
            {
                "name": "cursor", "required": False, "in": "query", "schema": {"type": "string"},
                "description": "`next` or `previous` of another page, with the same ordering and filters.",
            },
            {
                "name": "limit", "required": False, "in": "query", "schema": limit,
                "description": f"Rows per page, at most {PAGE_MAX}; larger values mean {PAGE_MAX}. For exports: number of rows.",
            },
        ]  # fmt: skip

    def _ordering(self, request: Request, view: Any) -> tuple[str, ...]:
        if any(issubclass(backend, OrderingFilter) for backend in getattr(view, "filter_backends", ())):
            requested = [name.strip() for name in request.query_params.get("ordering", "").split(",") if name.strip()]
            known = tuple(view.ordering_fields)
            for name in requested:
                if name.removeprefix("-") not in known:
                    raise invalid("ordering", f"must be one of {', '.join(known)}, with '-' for descending order", name)
            if requested:
                return tuple(_path(view, name) for name in requested)
        ordering = getattr(view, "ordering", None) or self.default_ordering
        return (ordering,) if isinstance(ordering, str) else tuple(ordering)


def _path(view: Any, name: str) -> str:
    """What the database calls a field that our answers call something else."""
    sign = "-" if name.startswith("-") else ""
    field = name.removeprefix("-")
    return sign + str(getattr(view, "ordering_paths", {}).get(field, field))


def _keys(queryset: "QuerySet[Any]", ordering: tuple[str, ...]) -> tuple[_Key, ...]:
    """What orders, up to the first that no two rows share; the primary key is put behind where none is."""
    keys: list[_Key] = []
    for text in (*ordering, "pk"):
        name = text.removeprefix("-")
        if any(key.name == name for key in keys):
            continue
        keys.append(_key(queryset, name, text.startswith("-")))
        if keys[-1].unique:
            break
    return tuple(keys)


def _key(queryset: "QuerySet[Any]", name: str, descending: bool) -> _Key:
    model: Any = queryset.model
    field: Any = model._meta.pk if name == "pk" else None
    nullable, parts = False, name.split("__")
    if field is None:
        try:
            for part in parts:
                field = model._meta.get_field(part)
                nullable = nullable or field.null
                model = field.related_model
        except FieldDoesNotExist:
            field = None
    return _Key(name, descending, nullable, field is not None and field.unique and len(parts) == 1, field)


def _beyond(keys: tuple[_Key, ...], position: tuple[Any, ...], backwards: bool) -> Q:
    """Rows behind the position: beyond in the first value, or the same there and beyond in the next, and so on."""
    found = Q(pk__in=[])
    before = Q()
    for key, value in zip(keys, position, strict=True):
        later = key.beyond(value, backwards)
        if later is not None:
            found |= before & later
        before &= key.same(value)
    first, value = keys[0], position[0]
    if len(keys) > 1 and value is not None and not first.nullable:
        # Says the same again in a form that an index serves.
        side = "lte" if first.descending != backwards else "gte"
        found &= Q(**{f"{first.name}__{side}": value})
    return found


def _limit(request: Request) -> int:
    text = request.query_params.get("limit")
    if not text:
        return PAGE_DEFAULT
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0):
        raise invalid("limit", f"must be a whole number from 1 to {PAGE_MAX}", text)
    return min(int(text), PAGE_MAX)


def _place(keys: tuple[_Key, ...], row: Any) -> list[Any]:
    values = [key.value(row) for key in keys]
    return [value.isoformat() if isinstance(value, date) else value for value in values]
