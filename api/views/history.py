"""/history/: the last hour of key numbers."""

from django.conf import settings
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.problems import Problem, invalid
from api.serializers import history as shapes
from console.accounts.roles import Right
from console.snapshot.history import STEP_SECONDS, SYSTEM, read_history
from console.snapshot.state import group_key
from metaserver.services.changes import text_problem

NAME_CHARS_MAX = 300


class HistoryView(ApiView):
    """Return the last hour, one point per ten seconds, of a subject, a consumer group, a broker group, a node or (without
    parameters) the whole system. Null: not measured; without any data, `reason` says why.
    """

    rights = {"GET": Right.READ}
    serializer_class = shapes.History

    @extend_schema(
        operation_id="history",
        parameters=[
            OpenApiParameter("subject", str, description="Of this subject."),
            OpenApiParameter("group", str, description="With subject: of this consumer group."),
            OpenApiParameter("broker_group", str, description="Of this broker or delay group: its master's numbers."),
            OpenApiParameter("node", str, description="Of this node."),
        ],
    )
    def get(self, request: Request) -> Response:
        section, name = self._series()
        found = read_history(settings.REDIS_URL, section, name)
        return Response({"step_seconds": STEP_SECONDS, "at": found.at, "fields": found.fields, "reason": found.reason})

    def _series(self) -> tuple[str, str]:
        """Return (section, name) of the requested history. Raises 400."""
        given = {
            name: self.request.query_params[name]
            for name in ("subject", "group", "broker_group", "node")
            if self.request.query_params.get(name)
        }
        for name, text in given.items():
            if len(text) > NAME_CHARS_MAX or "\n" in text or text_problem(text):
                raise invalid(name, f"must be a name of at most {NAME_CHARS_MAX} characters")
        match sorted(given):
            case []:
                return SYSTEM, SYSTEM
            case ["subject"]:
                return "subjects", given["subject"]
            case ["group", "subject"]:
                return "groups", group_key(given["subject"], given["group"])
            case ["broker_group"]:
                return "broker_groups", given["broker_group"]
            case ["node"]:
                return "nodes", given["node"]
        what = "specify subject, subject and group, broker_group, node, or nothing for the whole system"
        raise Problem(400, "request.invalid", what, dict.fromkeys(given, what))
