"""/subjects/{subject}/messages/: stored messages."""

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.downloads import ROWS_OF_NODES_MAX
from api.pagination import PAGE_DEFAULT, PAGE_MAX
from api.problems import Problem, invalid
from api.serializers import messages as shapes
from api.serializers.bodies import moment
from api.throttles import BrowseThrottle, PrincipalThrottle
from console.accounts.roles import Right
from console.cluster import messages as service
from console.cluster.asking import Page
from console.cluster.entries import note_reading
from console.cluster.masking import ALL, masks_of, masks_of_each
from console.cluster.producing import produce
from console.cluster.traces import trace
from metaserver import queries
from metaserver.errors import NotAllowed
from qmq.protocol.masking import Masks

FILTER_CHARS_MAX = 4_000
"""Nodes have the same limit."""
PROPERTIES_MAX = 20
ID_CHARS_MAX = 100
ORDERS = (service.NEWEST, service.OLDEST)

CURSOR = OpenApiParameter("cursor", OpenApiTypes.STR, description="`next` of the previous response.")
LIMIT = OpenApiParameter("limit", OpenApiTypes.INT, description=f"Maximum number of messages. Default: {PAGE_DEFAULT}.")
BROKER_GROUP = OpenApiParameter("broker_group", OpenApiTypes.STR, description="Only this broker group.")
MATCH = OpenApiParameter(
    "match", OpenApiTypes.STR, many=True, description="`name=value`: only messages with this property; can be repeated."
)
FILTER = OpenApiParameter(
    "filter",
    OpenApiTypes.STR,
    description="Only messages that match: words, `name=value`, or an expression (docs/reference/filters.md).",
)
FROM_TIME = OpenApiParameter("from_time", OpenApiTypes.DATETIME, description="Stored at or after this time.")
TO_TIME = OpenApiParameter("to_time", OpenApiTypes.DATETIME, description="Stored before this time.")


def message_row(message: dict[str, Any], *, masked: bool) -> dict[str, Any]:
    """Return a message of a node in the form of the API."""
    is_withheld = bool(message.get("withheld"))
    return {
        "broker_group": message["broker_group"],
        "sequence": str(message["sequence"]),
        "message_id": message.get("message_id"),
        "stored_at": moment(message.get("stored_at_ms")),
        "created_at": moment(message.get("created_at_ms")),
        "tags": message.get("tags", []),
        "properties": None if masked or is_withheld else message["properties"],
        "size": message["bytes"],
        "masked": masked,
        "masked_values": [] if masked else message.get("masked", []),
        "decoding": None if masked else message.get("decoding"),
        "withheld": message.get("reason") if is_withheld else None,
    }


class ReadingView(ApiView):
    """Base of views that show the content of messages: rate-limited, and recorded in the audit log."""

    throttle_classes = [PrincipalThrottle, BrowseThrottle]
    download_rows_max = ROWS_OF_NODES_MAX

    def owner(self, subject: str) -> str | None:
        """Return the owner of a subject; of a retry or dead-letter subject, the owner of its real subject. Raises 404."""
        return queries.owner_of(subject)

    def may_read(self, owner: str | None) -> bool:
        """Whether the caller can read messages of subjects of this owner."""
        return self.principal.may(Right.READ_MESSAGES, owner)

    def masks(self, subject: str) -> Masks:
        """Return what the nodes mask of messages of a subject for the caller. Raises 404."""
        return masks_of(subject, self.principal.role) if self.may_read(self.owner(subject)) else ALL

    def masks_of_each(self, subjects: Collection[str]) -> dict[str, Masks]:
        """Return `masks` of each of these subjects that exists."""
        owners = queries.owners_of(subjects)
        masks = masks_of_each(owners, self.principal.role)
        return {name: masks.get(name, ALL) if self.may_read(owner) else ALL for name, owner in owners.items()}

    def text(self, name: str, chars_max: int = 200) -> str | None:
        """Return a text from the query; None when it is absent or empty."""
        found = self.request.query_params.get(name) or None
        if found is not None and (len(found) > chars_max or "\x00" in found):
            raise invalid(name, f"must be text of at most {chars_max} characters")
        return found

    @property
    def cursor(self) -> str | None:
        """Return `?cursor=`."""
        return self.request.query_params.get("cursor") or None

    @property
    def limit(self) -> int:
        """Return `?limit=`."""
        return self.whole("limit", PAGE_DEFAULT, minimum=1, maximum=PAGE_MAX) or PAGE_DEFAULT

    def paged(self, page: Page[Any], rows: list[Any], **others: Any) -> Response:
        """Return the answer with a page, whose rows are as the caller can see them."""
        return Response({"results": rows, "next": page.next, "unreachable": page.unreachable, **others})

    @property
    def filter_text(self) -> str:
        """Return `?filter=`."""
        return self.text("filter", FILTER_CHARS_MAX) or ""

    def pairs(self) -> dict[str, str]:
        """Return the values of `?match=name=value`, which can be repeated."""
        given = [text.partition("=") for text in self.request.query_params.getlist("match")]
        if len(given) > PROPERTIES_MAX or not all(key and equals for key, equals, _ in given):
            raise invalid("match", f"must be at most {PROPERTIES_MAX} values of the form name=value")
        return {key: value for key, _, value in given}

    def note_reading(
        self, target: str, messages: list[dict[str, Any]], masked: bool, subjects: dict[str, int] | None = None
    ) -> None:
        """Write one audit entry for the request, if message contents are shown.

        Args:
            target: the subject, or how many there are.
            subjects: the messages of each subject, where a request shows several.
        """
        if masked or not messages:
            return
        query = {key: self.request.query_params.getlist(key) for key in sorted(self.request.query_params)}
        query.pop("cursor", None)
        # What was looked for may be as private as what was found.
        query["match"] = [text.partition("=")[0] for text in query.get("match", [])]
        if query.pop("filter", None):
            query["filter"] = ["(not recorded)"]
        what: dict[str, Any] = {"messages": len(messages), "path": self.request.path, "query": query}
        note_reading(self.actor, target, what if subjects is None else what | {"subjects": subjects})


class MessagesView(ReadingView):
    """Messages of a subject."""

    rights = {"GET": Right.READ, "POST": Right.SEND}
    serializer_class = shapes.MessagePage
    bodies = {"POST": shapes.NewMessage}

    @extend_schema(
        operation_id="messages_list",
        parameters=[
            OpenApiParameter(
                "order",
                OpenApiTypes.STR,
                enum=ORDERS,
                description="Default: newest; with from_time, sequence or message_id: oldest.",
            ),
            OpenApiParameter(
                "from_time",
                OpenApiTypes.DATETIME,
                description="Start with messages stored at or after this time; with order=newest, before it.",
            ),
            OpenApiParameter(
                "sequence", OpenApiTypes.STR, description="Start at this sequence; requires broker_group."
            ),
            OpenApiParameter(
                "message_id",
                OpenApiTypes.STR,
                description="Only messages with this ID (a retried message has several copies).",
            ),
            BROKER_GROUP,
            LIMIT,
            CURSOR,
        ],
    )
    def get(self, request: Request, subject: str) -> Response:
        """List stored messages by time of storage. Without the right to read messages they are masked."""
        masks = self.masks(subject)
        masked = masks is ALL
        group = self.text("broker_group")
        start = self._start()
        if start.sequence is not None and group is None:
            raise invalid("sequence", "requires broker_group, because each broker group has its own sequences")
        if sum(value is not None for value in (start.from_time_ms, start.sequence, start.message_id)) > 1:
            raise Problem(400, "request.invalid", "Specify only one of from_time, sequence and message_id.")
        page = service.read_page(subject, start, limit=self.limit, broker_group=group, cursor=self.cursor, masks=masks)
        self.note_reading(subject, list(page.rows), masked)
        return self.paged(page, [message_row(message, masked=masked) for message in page.rows])

    def _start(self) -> service.Start:
        """Return where the query begins to read."""
        time_ms, sequence = self.moment_ms("from_time"), self.whole("sequence")
        message_id, order = self.text("message_id", ID_CHARS_MAX), self.text("order")
        if order is not None and order not in ORDERS:
            raise invalid("order", "must be newest or oldest", order)
        if order == "newest" and message_id is not None:
            raise invalid("order", "messages with an ID are listed oldest first")
        is_plain = time_ms is None and sequence is None and message_id is None
        return service.Start(time_ms, sequence, message_id, newest=order == "newest" or (order is None and is_plain))

    @extend_schema(operation_id="messages_send", responses={200: shapes.Receipt, 201: shapes.Receipt})
    def post(self, request: Request, subject: str) -> Response:
        """Send a message; with status 201 it is on disk. Property `qmq_console_user` contains the sender. A dry run validates the
        message and the subject without sending. After status 503 the message may still be stored.
        """
        self.require(Right.SEND, self.owner(subject))
        values = self.body()
        seconds, copied = values.get("delay_seconds"), values.get("copy_of")
        if copied and self.masks(copied["subject"]).rules:
            raise NotAllowed(
                f"Values of messages of {copied['subject']} are masked for you, so a copy can't be edited. Ask a user whose role"
                " sees them.",
                code="message.masked",
            )
        sent = produce(
            subject,
            values["properties"],
            tags=values.get("tags", []),
            delay=None if seconds is None else timedelta(seconds=seconds),
            due=values.get("due_at"),
            origin=(copied["subject"], copied["broker_group"], copied["sequence"]) if copied else None,
            **self.arguments,
        )
        body = {
            "dry_run": self.dry_run,
            "message_id": None if self.dry_run else sent.message_id,
            "subject": sent.subject,
            "broker_group": sent.broker_group or None,
            "attempts": sent.attempts,
            "due_at": sent.due_at,
        }
        return Response(body, status=200 if self.dry_run else 201)


class SearchView(ReadingView):
    """Search messages with a filter, newest first, in bounded steps; continue with `next` until it is null."""

    rights = {"GET": Right.READ_MESSAGES}
    serializer_class = shapes.MessageSlice

    @extend_schema(
        operation_id="messages_search",
        parameters=[
            FILTER,
            OpenApiParameter(
                "order", OpenApiTypes.STR, enum=ORDERS,
                description="Which messages are searched first. Default: newest.",
            ),
            FROM_TIME,
            TO_TIME,
            BROKER_GROUP,
            LIMIT,
            CURSOR,
        ],
    )  # fmt: skip
    def get(self, request: Request, subject: str) -> Response:
        self.require(Right.READ_MESSAGES, self.owner(subject))
        order = self.text("order") or service.NEWEST
        if order not in ORDERS:
            raise invalid("order", "must be newest or oldest", order)
        wanted = service.Wanted(self.filter_text, self.moment_ms("from_time"), self.moment_ms("to_time"), order)
        found = service.search(
            subject,
            wanted,
            limit=self.limit,
            broker_group=self.text("broker_group"),
            cursor=self.cursor,
            masks=self.masks(subject),
            caller=self.actor.name,
        )
        self.note_reading(subject, list(found.rows), masked=False)
        names = ("scanned", "total", "unreadable", "costly", "progress", "expression", "searched")
        rows = [message_row(message, masked=False) for message in found.rows]
        return self.paged(found, rows, **{name: getattr(found, name) for name in names}, end=found.next is None)


class MessageView(ReadingView):
    """Return one stored message."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.MessageRow

    @extend_schema(operation_id="messages_get")
    def get(self, request: Request, subject: str, broker_group: str, sequence: int) -> Response:
        masks = self.masks(subject)
        masked = masks is ALL
        message = service.read_one(subject, broker_group, within(sequence), masks=masks)
        self.note_reading(subject, [message], masked)
        return Response(message_row(message, masked=masked))


def within(sequence: int) -> int:
    """Return a valid sequence from the URL. Raises 404."""
    if sequence >= 1 << 63:
        raise Problem(404, "message.unknown", f"{sequence} is not a valid sequence.")
    return sequence


class TraceView(ReadingView):
    """Trace a message: its state in each consumer group, as far as its history still exists. Unknown states are null."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.Trace

    @extend_schema(
        operation_id="messages_trace",
        parameters=[
            OpenApiParameter("group", OpenApiTypes.STR, description="Only this consumer group."),
            OpenApiParameter("after", OpenApiTypes.STR, description="`next_after` of the previous response."),
        ],
    )
    def get(self, request: Request, subject: str, broker_group: str, sequence: int) -> Response:
        masks = self.masks(subject)
        masked = masks is ALL
        group, after = self.text("group"), self.text("after")
        found = trace(subject, broker_group, within(sequence), group=group, after=after, masks=masks)
        message = found["message"]
        if message is not None:
            message = {**message, "broker_group": broker_group}
            self.note_reading(subject, [message], masked)
        return Response(
            {
                "subject": subject,
                "broker_group": broker_group,
                "sequence": str(sequence),
                "message": None if message is None else message_row(message, masked=masked),
                "groups": shapes.Standing(found["groups"], many=True).data,
                **{name: found[name] for name in ("message_why", "original", "next_after", "scope")},
            }
        )
