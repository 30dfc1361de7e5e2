"""Serializers of registered databases and their rows."""

from typing import Any

from django.utils import timezone
from rest_framework import serializers

from api.serializers.bodies import Expected, MayChange, NullText, Reason, Row, SequenceField, Strings
from api.serializers.messages import BodyDecoding, MaskedValues
from api.serializers.reasons import Notes
from console.accounts.roles import Right
from console.outbox.numbers import Numbers, Unknown
from console.outbox.rows import STATUSES
from console.outbox.services.databases import KIND, OUTBOX_DATABASE
from console.outbox.services.rows import CHANGED_MAX, IDS_MAX
from qmq.outbox.databases import Kind, Tls
from qmq.outbox.dialects import PENDING_COUNTED_MAX

KINDS = [kind.value for kind in Kind]
TLS = [tls.value for tls in Tls]
UNKNOWN = [reason.value for reason in Unknown]
ROW_STATUSES = list(STATUSES)


class OutboxDatabaseChange(Reason):
    """A change of a registered database; omitted fields keep their value. The password can't be read again."""

    rules = OUTBOX_DATABASE.fields


class NewOutboxDatabase(Reason):
    """A database to register."""

    rules = {**OUTBOX_DATABASE.fields, "kind": KIND}
    needed = ("name", "kind", "database")


class OutboxDatabaseRow(Row):
    """A registered database with its numbers. Fields for administrators only are null for other users."""

    id = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(KINDS)
    host = NullText(help_text="administrators only")
    port = serializers.IntegerField(allow_null=True, help_text="administrators only")
    database = serializers.CharField(allow_null=True, help_text="administrators only")
    user = NullText(help_text="administrators only")
    has_password = serializers.SerializerMethodField()
    table = serializers.CharField()
    tls = serializers.ChoiceField(TLS)
    owner = NullText(help_text="the team whose operators can resend and discard rows; null: any operator can")
    is_enabled = serializers.BooleanField()
    rows_per_second_max = serializers.IntegerField(allow_null=True, help_text="null: no limit")
    age_hours_max = serializers.IntegerField(
        allow_null=True, help_text="null: failed rows are never left to an operator"
    )
    marker_table = serializers.CharField(
        allow_blank=True, help_text="table of the markers of which old ones are deleted; empty: none are"
    )
    marker_days = serializers.IntegerField(help_text="how long markers are kept, unless messages are kept longer")
    unknown = serializers.ChoiceField(
        UNKNOWN,
        allow_null=True,
        help_text="why the numbers are unknown: disabled; not_measured yet; outdated: not measured recently; failed: see"
        " error_code. null: they are known",
    )
    measured_at = serializers.DateTimeField(allow_null=True, help_text="when the numbers were last measured")
    pending = serializers.IntegerField(allow_null=True, help_text=f"unsent rows, counted up to {PENDING_COUNTED_MAX}")
    is_pending_exact = serializers.BooleanField(allow_null=True, help_text="false: there are more")
    oldest_seconds = serializers.FloatField(
        allow_null=True, help_text="age of the oldest unsent row; 0 if there is none"
    )
    failed = serializers.IntegerField(
        allow_null=True,
        help_text=f"rows that wait for an operator (invalid, refused), counted up to {PENDING_COUNTED_MAX}",
    )
    is_failed_exact = serializers.BooleanField(allow_null=True, help_text="false: there are more")
    leader = serializers.CharField(allow_null=True, help_text="the relay that holds the lease; null: none, or unknown")
    rows_per_second = serializers.FloatField(
        allow_null=True,
        help_text="rows that this system's relay has sent recently; null: another relay leads, or unknown",
    )
    error_code = NullText(help_text="why the database can't be used, such as database.unreachable; null: it can")
    error = NullText(help_text="the same as text; administrators only")
    error_since = serializers.DateTimeField(allow_null=True)
    marker_cleanup_at = serializers.DateTimeField(
        allow_null=True, help_text="when the last cleanup of markers ended or failed; null: none has"
    )
    marker_error_code = NullText(help_text="why the last cleanup of markers failed; null: it did not")
    marker_error = NullText(help_text="the same as text; administrators only")
    may_resend = MayChange(Right.SEND, help_text="whether the caller can resend its rows")
    may_discard = MayChange(Right.CHANGE_GROUPS, help_text="whether the caller can discard its rows")
    version = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()

    def get_has_password(self, database: Any) -> bool:
        """Whether it has a password."""
        return bool(database.sealed)

    def get_fields(self) -> dict[str, Any]:
        found = super().get_fields()
        for name in _NUMBERS:
            found[name].source = f"numbers.{name}"
        return found

    def to_representation(self, instance: Any) -> dict[str, Any]:
        instance.numbers = Numbers.of(instance, timezone.now())
        row = super().to_representation(instance)
        is_admin = self.context["view"].principal.may(Right.CHANGE_CLUSTER)
        hidden = dict.fromkeys(("host", "port", "database", "user", "error", "marker_error"))
        return row | ({} if is_admin else hidden)


_NUMBERS = (
    "unknown", "pending", "is_pending_exact", "oldest_seconds", "failed", "is_failed_exact", "leader", "rows_per_second",
)  # fmt: skip


class MissingRightRow(Row):
    """A right that the user of the database lacks."""

    table = serializers.CharField()
    right = serializers.CharField(help_text="SELECT, INSERT, UPDATE or DELETE")


class OutboxDatabaseTest(Row):
    """Result of a test of a registered database."""

    target = serializers.CharField()
    is_usable = serializers.BooleanField(help_text="whether the relay can work with it")
    code = serializers.CharField(allow_blank=True, help_text="empty if it is usable")
    detail = serializers.CharField()
    missing_rights = MissingRightRow(many=True)


class OutboxRowShown(serializers.Serializer):  # type: ignore[type-arg]
    """A row of an outbox with its message."""

    id = serializers.CharField()
    status = serializers.ChoiceField(
        ROW_STATUSES,
        help_text="pending: not sent yet; failed: a Java relay does not retry it, ours does; invalid: no message, or too old;"
        " refused: a broker refuses it permanently",
    )
    failed_attempts = serializers.IntegerField(help_text="of relays")
    created_at = serializers.DateTimeField(help_text="by the database's clock")
    due_at = serializers.DateTimeField(
        allow_null=True, help_text="when the relay sends it, if its program has not; null: it does not"
    )
    size = serializers.IntegerField(help_text="bytes of the content")
    message_id = serializers.CharField(allow_null=True)
    subject = serializers.CharField(allow_null=True)
    tags = Strings()
    deliver_at = serializers.DateTimeField(allow_null=True, help_text="due time of a delayed message")
    properties = serializers.DictField(child=serializers.CharField(), allow_null=True)
    last_error = serializers.CharField(allow_null=True, help_text="of the last failed attempt")
    problem = serializers.CharField(allow_null=True, help_text="why the content is no message; null: it is one")
    content = serializers.CharField(allow_null=True, help_text="the begin of a content that is no message")
    masked = serializers.BooleanField(
        help_text="whether properties, errors and content are hidden because the caller lacks permission"
    )
    masked_values = MaskedValues()
    decoding = BodyDecoding(allow_null=True, help_text="null: the body needed no decoding")
    withheld = serializers.CharField(allow_null=True, help_text="why the content was not read; null: it was")


class OutboxRowPage(serializers.Serializer):  # type: ignore[type-arg]
    """Rows of an outbox by ID."""

    results = OutboxRowShown(many=True)
    next = serializers.CharField(allow_null=True, help_text="pass it as ?cursor=")


class OutboxRowSelection(Reason):
    """Selection of rows: by ID, or all with a status. A pending row that never failed is not selected."""

    ids = serializers.ListField(child=SequenceField(), required=False, min_length=1, max_length=IDS_MAX)
    status = serializers.ChoiceField(
        ROW_STATUSES,
        required=False,
        help_text="required without ids; with ids: rows with another status are left alone",
    )
    expected = Expected(
        "without ids: `matched` of a dry run of the same request; if more rows match, nothing is changed"
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "ids" not in attrs and "status" not in attrs:
            raise serializers.ValidationError("Specify ids, or a status.")
        return attrs


class OutboxRowsChanged(Row):
    """Result of a change of rows. Repeating the request changes the rows that are left."""

    dry_run = serializers.BooleanField()
    matched = serializers.IntegerField(help_text=f"selected rows, counted up to {PENDING_COUNTED_MAX}")
    is_matched_exact = serializers.BooleanField(source="is_exact", help_text="false: there are more")
    done = serializers.IntegerField(
        help_text=f"changed rows, at most {CHANGED_MAX}; in a dry run: rows that the request would change"
    )
    left = serializers.IntegerField(help_text="selected rows that another request changes")
    not_found = serializers.IntegerField(help_text="IDs without a row that can be changed")
    notes = Notes(help_text="what happens next, and what the change does not do")
