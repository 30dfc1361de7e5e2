"""/rehearsals/: what a rehearsal would switch over, and back."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.problems import invalid
from api.serializers import rehearsals as shapes
from console.accounts.roles import Right
from console.reports.rehearsals import PlannedSwitchOver, Rehearsals
from metaserver.services.changes import text_problem

NAME_CHARS_MAX = 100


class RehearsalsView(ApiView):
    """Return the switch-overs of a rehearsal: of all broker and delay groups that a node, or the nodes of a rack, lead, and those
    that undo earlier ones. Each group is switched over by a request of its own, with the `rehearsal` that it belongs to.
    """

    rights = {"GET": Right.READ}
    serializer_class = shapes.Rehearsal

    @extend_schema(
        operation_id="rehearsals",
        parameters=[
            OpenApiParameter("node", str, description="Plan for the groups that this node leads."),
            OpenApiParameter("rack", str, description="Plan for the groups that the nodes of this rack lead."),
        ],
    )
    def get(self, request: Request) -> Response:
        found = Rehearsals()
        parts = {"plan": self._plan(found), "undo": found.to_undo(), "racks": found.racks()}
        return Response(shapes.Rehearsal(parts).data)

    def _plan(self, found: Rehearsals) -> list[PlannedSwitchOver]:
        node, rack = (self.request.query_params.get(name, "") for name in ("node", "rack"))
        for name, text in (("node", node), ("rack", rack)):
            if len(text) > NAME_CHARS_MAX or text_problem(text):
                raise invalid(name, f"must be a name of at most {NAME_CHARS_MAX} characters")
        if node and rack:
            raise invalid("rack", "can't be given with node")
        if node:
            return found.of_node(node)
        return found.of_rack(rack) if rack else []
