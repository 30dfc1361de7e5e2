"""/jump/: where a text leads."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.problems import invalid
from api.serializers import jump as shapes
from console import jump
from console.accounts.roles import Right
from metaserver.services.changes import text_problem


class JumpView(ApiView):
    """Ctrl-K."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.PlaceRow

    @extend_schema(
        operation_id="jump",
        responses=shapes.Places,
        parameters=[OpenApiParameter("q", str, required=True, description="Substring of a name, or a message ID.")],
    )
    def get(self, request: Request) -> Response:
        """At most 20 things whose name has the text in it, the best first: subjects, consumer groups (`subject/group` too),
        broker groups, nodes, teams, alert rules; users for those who may see them. A message is found by its id when it is
        delayed, or a dead letter that was decided about; others by their subject, a space and the id.
        """
        text = request.query_params.get("q", "").strip()
        what = text_problem(text)
        if not 1 <= len(text) <= jump.QUERY_CHARS_MAX:
            what = f"must have 1 to {jump.QUERY_CHARS_MAX} characters"
        if what:
            raise invalid("q", what)
        found = jump.jump(text, sees_accounts=self.principal.may(Right.CHANGE_ACCOUNTS))
        return Response({"results": shapes.PlaceRow(found.places, many=True).data, "unreachable": found.unreachable})
