"""/events/."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeVar

from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.pagination import PAGE_DEFAULT, PAGE_MAX
from api.problems import Problem, invalid
from api.serializers import events as shapes
from console.accounts.roles import Right
from console.cursors import decode_cursor, encode_cursor
from console.reports.events import feed
from console.reports.events.kinds import EventKind, EventSeverity
from console.reports.events.sources import About, Place, Wanted
from metaserver.services.changes import text_problem

NAME_CHARS_MAX = 300
_ABOUT = ("subject", "group", "broker_group")
_FILTERS = ("kind", "severity", "since", "until", *_ABOUT)
Word = TypeVar("Word", bound=StrEnum)


class EventsView(ApiView):
    """List what happened, newest first: alerts, what nodes and metaservers did, and changes, of the last 90 days.

    Without the right `read_audit`, changes of accounts and messages are left out, and the users who made changes and their reasons
    are null.
    """

    rights = {"GET": Right.READ}
    serializer_class = shapes.EventPage

    @extend_schema(
        operation_id="events_list",
        parameters=[
            OpenApiParameter("kind", str, enum=list(EventKind), many=True, description="One or more kinds."),
            OpenApiParameter(
                "severity", str, enum=list(EventSeverity), many=True, description="One or more severities."
            ),
            OpenApiParameter(
                "subject", str, description="What concerns this subject: also its consumer groups and broker groups."
            ),
            OpenApiParameter("group", str, description="With subject: what concerns this consumer group."),
            OpenApiParameter("broker_group", str, description="What concerns this broker group and its nodes."),
            OpenApiParameter("since", OpenApiTypes.DATETIME, description="At or after this time."),
            OpenApiParameter("until", OpenApiTypes.DATETIME, description="Before this time."),
            OpenApiParameter("limit", int, description=f"Events per page, 1 to {PAGE_MAX}. Default: {PAGE_DEFAULT}."),
            OpenApiParameter("cursor", str, description="`next` of the previous response, with the same filters."),
        ],
    )
    def get(self, request: Request) -> Response:
        now = timezone.now()
        oldest = now - feed.KEPT
        since, until = self._moment("since") or oldest, self._moment("until") or now + feed.KEPT
        if until <= since:
            raise invalid("until", "must be after `since`", request.query_params.get("until", ""))
        wanted = Wanted(
            max(since, oldest), until, self._words("kind", EventKind), self._words("severity", EventSeverity),
            self._about(), self.principal.has(Right.READ_AUDIT),
        )  # fmt: skip
        query = ("events", [(name, sorted(request.query_params.getlist(name))) for name in _FILTERS])
        limit = self.whole("limit", PAGE_DEFAULT, minimum=1, maximum=PAGE_MAX) or PAGE_DEFAULT
        page = feed.read(wanted, self._place(query), limit)
        rows = [self.shown(event, shapes.EventRow) for event in page.events]
        return Response({"results": rows, "next": _cursor(query, page.next)})

    def _moment(self, name: str) -> datetime | None:
        at_ms = self.moment_ms(name)
        return None if at_ms is None else datetime.fromtimestamp(at_ms / 1000, UTC)

    def _words(self, name: str, words: type[Word]) -> frozenset[Word]:
        given = [text for text in self.request.query_params.getlist(name) if text]
        wrong = next((text for text in given if text not in list(words)), None)
        if wrong is not None:
            raise invalid(name, f"must be one of {', '.join(words)}", wrong)
        return frozenset(words(text) for text in given)

    def _about(self) -> About | None:
        """Return what the events concern; None: anything. Raises 400."""
        query = self.request.query_params
        given = {name: query[name] for name in _ABOUT if query.get(name)}
        for name, text in given.items():
            if len(text) > NAME_CHARS_MAX or text_problem(text):
                raise invalid(name, f"must be a name of at most {NAME_CHARS_MAX} characters")
        match sorted(given):
            case []:
                return None
            case ["subject"] | ["group", "subject"]:
                return feed.about_subject(given["subject"], given.get("group", ""))
            case ["broker_group"]:
                return feed.about_broker_group(given["broker_group"])
        what = "specify subject, subject and group, broker_group, or nothing for all events"
        raise Problem(400, "request.invalid", what, dict.fromkeys(given, what))

    def _place(self, query: tuple[object, ...]) -> Place | None:
        given = self.request.query_params.get("cursor")
        if not given:
            return None
        at, source, row = decode_cursor(given, query)
        return Place(datetime.fromisoformat(at), source, row)


def _cursor(query: tuple[object, ...], place: Place | None) -> str | None:
    return None if place is None else encode_cursor(query, [place.at.isoformat(), place.source, place.row])
