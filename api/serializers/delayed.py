"""Serializers of delayed messages."""

from typing import Any

from rest_framework import serializers

from api.serializers.bodies import Expected, Reason, Strings
from api.serializers.messages import BodyDecoding, MaskedValues
from qmq.protocol.delayed import DelayedState
from qmq.protocol.names import MESSAGE_ID_CHARS_MAX

UNREACHABLE = "delay groups that could not be reached, with the reason; their messages are missing"
SECONDS_MAX = 10 * 366 * 86_400


class DelayedRow(serializers.Serializer):  # type: ignore[type-arg]
    """A copy of a delayed message in a delay group."""

    message_id = serializers.CharField()
    subject = serializers.CharField()
    delay_group = serializers.CharField()
    due_at = serializers.DateTimeField(allow_null=True)
    state = serializers.CharField(help_text=", ".join(DelayedState))
    created_at = serializers.DateTimeField(allow_null=True)
    tags = Strings()
    properties = serializers.DictField(child=serializers.CharField(), allow_null=True)
    size = serializers.IntegerField(help_text="bytes")
    masked = serializers.BooleanField(help_text="whether properties are hidden because the caller lacks permission")
    masked_values = MaskedValues()
    decoding = BodyDecoding(allow_null=True, help_text="null: the body needed no decoding")
    may_change = serializers.BooleanField(help_text="whether the caller can cancel, reschedule or deliver it")


class DelayedPage(serializers.Serializer):  # type: ignore[type-arg]
    """Delayed messages by due time."""

    results = DelayedRow(many=True)
    next = serializers.CharField(allow_null=True, help_text="pass it as ?cursor=")
    unreachable = serializers.DictField(child=serializers.CharField(), help_text=UNREACHABLE)


class DelayedFound(serializers.Serializer):  # type: ignore[type-arg]
    """All copies of a message with this ID."""

    results = DelayedRow(many=True)
    unreachable = serializers.DictField(child=serializers.CharField(), help_text=UNREACHABLE)


class DelayedTarget(Reason):
    """A message. Subject and due time, if known, make the lookup faster and identify it among messages with the same ID."""

    message_id = serializers.CharField(max_length=MESSAGE_ID_CHARS_MAX, trim_whitespace=False)
    subject = serializers.CharField(required=False, max_length=200)
    was_due_at = serializers.DateTimeField(required=False, help_text="its current due time")


class Reschedule(DelayedTarget):
    """A new due time."""

    due_at = serializers.DateTimeField(required=False, allow_null=True)
    delay_seconds = serializers.FloatField(required=False, allow_null=True, min_value=0, max_value=SECONDS_MAX)

    def validate(self, attrs: dict[str, object]) -> dict[str, object]:
        if (attrs.get("due_at") is None) == (attrs.get("delay_seconds") is None):
            raise serializers.ValidationError("Specify either due_at or delay_seconds.")
        return attrs


class DelayedChanged(serializers.Serializer):  # type: ignore[type-arg]
    """Result of a change; in a dry run, the expected result at this moment."""

    dry_run = serializers.BooleanField()
    message_id = serializers.CharField()
    subject = serializers.CharField()
    outcome = serializers.CharField(help_text="done; or unchanged if it already was in this state")
    state_before = serializers.CharField()
    state = serializers.CharField()
    due_at = serializers.DateTimeField(allow_null=True)


class BulkCancel(Reason):
    """Filter of the pending messages to cancel: `match`, `due_from`, `due_to`, or else `all`."""

    subject = serializers.CharField(max_length=200)
    match = serializers.DictField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False),
        required=False,
        help_text="properties and their values",
    )
    due_from = serializers.DateTimeField(required=False, allow_null=True)
    due_to = serializers.DateTimeField(required=False, allow_null=True)
    all = serializers.BooleanField(required=False, help_text="all pending messages of the subject")
    expected = Expected("number of messages that match, as a dry run returned it in `matched`")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if bool(attrs.get("all")) == any(attrs.get(name) for name in ("match", "due_from", "due_to")):
            raise serializers.ValidationError(
                "Specify a filter (match, due_from, due_to), or all to cancel every message."
            )
        return attrs


class BulkCancelled(serializers.Serializer):  # type: ignore[type-arg]
    """Result of a bulk cancel; a dry run only counts the matching messages."""

    dry_run = serializers.BooleanField()
    subject = serializers.CharField()
    matched = serializers.IntegerField()
    cancelled = serializers.IntegerField()
    too_late = serializers.IntegerField()
    unreachable = serializers.DictField(child=serializers.CharField(), help_text=UNREACHABLE)


class Hour(serializers.Serializer):  # type: ignore[type-arg]
    """An hour of the calendar."""

    hour = serializers.DateTimeField(help_text="start of the hour, UTC")
    pending = serializers.IntegerField()


class Calendar(serializers.Serializer):  # type: ignore[type-arg]
    """Pending messages by hour of due time, without empty hours."""

    subject = serializers.CharField(allow_null=True)
    hours = Hour(many=True)
    unreachable = serializers.DictField(child=serializers.CharField(), help_text=UNREACHABLE)
