"""/subject-tree/."""

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.problems import invalid
from api.serializers import subjects as shapes
from console.accounts.roles import Right
from console.cursors import decode_cursor, encode_cursor
from console.reports import overview
from console.reports.subject_tree import SEPARATOR, children, numbers_of

CHILDREN_DEFAULT = 100
CHILDREN_MAX = 500


class SubjectTreeView(ApiView):
    """List what is in a folder of subjects: subjects, and folders with the sums of their subjects.

    The parts of names between points are folders; nothing stores them. Numbers are as of the collector's newest measurement.
    """

    rights = {"GET": Right.READ}
    serializer_class = shapes.SubjectTree

    @extend_schema(
        operation_id="subject_tree",
        parameters=[
            OpenApiParameter("folder", str, description="Such as `order.paid.`; absent: the top."),
            OpenApiParameter(
                "limit", OpenApiTypes.INT, description=f"1 to {CHILDREN_MAX}. Default: {CHILDREN_DEFAULT}."
            ),
            OpenApiParameter("cursor", str, description="`next` of the previous response, with the same folder."),
        ],
    )
    def get(self, request: Request) -> Response:
        folder = request.query_params.get("folder", "")
        if folder and not folder.endswith(SEPARATOR):
            raise invalid("folder", f"must end with {SEPARATOR!r}, such as 'order.'", folder)
        limit = self.whole("limit", CHILDREN_DEFAULT, minimum=1, maximum=CHILDREN_MAX) or CHILDREN_DEFAULT
        cursor, query = request.query_params.get("cursor"), ("subject-tree", folder)
        begin = decode_cursor(cursor, query) if cursor else ""
        live = overview.numbers()
        table = overview.subject_table(live)
        found = children(table.names, folder, begin, limit + 1)
        results = [
            {"name": node.name, "is_folder": node.is_folder, "subjects": node.end - node.begin}
            | numbers_of(map(table.entries.get, table.names[node.begin : node.end]))
            for node in found[:limit]
        ]
        following = encode_cursor(query, table.names[found[limit].begin]) if len(found) > limit else None
        return Response({"at": live.at, "reason": live.reason, "results": results, "next": following})
