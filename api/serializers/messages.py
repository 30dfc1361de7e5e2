"""Serializers of stored messages."""

from rest_framework import serializers

from api.serializers.bodies import Moment, Reason, Row, SequenceField, Strings
from console.cluster.resending import RESEND_MAX
from qmq.protocol.masking.json_body import Why
from qmq.protocol.masking.rules import How

UNREACHABLE = "broker groups that could not be reached, with the reason; their messages are missing"


class MaskedValue(serializers.Serializer):  # type: ignore[type-arg]
    """A property of which something is masked, and the pattern or path of the subject's masking rules that names it."""

    property = serializers.CharField(help_text="* for all properties of a message that has too many")
    rule = serializers.CharField()
    how = serializers.ChoiceField(choices=[how.value for how in How])
    why = serializers.ChoiceField(
        choices=[why.value for why in Why],
        allow_null=True,
        help_text="why more is hidden than the rule names, for example the whole body",
    )


class BodyDecoding(serializers.Serializer):  # type: ignore[type-arg]
    """What became of a body in the format of its subject."""

    format = serializers.CharField()
    problem = serializers.CharField(allow_null=True, help_text="why it is shown as it is stored; null: it is decoded")


def MaskedValues() -> MaskedValue:
    """What masking rules hide."""
    return MaskedValue(many=True, help_text="what masking rules of the subject hide from the caller")


class MessageRow(serializers.Serializer):  # type: ignore[type-arg]
    """A stored message."""

    broker_group = serializers.CharField()
    sequence = serializers.CharField()
    message_id = serializers.CharField(allow_null=True)
    stored_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField(allow_null=True)
    tags = Strings()
    properties = serializers.DictField(child=serializers.CharField(), allow_null=True)
    size = serializers.IntegerField(help_text="bytes")
    masked = serializers.BooleanField(help_text="whether properties are hidden because the caller lacks permission")
    masked_values = MaskedValues()
    decoding = BodyDecoding(allow_null=True, help_text="null: the body needed no decoding")
    withheld = serializers.CharField(allow_null=True, help_text="why the message can't be read; null: readable")


class MessagePage(serializers.Serializer):  # type: ignore[type-arg]
    """Messages of all broker groups by time of storage."""

    results = MessageRow(many=True)
    next = serializers.CharField(allow_null=True, help_text="pass it as ?cursor=")
    unreachable = serializers.DictField(child=serializers.CharField(), help_text=UNREACHABLE)


class MaskingPreview(serializers.Serializer):  # type: ignore[type-arg]
    """The newest message of a subject as a role would see it."""

    message = MessageRow(allow_null=True, help_text="null: no message was found")
    unreachable = serializers.DictField(child=serializers.CharField(), help_text=UNREACHABLE)


class MessageSlice(MessagePage):
    """One step of a search. Continue with `next` until it is null."""

    scanned = serializers.IntegerField(help_text="messages searched so far, of the broker groups that responded")
    total = serializers.IntegerField(help_text="messages to search, of these broker groups")
    unreadable = serializers.IntegerField(help_text="messages of this step whose stored data is corrupted")
    costly = serializers.IntegerField(
        help_text="messages of this step for which the filter takes too long, so it is unknown whether they match"
    )
    expression = serializers.CharField(allow_null=True, help_text="the filter in CEL; null: no broker group responded")
    searched = serializers.ListField(
        child=serializers.CharField(), help_text="parts of messages that the filter names: properties, body, tags, ..."
    )
    progress = serializers.FloatField(help_text="0 to 1, of the broker groups that responded")
    end = serializers.BooleanField(help_text="whether the search is complete")


class Period(serializers.Serializer):  # type: ignore[type-arg]
    """A window of time; the end is excluded."""

    from_time = serializers.DateTimeField()
    to_time = serializers.DateTimeField()


class FoundMessage(MessageRow):
    """A message that was found by its ID alone."""

    subject = serializers.CharField()


class FoundMessages(serializers.Serializer):  # type: ignore[type-arg]
    """One step of a search for an ID. Continue with `next` until it is null, or a message was found."""

    results = FoundMessage(many=True)
    next = serializers.CharField(allow_null=True, help_text="pass it as ?cursor=")
    unreachable = serializers.DictField(child=serializers.CharField(), help_text=UNREACHABLE)
    progress = serializers.FloatField(help_text="0 to 1, of the broker groups that responded")
    searched = Period(many=True, help_text="times of storage that are searched, in this order")


class StoredPlace(serializers.Serializer):  # type: ignore[type-arg]
    """The place of a stored message of a subject."""

    broker_group = serializers.CharField(max_length=100)
    sequence = SequenceField()


class CopiedMessage(StoredPlace):
    """The message of which a message is a copy."""

    subject = serializers.CharField(max_length=250)


class Resending(Reason):
    """Messages to send again, and where."""

    messages = serializers.ListField(child=StoredPlace(), min_length=1, max_length=RESEND_MAX)
    to_subject = serializers.CharField(required=False, max_length=250, help_text="default: the subject itself")


class ResentMessage(Row):
    """A message that was sent again."""

    broker_group = serializers.CharField()
    sequence = serializers.CharField()
    size = serializers.IntegerField(help_text="bytes of the stored message")
    message_id = serializers.CharField(allow_null=True, help_text="of the copy; null: not sent")
    problem = serializers.CharField(help_text="why it is not sent; empty: it is")


class Resent(serializers.Serializer):  # type: ignore[type-arg]
    """What was sent again, or in a dry run would be."""

    dry_run = serializers.BooleanField()
    to_subject = serializers.CharField()
    messages = serializers.IntegerField(help_text="sent, or in a dry run that would be sent")
    failed = serializers.IntegerField(help_text="not sent")
    results = ResentMessage(many=True)


class NewMessage(Reason):
    """A message to send."""

    properties = serializers.DictField(
        child=serializers.CharField(allow_blank=True, trim_whitespace=False),
        help_text="by convention `data` is the body",
    )
    tags = serializers.ListField(child=serializers.CharField(max_length=200), required=False, max_length=10)
    delay_seconds = serializers.FloatField(
        required=False, allow_null=True, min_value=0, max_value=10 * 366 * 86_400, help_text="delay before delivery"
    )
    due_at = serializers.DateTimeField(required=False, allow_null=True, help_text="delivery time")
    copy_of = CopiedMessage(
        required=False,
        help_text="the message that was edited; becomes qmq_console_copy_of. The body gets the format of that message",
    )

    def validate(self, attrs: dict[str, object]) -> dict[str, object]:
        if attrs.get("delay_seconds") is not None and attrs.get("due_at") is not None:
            raise serializers.ValidationError("Specify delay_seconds or due_at, not both.")
        return attrs


class Receipt(serializers.Serializer):  # type: ignore[type-arg]
    """The proof that a message is on disk."""

    dry_run = serializers.BooleanField()
    message_id = serializers.CharField(allow_null=True, help_text="null in a dry run")
    subject = serializers.CharField()
    broker_group = serializers.CharField(
        allow_null=True, help_text="broker group that stored it, or delay group; null in a dry run"
    )
    attempts = serializers.IntegerField()
    due_at = serializers.DateTimeField(allow_null=True)


class Link(serializers.Serializer):  # type: ignore[type-arg]
    """A later attempt of a message."""

    subject = serializers.CharField()
    broker_group = serializers.CharField()
    sequence = serializers.CharField()
    stored_at = Moment(source="stored_at_ms")
    attempt = serializers.IntegerField()
    state = serializers.CharField(allow_null=True, help_text="null: unknown")


class Standing(serializers.Serializer):  # type: ignore[type-arg]
    """State of a message in a consumer group."""

    group = serializers.CharField()
    broadcast = serializers.BooleanField()
    state = serializers.CharField(
        allow_null=True, help_text="waiting, in_flight, acked, retried, dead, skipped, expired; null: see why"
    )
    known = serializers.BooleanField()
    why = serializers.CharField(allow_null=True)
    consumer_id = serializers.CharField(allow_null=True)
    pull_sequence = serializers.CharField(allow_null=True)
    pulled_at = Moment(source="pulled_at_ms")
    acked_at = Moment(source="acked_at_ms")
    retries = Link(many=True)
    dead_letters = Link(many=True)
    links_complete = serializers.BooleanField()
    links_why = serializers.CharField(allow_null=True)


class Original(serializers.Serializer):  # type: ignore[type-arg]
    """For a retry or dead letter: the original message."""

    subject = serializers.CharField()
    message_id = serializers.CharField()
    attempt = serializers.IntegerField()


class Trace(serializers.Serializer):  # type: ignore[type-arg]
    """Trace of a message."""

    subject = serializers.CharField()
    broker_group = serializers.CharField()
    sequence = serializers.CharField()
    message = MessageRow(allow_null=True)
    message_why = serializers.CharField(allow_null=True)
    original = Original(allow_null=True)
    groups = Standing(many=True)
    next_after = serializers.CharField(allow_null=True, help_text="pass it as ?after= for more groups")
    scope = serializers.CharField()
