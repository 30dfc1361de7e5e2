"""/history/: key numbers over time."""

from typing import NamedTuple

from django.conf import settings
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.problems import Problem, invalid
from api.serializers import history as shapes
from api.serializers.bodies import iso
from console.accounts.roles import Right
from console.analytics.rows import Window
from console.analytics.steps import DAY_MS
from console.reports.timelines.reading import POINTS_MAX, SPAN_DAYS_MAX, Timeline, last_hour, read_timeline
from console.snapshot.history import SYSTEM
from console.snapshot.state import group_key
from console.times import rfc3339
from metaserver.services.changes import text_problem

NAME_CHARS_MAX = 300
CLOCK_MS_MAX = 300_000
"""By how much a client's clock may be ahead or behind: such an end is now, and its 30 days are allowed."""


class _Series(NamedTuple):
    """A series of the history, and the key of its rows in summary tables."""

    section: str
    name: str
    key: dict[str, str]


class HistoryView(ApiView):
    """Return the numbers of a subject, a consumer group, a broker group, a node or (without parameters) the whole system.

    The last hour is measured every ten seconds. Earlier values are the highest ones of the steps of summary tables: minutes, ten
    minutes or hours, depending on the length of the range. Null: not measured.
    """

    rights = {"GET": Right.READ}
    serializer_class = shapes.History

    @extend_schema(
        operation_id="history",
        parameters=[
            OpenApiParameter("subject", str, description="Of this subject."),
            OpenApiParameter("group", str, description="With subject: of this consumer group."),
            OpenApiParameter(
                "broker_group",
                str,
                description="Of this broker or delay group: its master's numbers.",
            ),
            OpenApiParameter("node", str, description="Of this node."),
            OpenApiParameter(
                "from",
                OpenApiTypes.DATETIME,
                description=f"Beginning of the range, at most {SPAN_DAYS_MAX} days before `to`. Default: the last hour. "
                f"At most {POINTS_MAX} points are returned.",
            ),
            OpenApiParameter("to", OpenApiTypes.DATETIME, description="With from: end of the range. Default: now."),
        ],
    )
    def get(self, request: Request) -> Response:
        series = self._series()
        now = timezone.now()
        window = self._window(int(now.timestamp() * 1000))
        if series.section == SYSTEM and self.request.query_params.get("from"):
            raise invalid(
                "from", "needs a subject, broker_group or node; of the whole system only the last hour is kept"
            )
        found = read_timeline(settings.REDIS_URL, *series, window, now)
        return Response({"from_at": iso(window.from_ms), "to_at": iso(window.to_ms), **_body(found)})

    def _window(self, now_ms: int) -> Window:
        """Return the requested range. Raises 400."""
        query = self.request.query_params
        begin, end = self.moment_ms("from"), self.moment_ms("to")
        if begin is None:
            if end is not None:
                raise invalid("to", "needs `from`")
            return last_hour(now_ms)
        if end is not None and end > now_ms + CLOCK_MS_MAX:
            raise invalid("to", "is in the future", query["to"])
        end = now_ms if end is None else min(end, now_ms)
        if begin >= now_ms:
            raise invalid("from", "is in the future", query["from"])
        if begin >= end:
            raise invalid("to", "must be after `from`", query.get("to"))
        if begin < 0 or end - begin > SPAN_DAYS_MAX * DAY_MS + CLOCK_MS_MAX:
            raise invalid("from", f"must be at most {SPAN_DAYS_MAX} days before `to`", query["from"])
        return Window(begin, end)

    def _series(self) -> _Series:
        """Return the requested series. Raises 400."""
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
                return _Series(SYSTEM, SYSTEM, {})
            case ["subject"]:
                return _Series("subjects", given["subject"], given)
            case ["group", "subject"]:
                return _Series("groups", group_key(given["subject"], given["group"]), given)
            case ["broker_group"]:
                return _Series("broker_groups", given["broker_group"], given)
            case ["node"]:
                return _Series("nodes", given["node"], {"node_id": given["node"]})
        what = "specify subject, subject and group, broker_group, node, or nothing for the whole system"
        raise Problem(400, "request.invalid", what, dict.fromkeys(given, what))


def _body(found: Timeline) -> dict[str, object]:
    summary = found.summary
    return {
        "step_seconds": found.step_seconds,
        "at": [iso(at) for at in found.at_ms],
        "fields": found.fields,
        "reason": found.reason,
        "border_at": None if found.border_ms is None else iso(found.border_ms),
        "summary": None
        if summary is None
        else {
            "step_seconds": found.summary_step_seconds,
            "job": summary.job,
            "state": summary.state,
            "as_of": None if summary.as_of is None else rfc3339(summary.as_of),
            "is_demo": summary.is_demo,
            "missing": summary.missing,
            "fields": summary.fields,
            "omitted_steps_count": summary.omitted_steps,
        },
        "figures": {
            name: {"mean": of.mean, "p99": of.p99, "measured_seconds": of.measured_seconds}
            for name, of in found.figures.items()
        },
    }
