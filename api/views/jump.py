"""/jump/: search by name."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.problems import invalid
from api.serializers import jump as shapes
from console.accounts.roles import Right
from console.reports import search
from metaserver.services.changes import text_problem


class JumpView(ApiView):
    """Search by name: at most 20 subjects, consumer groups (also `subject/group`), broker groups, nodes, teams, alert rules,
    and users (if the caller can see them), best match first. A message is found by its ID if it is delayed, or a dead letter
    that was replayed or deleted; other messages by subject, a space and ID.
    """

    rights = {"GET": Right.READ}
    serializer_class = shapes.Places

    @extend_schema(
        operation_id="jump",
        parameters=[OpenApiParameter("q", str, required=True, description="Substring of a name, or a message ID.")],
    )
    def get(self, request: Request) -> Response:
        text = request.query_params.get("q", "").strip()
        what = text_problem(text)
        if not 1 <= len(text) <= search.QUERY_CHARS_MAX:
            what = f"must have 1 to {search.QUERY_CHARS_MAX} characters"
        if what:
            raise invalid("q", what)
        found = search.jump(text, sees_accounts=self.principal.may(Right.CHANGE_ACCOUNTS))
        return Response({"results": shapes.PlaceRow(found.places, many=True).data, "unreachable": found.unreachable})
