"""Cursor pages: stable while rows come and go, and as fast on the last page as on the first."""

from typing import Any

from rest_framework.pagination import CursorPagination
from rest_framework.request import Request
from rest_framework.response import Response

PAGE_DEFAULT = 50
PAGE_MAX = 500


class CursorPages(CursorPagination):
    """`?limit=&cursor=`; the answer is `{results, next, previous}`, the last two being cursors or null."""

    page_size = PAGE_DEFAULT
    page_size_query_param = "limit"
    max_page_size = PAGE_MAX
    ordering = "name"

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any] | None:
        if getattr(view, "page_ordering", None):
            self.ordering = view.page_ordering
        return super().paginate_queryset(queryset, request, view)

    def encode_cursor(self, cursor: Any) -> str:
        from urllib.parse import parse_qs, urlsplit

        url = super().encode_cursor(cursor)
        return parse_qs(urlsplit(url).query)[self.cursor_query_param][0]

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self.get_next_link(), "previous": self.get_previous_link()})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        cursor = {"type": "string", "nullable": True, "description": "to be sent as ?cursor="}
        return {
            "type": "object",
            "required": ["results", "next", "previous"],
            "properties": {"results": schema, "next": cursor, "previous": cursor},
        }
