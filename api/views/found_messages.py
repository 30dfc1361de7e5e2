"""/messages/: messages by their IDs alone. /subjects/{subject}/messages/resend/: copies of stored messages."""

from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.problems import invalid
from api.serializers import messages as shapes
from api.serializers.bodies import moment
from api.views.messages import CURSOR, ID_CHARS_MAX, ReadingView, message_row
from console.accounts.roles import Right
from console.cluster.finding import created_at, find
from console.cluster.masking import ALL
from console.cluster.resending import resend
from qmq.protocol.masking import Masks
from qmq.protocol.names import real_subject


class FoundMessagesView(ReadingView):
    """Find a message by its ID alone, in all subjects, in bounded steps; continue with `next` until it is null."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.FoundMessages

    @extend_schema(
        operation_id="messages_find",
        parameters=[
            OpenApiParameter("message_id", OpenApiTypes.STR, required=True),
            OpenApiParameter(
                "zone",
                OpenApiTypes.STR,
                description="Time zone of the producer's machine, such as Asia/Shanghai, for IDs of the official client. "
                "UTC is searched too.",
            ),
            OpenApiParameter(
                "around",
                OpenApiTypes.DATETIME,
                description="When the message was stored, for an ID that does not begin with a time, or one stored later.",
            ),
            CURSOR,
        ],
    )
    def get(self, request: Request) -> Response:
        """Messages stored from 2 minutes before to 10 minutes after the ID's time of creation are found; retries and delayed
        messages were stored later. Without the right to read messages they are masked.
        """
        message_id, around = self.text("message_id", ID_CHARS_MAX), self.moment_ms("around")
        if message_id is None:
            raise invalid("message_id", "is required")
        zone = self._zone()
        times = created_at(message_id, zone) if around is None else [datetime.fromtimestamp(around / 1000, UTC)]
        masks: dict[str, Masks] = {}

        def masks_of(subjects: Collection[str]) -> dict[str, Masks]:
            masks.update(self.masks_of_each(subjects))
            return masks

        found = find(message_id, times, cursor=self.cursor, masks_of=masks_of)
        shown = [row for row in found.rows if masks[row["subject"]] is not ALL]
        self.note_reading(message_id, shown, masked=False, subjects=dict(Counter(row["subject"] for row in shown)))
        rows = [
            {**message_row(row, masked=masks[row["subject"]] is ALL), "subject": row["subject"]} for row in found.rows
        ]
        searched = [{"from_time": moment(begin), "to_time": moment(end)} for begin, end in found.windows]
        return self.paged(found, rows, progress=found.progress, searched=searched)

    def _zone(self) -> ZoneInfo:
        name = self.text("zone", 60) or "UTC"
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise invalid("zone", "must be the name of a time zone, such as Asia/Shanghai", name) from error


class ResendView(ReadingView):
    """Send copies of stored messages, also to another subject."""

    rights = {"POST": Right.SEND}
    serializer_class = shapes.Resent
    bodies = {"POST": shapes.Resending}

    @extend_schema(operation_id="messages_resend", responses=shapes.Resent)
    def post(self, request: Request, subject: str) -> Response:
        """Send copies of up to 100 messages. Each has a new ID; property `qmq_console_copy_of` contains where the original is, and
        `qmq_console_user` the sender. A dry run reads the messages without sending. Requires the right to read messages of the
        subject, and to send to the other one. Refused with `message.masked` if a value of a message is masked for the caller.
        """
        self.require(Right.READ_MESSAGES, self.owner(subject))
        values = self.body()
        target = values.get("to_subject") or real_subject(subject)
        self.require(Right.SEND, self.owner(target))
        self.note_subject(target)
        places = list(dict.fromkeys((place["broker_group"], place["sequence"]) for place in values["messages"]))
        results = resend(subject, places, target, masks=self.masks(subject), **self.arguments)
        failed = sum(bool(one.problem) for one in results)
        return Response(
            {
                "dry_run": self.dry_run,
                "to_subject": target,
                "messages": len(results) - failed,
                "failed": failed,
                "results": shapes.ResentMessage(results, many=True).data,
            }
        )
