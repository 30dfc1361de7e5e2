"""/delayed-messages/."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.problems import invalid
from api.serializers import delayed as shapes
from api.serializers.bodies import moment
from api.views.messages import CURSOR, FILTER, LIMIT, MATCH, ReadingView
from console.accounts.roles import Right
from console.cluster.delayed import changes, reading
from console.cluster.merging import Row
from metaserver import queries
from qmq.protocol.delayed import DelayedState, Operation

DUE_FROM = OpenApiParameter("due_from", OpenApiTypes.DATETIME, description="Due at or after this time.")
DUE_TO = OpenApiParameter("due_to", OpenApiTypes.DATETIME, description="Due before this time.")


def _row(message: Row, *, may_change: bool) -> dict[str, Any]:
    """Return a delayed message in the form of the API."""
    is_hidden = message["is_hidden"]
    return {
        "message_id": message["message_id"],
        "subject": message["subject"],
        "delay_group": message["delay_group"],
        "due_at": moment(message["due_ms"]),
        "state": message["state"],
        "created_at": moment(message["created_ms"]),
        "tags": message["tags"],
        "properties": None if is_hidden else message["properties"],
        "size": message["bytes"],
        "masked": is_hidden,
        "masked_values": [] if is_hidden else message["masked"],
        "decoding": None if is_hidden else message.get("decoding"),
        "may_change": may_change,
    }


class DelayedView(ReadingView):
    """Base of views of delayed messages. Messages of a subject that does not exist yet are masked and can't be changed."""

    def visible(self, messages: Sequence[Row]) -> list[dict[str, Any]]:
        """Return messages in the form of the API, and write one audit entry that names the subjects whose contents are shown."""
        owners = queries.owners_of({message["subject"] for message in messages})
        rows = [
            _row(
                message,
                may_change=message["subject"] in owners
                and self.principal.may(Right.CHANGE_DELAYED, owners[message["subject"]]),
            )
            for message in messages
        ]
        readable = [shown for shown in rows if not shown["masked"]]
        counts = Counter(shown["subject"] for shown in readable)
        target = next(iter(counts)) if len(counts) == 1 else f"{len(counts)} subjects"
        self.note_reading(target, readable, masked=False, subjects=dict(sorted(counts.items())))
        return rows

    def check_match(self, subject: str, match: Mapping[str, str]) -> None:
        """Raise 403 unless the caller can read messages of the subject, and 400 for a property that is masked for them: which
        messages match reveals what they contain.
        """
        if match:
            self.require(Right.READ_MESSAGES, self.owner(subject))
            masks = self.masks(subject)
            if hidden := sorted(filter(masks.may_change, match)):
                raise invalid("match", f"{hidden[0]!r} is masked for you; search other properties")

    def time(self, name: str) -> datetime | None:
        """Return a time from the query."""
        ms = self.moment_ms(name)
        if ms is None:
            return None
        return datetime.fromtimestamp(ms / 1000, UTC)


class DelayedMessagesView(DelayedView):
    """List delayed messages by due time."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.DelayedPage

    @extend_schema(
        parameters=[
            OpenApiParameter("subject", OpenApiTypes.STR, description="Only this subject; required with `match` and `filter`."),
            DUE_FROM,
            DUE_TO,
            OpenApiParameter(
                "state", OpenApiTypes.STR, many=True, enum=[str(state) for state in DelayedState],
                description="Only this state; can be repeated. Default: pending, delivering, refused.",
            ),
            MATCH,
            FILTER,
            LIMIT,
            CURSOR,
        ],
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        subject = self.text("subject") or ""
        match = self.pairs()
        if (match or self.filter_text) and not subject:
            raise invalid("subject", "is required with match and filter")
        self.check_match(subject, match)
        if self.filter_text:
            # Which messages match reveals what they contain.
            self.require(Right.READ_MESSAGES, self.owner(subject))
        states = tuple(request.query_params.getlist("state"))
        if not set(states) <= set(DelayedState):
            raise invalid("state", f"must be one of {', '.join(DelayedState)}")
        query = reading.Query(
            subject, self.time("due_from"), self.time("due_to"), states, tuple(match.items()), self.filter_text
        )
        page = reading.listed(query, limit=self.limit, cursor=self.cursor, masks_of=self.masks_of_each)
        return self.paged(page, self.visible(page.rows))


class DelayedMessageView(DelayedView):
    """Return all copies of a message, in any state: a rescheduled message has two."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.DelayedFound

    @extend_schema(
        operation_id="delayed_messages_get",
        parameters=[
            OpenApiParameter("message_id", OpenApiTypes.STR, required=True, description="ID of the message."),
            OpenApiParameter("subject", OpenApiTypes.STR, description="Subject of the message, if known."),
            OpenApiParameter(
                "was_due_at",
                OpenApiTypes.DATETIME,
                description="Due time of the message, if known; makes the lookup faster.",
            ),
        ],
    )
    def get(self, request: Request) -> Response:
        message_id = self.text("message_id")
        if message_id is None:
            raise invalid("message_id", "is required")
        target = reading.Target(message_id, self.text("subject") or "", self.time("was_due_at"))
        found = reading.found(target, masks_of=self.masks_of_each)
        return Response({"results": self.visible(found.rows), "unreachable": found.unreachable})


def _changing(
    operation: Operation, text: str, shape: type[shapes.DelayedTarget] = shapes.DelayedTarget
) -> type[DelayedView]:
    """Make a view that changes one message; `text` is for the OpenAPI file."""

    @extend_schema(description=text)
    def post(self: DelayedView, request: Request) -> Response:
        values = self.body()
        target = reading.Target(values["message_id"], values.get("subject", ""), values.get("was_due_at"))
        message = changes.the_one(reading.found(target), target)
        self.note_subject(message["subject"])
        self.require(Right.CHANGE_DELAYED, self.owner(message["subject"]))
        seconds = values.get("delay_seconds")
        delay = None if seconds is None else timedelta(seconds=seconds)
        done = changes.change(operation, message, to=values.get("due_at"), delay=delay, **self.arguments)
        return Response({"dry_run": self.dry_run, **asdict(done)})

    shown = {"bodies": {"POST": shape}, "answers": {"POST": shapes.DelayedChanged}}
    return type("ChangeView", (DelayedView,), {"rights": {"POST": Right.CHANGE_DELAYED}, "post": post, **shown})


CancelView = _changing(
    Operation.CANCEL,
    "Cancel a message: after status 200 it is never delivered. 409: it is being delivered or was delivered.",
)
RescheduleView = _changing(Operation.RESCHEDULE, "Change the due time of a message.", shapes.Reschedule)
DeliverView = _changing(Operation.DELIVER, "Make a message due now.")


class BulkCancelView(DelayedView):
    """Cancel all pending messages of a subject that match; a dry run counts them. The change itself requires `expected`, the
    number that matched in a dry run. When another number matches, nothing is cancelled: 409 `delayed.count_differs`.
    """

    rights = {"POST": Right.CHANGE_DELAYED}
    bodies = {"POST": shapes.BulkCancel}
    answers = {"POST": shapes.BulkCancelled}

    def post(self, request: Request) -> Response:
        values = self.body()
        expected = self.expected_count(values)
        subject, match = values["subject"], values.get("match", {})
        self.require(Right.CHANGE_DELAYED, self.owner(subject))
        self.check_match(subject, match)
        query = reading.Query(subject, values.get("due_from"), values.get("due_to"), (), tuple(match.items()))
        done = changes.bulk_cancel(query, expected=expected, **self.arguments)
        return Response(
            {
                "dry_run": self.dry_run,
                "subject": subject,
                "matched": done.matched,
                "cancelled": done.cancelled,
                "too_late": done.too_late,
                "unreachable": done.problems,
            }
        )


class CalendarView(DelayedView):
    """Count pending messages by hour of due time."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.Calendar

    @extend_schema(
        operation_id="delayed_messages_calendar",
        parameters=[OpenApiParameter("subject", OpenApiTypes.STR, description="Only this subject."), DUE_FROM, DUE_TO],
    )
    def get(self, request: Request) -> Response:
        subject = self.text("subject")
        found = changes.calendar(subject or "", self.time("due_from"), self.time("due_to"))
        hours = [{"hour": hour, "pending": count} for hour, count in found.hours.items()]
        return Response({"subject": subject, "hours": hours, "unreachable": found.problems})
