"""A page of subjects in the order of a live number. The database filters; the numbers order what it leaves."""

import operator
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from rest_framework.response import Response

from api.generics import ListView
from api.live_pages import LivePages
from api.problems import invalid
from console.reports import overview
from console.reports.subject_table import NUMBERS

PARTS, PART_NAMES = 2, 300
"""Parts of the order, and names of each, in which a filtered page looks for its rows before it reads all that match."""
PAGES = LivePages(("name",), tuple(f"-{number}" for number in NUMBERS), operator.getitem)


def live_order(ordering: str) -> bool:
    """Whether this is the order of a live number.

    Raises:
        Problem: 400 for one of several fields with a live number among them.
    """
    fields = [name.strip().removeprefix("-") for name in ordering.split(",")]
    found = [name for name in fields if name in NUMBERS]
    if found and len(fields) > 1:
        raise invalid("ordering", f"{found[0]} can't be combined with other fields", ordering)
    return bool(found)


def matching(rows: Any, names: Iterator[str]) -> Iterator[str]:
    """Those of the names that rows have.

    Most filters let most subjects through, or few: the database is asked for the first names alone, then for all that match.
    """
    for _ in range(PARTS):
        part = list(islice(names, PART_NAMES))
        if not part:
            return
        yield from filter(_names(rows.filter(name__in=part)).__contains__, part)
    if (first := next(names, None)) is not None:
        yield from filter(_names(rows).__contains__, chain((first,), names))


def _names(rows: Any) -> frozenset[str]:
    return frozenset(rows.order_by().values_list("name", flat=True))


def live_page(view: ListView) -> Response:
    """The requested page of a list of subjects.

    Without filters the database is asked for the rows of the page alone.
    """
    rows: Any = view.filter_queryset(view.get_queryset())
    is_filtered = any(map(view.request.query_params.get, view.filters))
    table = overview.subject_table(overview.numbers())
    page, following = PAGES.page_of(
        view, table.ordered, table.row, (lambda names: matching(rows, names)) if is_filtered else iter
    )
    found = {row.name: row for row in rows.filter(name__in=[row["name"] for row in page])}
    shown = [found[row["name"]] for row in page if row["name"] in found]
    assert view.serializer_class is not None
    data = view.serializer_class(shown, many=True, context={"view": view}).data
    return Response({"results": data, "next": following, "previous": None})
