"""A page of subjects in the order of a live number. The database filters; the numbers order what it leaves."""

import operator
from typing import Any

from rest_framework.response import Response

from api.generics import ListView
from api.live_pages import LivePages
from api.problems import invalid
from console.reports import overview
from console.reports.subject_table import NUMBERS

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


def live_page(view: ListView) -> Response:
    """The requested page of a list of subjects.

    Without filters the database is asked for the rows of the page alone, else for the names of all rows that match.
    """
    rows: Any = view.filter_queryset(view.get_queryset())
    query = view.request.query_params
    names = frozenset(rows.order_by().values_list("name", flat=True)) if any(map(query.get, view.filters)) else None
    table = overview.subject_table(overview.numbers())
    page, following = PAGES.page_of(view, table.ordered, table.row, lambda name: names is None or name in names)
    found = {row.name: row for row in rows.filter(name__in=[row["name"] for row in page])}
    shown = [found[row["name"]] for row in page if row["name"] in found]
    assert view.serializer_class is not None
    data = view.serializer_class(shown, many=True, context={"view": view}).data
    return Response({"results": data, "next": following, "previous": None})
