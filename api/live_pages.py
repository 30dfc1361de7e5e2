"""Pages of rows that are in memory: live numbers, ordered by any of them. What is unknown comes last, in both directions.

Numbers change from page to page: a cursor is a place in the order, not a row.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core import signing
from drf_spectacular.utils import OpenApiParameter

from api.base import ApiView
from api.pagination import PAGE_DEFAULT, PAGE_MAX
from api.problems import Problem

Row = Mapping[str, Any]
Value = Callable[[Row, str], Any]


@dataclass(frozen=True, slots=True)
class LivePages:
    """How the rows of a list are ordered.

    Args:
        names: the fields that tell rows apart; they order what is alike otherwise.
        orderings: the fields that `?ordering=` may name, '-' for descending; the first is taken unless told.
        value: what orders, of a row and a field; None: unknown.
    """

    names: tuple[str, ...]
    orderings: tuple[str, ...]
    value: Value = operator.getitem

    @property
    def parameters(self) -> list[OpenApiParameter]:
        """For the OpenAPI file."""
        orders = [sign + name.removeprefix("-") for name in self.orderings for sign in ("", "-")]
        text = f"{self.orderings[0]} unless told. What is unknown comes last."
        return [
            OpenApiParameter("ordering", str, enum=orders, description=text),
            OpenApiParameter("limit", int, description=f"Rows of a page, 1 to {PAGE_MAX}; {PAGE_DEFAULT} unless told."),
            OpenApiParameter("cursor", str, description="`next` of the answer before, with the same ordering."),
        ]

    def page(self, view: ApiView, rows: Sequence[Row]) -> tuple[list[Row], str | None]:
        """The rows of the page that a request asks for, and the cursor of the next one.

        Raises:
            Problem: 400 for an ordering, a limit or a cursor that can't be.
        """
        most = PAGE_MAX if view.download is None else view.download_page_rows
        limit = view.whole("limit", PAGE_DEFAULT, minimum=1, maximum=most) or PAGE_DEFAULT
        query = view.request.query_params
        ordering = query.get("ordering") or self.orderings[0]
        known = {name.removeprefix("-") for name in self.orderings}
        if ordering.removeprefix("-") not in known:
            what = f"one of {', '.join(sorted(known))} is needed, with '-' for descending"
            raise Problem(400, "request.invalid", f"ordering: {ordering[:40]!r}; {what}", {"ordering": what})
        cursor = query.get("cursor")
        is_down, field = ordering.startswith("-"), ordering.removeprefix("-")
        placed = [(self._place(row, field), row) for row in rows]
        if cursor:
            at = _read(cursor, ordering)
            placed = [(place, row) for place, row in placed if _is_behind(place, at, is_down)]
        placed.sort(key=lambda item: item[0][2])
        placed.sort(key=lambda item: item[0][1], reverse=is_down)
        placed.sort(key=lambda item: item[0][0])
        if view.download is not None and view.download.is_longer is None:
            view.download.is_longer = len(placed) > view.download.rows_max
        following = signing.dumps([ordering, *placed[limit - 1][0]]) if len(placed) > limit else None
        return [row for _, row in placed[:limit]], following

    def _place(self, row: Row, field: str) -> list[Any]:
        """[whether it is unknown, the value, the names]; comparable with every other of the field."""
        value = self.value(row, field)
        names = [row[name] for name in self.names]
        return [1, 0, names] if value is None else [0, value, names]


def _is_behind(place: list[Any], at: list[Any], is_down: bool) -> bool:
    if place[0] != at[0]:
        return bool(place[0] > at[0])
    if place[1] != at[1]:
        return bool(place[1] < at[1] if is_down else place[1] > at[1])
    return bool(place[2] > at[2])


def _read(cursor: str, ordering: str) -> list[Any]:
    what = "`next` of an answer with the same ordering is needed"
    try:
        said, *place = list(signing.loads(cursor))
    except (signing.BadSignature, ValueError, TypeError) as error:
        raise Problem(400, "request.cursor_illegal", f"cursor: {what}", {"cursor": what}) from error
    if said != ordering or len(place) != 3:
        raise Problem(400, "request.cursor_illegal", f"cursor: {what}", {"cursor": what})
    return list(place)
