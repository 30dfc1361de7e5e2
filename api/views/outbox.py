"""/outbox/databases/."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import django_filters
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.filters import PartFilter, TruthFilter
from api.generics import ListView
from api.problems import Problem, invalid
from api.serializers import outbox as shapes
from api.serializers.bodies import moment
from api.views.messages import CURSOR, LIMIT, ReadingView
from console.accounts.roles import Right
from console.cluster.masking import ALL, masks_of_each
from console.outbox import rows as reading
from console.outbox.models import OutboxDatabase
from console.outbox.services import databases as service
from console.outbox.services.rows import RowAction, Selection, change_rows
from metaserver import queries
from metaserver.services.changes import Change
from metaserver.services.notes import NoteCode
from qmq.errors import ContentInvalid
from qmq.outbox.relay import GRACE_SECONDS
from qmq.outbox.rows import UNSENT, message_of
from qmq.protocol.masking import NO_MASKS, Masks
from qmq.protocol.messages import Message
from qmq.protocol.reasons import Reason

CONTENT_CHARS_SHOWN_MAX = 2_000


class OutboxDatabasesView(ListView):
    """List registered databases with their numbers, which a background job measures."""

    rights = {"GET": Right.READ, "POST": Right.CHANGE_CLUSTER}
    serializer_class = shapes.OutboxDatabaseRow
    bodies = {"POST": shapes.NewOutboxDatabase}
    rows = staticmethod(OutboxDatabase.objects.all)
    filters = {
        "search": PartFilter("name", "owner", label="words that occur in the name or the team"),
        "kind": django_filters.ChoiceFilter(choices=[(kind, kind) for kind in shapes.KINDS]),
        "owner": django_filters.CharFilter("owner", label="team"),
        "is_enabled": TruthFilter("is_enabled"),
        "has_error": TruthFilter("error_since", "isnull", exclude=True, label="whether it can't be used"),
    }
    ordering_fields = (
        "name", "kind", "owner", "is_enabled", "pending", "oldest_seconds", "failed", "rows_per_second", "created_at",
        "updated_at",
    )  # fmt: skip
    ordering_paths = {"oldest_seconds": "oldest_ms"}
    ordering = ("name",)

    def post(self, request: Request) -> Change:
        """Register a database and have the background job relay its outbox. It is tested first, also in a dry run: what can't be
        relayed can only be saved disabled.
        """
        values = self.body()
        kind = values.pop("kind")
        return service.create_database(kind, values, **self.arguments)


class OutboxDatabaseView(ApiView):
    """One registered database."""

    serializer_class = shapes.OutboxDatabaseRow
    rights = {"GET": Right.READ, "PATCH": Right.CHANGE_CLUSTER, "DELETE": Right.CHANGE_CLUSTER}
    bodies = {"PATCH": shapes.OutboxDatabaseChange}

    def get(self, request: Request, database: str) -> Response:
        """Return one registered database with its numbers."""
        return self.one(service.one(OutboxDatabase.objects.all(), database))

    def patch(self, request: Request, database: str) -> Change:
        """Update a registered database; omitted fields keep their value. A change of the connection is tested first, and one of
        host, port or tls takes the password again.
        """
        return service.update_database(database, self.body(), **self.versioned_arguments)

    def delete(self, request: Request, database: str) -> Change:
        """Stop relaying a database and forget it. Its rows stay where they are."""
        return service.delete_database(database, **self.versioned_arguments)


class TestOutboxDatabaseView(ApiView):
    """Test whether the relay can work with a database: connection, tables and the user's rights. No row is changed."""

    rights = {"POST": Right.CHANGE_CLUSTER}
    answers = {"POST": shapes.OutboxDatabaseTest}

    def post(self, request: Request, database: str) -> Response:
        row, found = service.try_database(database, **self.arguments)
        rights = [{"table": each.table, "right": each.right} for each in found.missing_rights]
        body = {"is_usable": found.is_usable, "code": found.code, "detail": found.detail, "missing_rights": rights}
        return Response({"target": str(row.pk), **body})


class _OutboxReadingView(ReadingView):
    def visible(self, database: OutboxDatabase, rows: Sequence[reading.OutboxRow], now_ms: int) -> list[dict[str, Any]]:
        """Return rows as the caller can see them, and write one audit entry that names their subjects.

        Messages belong to the owner of their subject; those of unknown subjects, and what is no message, to the owner of the
        database.
        """
        messages = [_message(row, now_ms) for row in rows]
        owners = queries.owners_of({message.subject for message in messages if isinstance(message, Message)})
        masks = masks_of_each(owners, self.principal.role)
        shown, seen = [], Counter[str]()
        for row, message in zip(rows, messages, strict=True):
            subject = message.subject if isinstance(message, Message) else ""
            is_readable = self.may_read(owners.get(subject, database.owner or None))
            shown.append(_shown(row, message, masks.get(subject, NO_MASKS) if is_readable else ALL))
            if is_readable:
                seen[subject or "-"] += 1
        readable = [row for row in shown if not row["masked"]]
        self.note_reading(
            f"outbox database {database.name}", readable, masked=False, subjects=dict(sorted(seen.items()))
        )
        return shown


class OutboxRowsView(_OutboxReadingView):
    """List rows of an outbox by ID, as they are in the database now. Large messages are not read."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.OutboxRowPage

    @extend_schema(
        operation_id="outbox_rows_list",
        parameters=[
            OpenApiParameter(
                "status", OpenApiTypes.STR, many=True, enum=shapes.ROW_STATUSES,
                description="Only this status; can be repeated. Default: all.",
            ),
            LIMIT,
            CURSOR,
        ],
    )  # fmt: skip
    def get(self, request: Request, database: str) -> Response:
        names = request.query_params.getlist("status") or shapes.ROW_STATUSES
        if not set(names) <= set(shapes.ROW_STATUSES):
            raise invalid("status", f"must be one of {', '.join(shapes.ROW_STATUSES)}")
        row, now = service.one(OutboxDatabase.objects.all(), database), timezone.now()
        statuses = [reading.STATUSES[name] for name in sorted(set(names))]
        found, after = reading.read_page(row, statuses, limit=self.limit, cursor=self.cursor, now=now)
        shown = self.visible(row, found, int(now.timestamp() * 1000))
        return Response({"results": shown, "next": after})


class OutboxRowView(_OutboxReadingView):
    """Return one row of an outbox with its message, as it is in the database now."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.OutboxRowShown

    @extend_schema(operation_id="outbox_rows_get")
    def get(self, request: Request, database: str, row_id: int) -> Response:
        if row_id >= 1 << 63:
            raise Problem(404, "outbox_row.unknown", f"{row_id} is not a valid ID of a row.")
        row, now = service.one(OutboxDatabase.objects.all(), database), timezone.now()
        found = reading.read_row(row, row_id, now=now)
        (shown,) = self.visible(row, [found], int(now.timestamp() * 1000))
        return Response(shown)


class _ChangingView(ApiView):
    """Base of views that change rows. `If-Match` is compared with the version of the database."""

    bodies = {"POST": shapes.OutboxRowSelection}
    answers = {"POST": shapes.OutboxRowsChanged}
    versioned_methods = frozenset({"POST"})

    def change(self, database: str, action: RowAction, note: NoteCode) -> Response:
        values = self.body()
        self.require(self.rights["POST"], service.one(OutboxDatabase.objects.all(), database).owner or None)
        ids, status = values.get("ids"), values.get("status")
        statuses = list(reading.STATUSES.values()) if status is None else [reading.STATUSES[status]]
        expected = self.expected_count(values) if ids is None else None
        selection = Selection(None if ids is None else sorted(set(ids)), statuses, expected)
        done = change_rows(database, action, selection, **self.versioned_arguments)
        values = {name: getattr(done, name) for name in ("matched", "is_exact", "done", "left", "not_found")}
        values |= {"dry_run": self.dry_run, "notes": [Reason.of(note)]}
        return Response(shapes.OutboxRowsChanged(values).data)


class ResendView(_ChangingView):
    """Resend rows: the next pass of the relay sends them as if they were new. With a status instead of IDs the change requires
    `expected`; if more rows match, nothing is changed: 409 `outbox_row.count_differs`.
    """

    rights = {"POST": Right.SEND}

    @extend_schema(operation_id="outbox_rows_resend")
    def post(self, request: Request, database: str) -> Response:
        return self.change(database, RowAction.RESEND, NoteCode.ROWS_SENT_AGAIN)


class DiscardView(_ChangingView):
    """Discard rows: they are deleted, and their messages are never sent. With a status instead of IDs the change requires
    `expected`; if more rows match, nothing is changed: 409 `outbox_row.count_differs`.
    """

    rights = {"POST": Right.CHANGE_GROUPS}

    @extend_schema(operation_id="outbox_rows_discard")
    def post(self, request: Request, database: str) -> Response:
        return self.change(database, RowAction.DISCARD, NoteCode.ROWS_DISCARDED)


def _message(row: reading.OutboxRow, now_ms: int) -> Message | str | None:
    """The message of a row; the reason if it has none; None if its content was not read."""
    if row.content is None:
        return None
    try:
        return message_of(row.content, now_ms)
    except ContentInvalid as error:
        return str(error)


def _shown(row: reading.OutboxRow, message: Message | str | None, masks: Masks) -> dict[str, Any]:
    masked = masks is ALL
    found = message if isinstance(message, Message) else None
    shown = masks.apply(found.properties) if found and not masked else None
    problem = message if isinstance(message, str) and not masked else None
    is_unsent = row.status in UNSENT
    return {
        "id": str(row.id),
        "status": row.status.name.lower(),
        "failed_attempts": row.errors,
        "created_at": row.created_at,
        "due_at": row.updated_at + timedelta(seconds=GRACE_SECONDS) if is_unsent else None,
        "size": row.size,
        "message_id": found and found.message_id,
        "subject": found and found.subject,
        "tags": list(found.tags) if found else [],
        "deliver_at": moment(found.time_ms) if found and found.flag else None,
        "properties": shown and shown.properties,
        "last_error": None if masked else row.last_error or None,
        "problem": problem,
        "content": row.content[:CONTENT_CHARS_SHOWN_MAX] if problem is not None and row.content else None,
        "masked": masked,
        "masked_values": [asdict(mark) for mark in shown.marks] if shown else [],
        "decoding": asdict(shown.decoding) if shown and shown.decoding else None,
        "withheld": f"the content of {row.size} bytes is too large" if row.content is None else None,
    }
