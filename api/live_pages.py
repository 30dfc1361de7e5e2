"""Pages of rows in memory: live numbers, ordered by any field. Unknown values come last in both directions.

Numbers change from page to page: a cursor is a place in the order, not a row.
"""

import operator
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from drf_spectacular.utils import OpenApiParameter

from api.base import ApiView
from api.pagination import PAGE_DEFAULT, PAGE_MAX
from api.problems import invalid
from console.cursors import decode_cursor, encode_cursor

Row = Mapping[str, Any]
Key = TypeVar("Key")
Value = Callable[[Row, str], Any]


@dataclass(frozen=True, slots=True)
class LivePages:
    """The ordering of a list.

    Args:
        names: the fields that identify a row; they break ties.
        orderings: allowed values of `?ordering=`, '-' for descending; the first is the default.
        value: returns the sort value of a row and a field; None: unknown.
    """

    names: tuple[str, ...]
    orderings: tuple[str, ...]
    value: Value = operator.getitem

    @property
    def parameters(self) -> list[OpenApiParameter]:
        """Describe the parameters in the OpenAPI file."""
        orders = [sign + name.removeprefix("-") for name in self.orderings for sign in ("", "-")]
        text = f"Default: {self.orderings[0]}. Unknown values come last."
        return [
            OpenApiParameter("ordering", str, enum=orders, description=text),
            OpenApiParameter("limit", int, description=f"Rows per page, 1 to {PAGE_MAX}. Default: {PAGE_DEFAULT}."),
            OpenApiParameter("cursor", str, description="`next` of the previous response, with the same ordering."),
        ]

    def page(self, view: ApiView, rows: Sequence[Row]) -> tuple[list[Row], str | None]:
        """Return the rows of the requested page and the cursor of the next one.

        Raises:
            Problem: 400 for an illegal ordering or limit.
            ChangeRefused: the cursor belongs to another list or ordering.
        """

        def in_order(field: str, is_down: bool) -> list[Row]:
            found = sorted(rows, key=lambda row: [row[name] for name in self.names])
            known = [row for row in found if self.value(row, field) is not None]
            known.sort(key=lambda row: self.value(row, field), reverse=is_down)
            return known + [row for row in found if self.value(row, field) is None]

        return self.page_of(view, in_order, lambda row: row)

    def page_of(
        self,
        view: ApiView,
        in_order: Callable[[str, bool], Sequence[Key]],
        row_of: Callable[[Key], Row],
        let_through: Callable[[Iterator[Key]], Iterator[Key]] = lambda keys: keys,
    ) -> tuple[list[Row], str | None]:
        """As `page`, of a list that makes rows of keys: only those of the page are made, and a few to find its beginning.

        Args:
            in_order: all keys by a field, descending or not; then by the names. Those with an unknown value come last.
            let_through: the keys that a request's filters let through, in the same order.
        """
        most = PAGE_MAX if view.download is None else view.download_page_rows
        limit = view.whole("limit", PAGE_DEFAULT, minimum=1, maximum=most) or PAGE_DEFAULT
        query = view.request.query_params
        ordering = query.get("ordering") or self.orderings[0]
        known = {name.removeprefix("-") for name in self.orderings}
        if ordering.removeprefix("-") not in known:
            raise invalid(
                "ordering", f"must be one of {', '.join(sorted(known))}, with '-' for descending order", ordering
            )
        is_down, field = ordering.startswith("-"), ordering.removeprefix("-")
        keys, begin = in_order(field, is_down), 0
        if cursor := query.get("cursor"):
            at = decode_cursor(cursor, (self.names, ordering))
            begin = bisect_left(
                keys, True, key=lambda key: _is_behind(self._place(row_of(key), field), at, is_down)
            )  # fmt: skip
        needed = limit if view.download is None else max(limit, view.download.rows_max)
        found = list(islice(let_through(map(keys.__getitem__, range(begin, len(keys)))), needed + 1))
        if view.download is not None and view.download.is_longer is None:
            view.download.is_longer = len(found) > view.download.rows_max
        page = [row_of(key) for key in found[:limit]]
        if len(found) <= limit:
            return page, None
        return page, encode_cursor((self.names, ordering), self._place(page[-1], field))

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
