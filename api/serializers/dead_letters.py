"""Serializers of dead letters and of replays and deletions."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from api.serializers.bodies import Body, Expected, Moment, NullText, Reason, Row, SequenceField, Strings, moment
from api.serializers.messages import UNREACHABLE, MessageRow
from api.serializers.reasons import Notes
from console.cluster.dead_letters.decisions import REPLAY_MAX, SEQUENCES_MAX
from qmq.protocol.names import SUBJECT_CHARS_MAX

LIMIT_DEFAULT = 1_000


class LetterCount(Row):
    """The dead letters of a consumer group of a subject."""

    subject = serializers.CharField()
    group = serializers.CharField()
    stored = serializers.IntegerField(help_text="stored dead letters, including replayed and deleted ones")
    open = serializers.IntegerField(help_text="of these, neither replayed nor deleted")
    replayed = serializers.IntegerField()
    deleted = serializers.IntegerField(help_text="hidden until retention deletes them")
    oldest = Moment(source="oldest_ms")
    newest = Moment(source="newest_ms")
    broker_groups = serializers.DictField(
        child=serializers.IntegerField(), help_text="stored dead letters by broker group"
    )


class LetterCounts(serializers.Serializer):  # type: ignore[type-arg]
    """Counts of dead letters by subject and consumer group."""

    results = LetterCount(many=True)
    next = serializers.CharField(allow_null=True, help_text="pass it as ?cursor=")
    unreachable = serializers.DictField(child=serializers.CharField(), help_text=UNREACHABLE)


class Decision(Row):
    """The replay or deletion of a dead letter."""

    state = serializers.CharField(help_text="replaying, unknown (sent, result unknown), replayed, deleted")
    by = serializers.CharField()
    at = serializers.DateTimeField()
    replays = serializers.IntegerField()
    replayed_to = NullText(help_text="group, subject, or other: see other_subject")
    other_subject = NullText(help_text="the subject that got the copy")
    replay_id = NullText(help_text="message ID of the latest replay")


class LetterRow(MessageRow):
    """A dead letter; `stored_at` is the time when it became one."""

    attempts = serializers.IntegerField(allow_null=True, help_text="number of attempts")
    attempts_max = serializers.IntegerField(allow_null=True)
    cause = serializers.CharField(
        allow_null=True, help_text="why the last attempt failed, as its consumer recorded it; null: not recorded"
    )
    last_pull_sequence = serializers.CharField(allow_null=True)
    original_message_id = serializers.CharField(
        allow_null=True, help_text="for a replay: the dead letter it is a copy of"
    )
    decision = Decision(allow_null=True)


class PropertyChange(serializers.Serializer):  # type: ignore[type-arg]
    """A property that differs from the previous attempt; null: absent."""

    name = serializers.CharField()
    before = serializers.CharField(allow_null=True)
    now = serializers.CharField(allow_null=True)


class AttemptRow(MessageRow):
    """An attempt to deliver the message to the group; `stored_at` is the time since when it waited for delivery."""

    attempt = serializers.IntegerField()
    subject = serializers.CharField(help_text="the subject, or the retry subject of the group")
    consumer_id = serializers.CharField(allow_null=True)
    pulled_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(
        allow_null=True, help_text="when the next attempt or the dead letter was stored"
    )
    cause = serializers.CharField(
        allow_null=True, help_text="why it failed, as its consumer recorded it; null: not recorded"
    )
    why = serializers.CharField(allow_null=True, help_text="why information is missing")
    changes = PropertyChange(many=True, allow_null=True, help_text="changes since the previous attempt; null: masked")


class LetterStory(LetterRow):
    """A dead letter with the attempts that preceded it, in order."""

    changes = PropertyChange(many=True, allow_null=True, help_text="changes since the last attempt; null: masked")
    story = AttemptRow(many=True)
    holes = Strings(help_text="why attempts may be missing; empty: complete")


class LetterPage(serializers.Serializer):  # type: ignore[type-arg]
    """Dead letters by the time when they became ones. An empty page can have a `next` page."""

    results = LetterRow(many=True)
    next = serializers.CharField(allow_null=True, help_text="pass it as ?cursor=")
    unreachable = serializers.DictField(child=serializers.CharField(), help_text=UNREACHABLE)


class CauseRow(Row):
    """A cause and the number of dead letters with it."""

    cause = serializers.CharField(allow_null=True, help_text="null: the consumer recorded no cause")
    messages = serializers.IntegerField()


class CauseSeries(Row):
    """Dead letters with a cause, by step."""

    cause = serializers.CharField(allow_null=True, help_text="null: the consumer recorded no cause")
    messages = serializers.ListField(child=serializers.IntegerField())


class CauseTimeline(Row):
    """When the counted dead letters became ones; `messages` and `others` have a number for each time in `at`."""

    step_seconds = serializers.IntegerField()
    at = serializers.SerializerMethodField()
    series = CauseSeries(many=True, help_text="of the most frequent causes")
    others = serializers.ListField(child=serializers.IntegerField())

    @extend_schema_field(serializers.ListField(child=serializers.DateTimeField()))
    def get_at(self, timeline: Any) -> list[str | None]:
        """The beginning of each step."""
        return [moment(at) for at in timeline.at_ms]


class CausePage(Row):
    """Causes of the newest dead letters, the most frequent first. Deleted ones are not counted."""

    results = CauseRow(many=True, source="counts")
    others = serializers.IntegerField(help_text="dead letters with less frequent causes")
    uncounted = serializers.IntegerField(help_text="older dead letters that were not read")
    timeline = CauseTimeline()
    groups_left_out = serializers.BooleanField(help_text="whether more consumer groups have dead letters")
    unreachable = serializers.DictField(child=serializers.CharField(), help_text=UNREACHABLE)


class SequencesField(serializers.DictField):
    """Sequences by broker group: numbers or strings of digits."""

    child = serializers.ListField(child=SequenceField())

    def to_internal_value(self, data: Any) -> dict[str, list[int]]:
        found: dict[str, list[int]] = super().to_internal_value(data)
        if not 1 <= sum(map(len, found.values())) <= SEQUENCES_MAX:
            raise serializers.ValidationError(f"must name 1 to {SEQUENCES_MAX} dead letters")
        return found


class Selection(Reason):
    """Selection of dead letters: by sequence, or all."""

    sequences = SequencesField(required=False, help_text="by broker group")
    all = serializers.BooleanField(required=False)
    limit = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=REPLAY_MAX,
        default=LIMIT_DEFAULT,
        help_text="with `all`: number of dead letters to process",
    )
    cursor = serializers.CharField(
        required=False, allow_null=True, help_text="with `all`: `next` of the previous response"
    )
    expected = Expected("with `all`: `done` of a dry run of the same request")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("sequences" in attrs) == bool(attrs.get("all")):
            raise serializers.ValidationError("Specify either sequences or all.")
        if "sequences" in attrs and attrs.get("cursor"):
            raise serializers.ValidationError("A cursor requires all.")
        return attrs


class MessageEdit(Body):
    """What a copy says: all properties but those of the protocol (`qmq_…`), and the tags. The body `data`, as the dead letter is
    shown, is sent in the format of the dead letter.
    """

    properties = serializers.DictField(child=serializers.CharField(allow_blank=True, trim_whitespace=False))
    tags = serializers.ListField(child=serializers.CharField(max_length=200), max_length=10)


class Replay(Selection):
    """Dead letters to replay, the destination of the copies, and, of one dead letter, what its copy says instead."""

    to = serializers.ChoiceField(
        choices=["group", "subject", "other"], required=False, default="group",
        help_text="group: only the group whose attempts failed; subject: all groups of the subject; other: other_subject",
    )  # fmt: skip
    other_subject = serializers.CharField(required=False, max_length=SUBJECT_CHARS_MAX)
    force = serializers.BooleanField(
        required=False, default=False, help_text="include dead letters that were already replayed or deleted"
    )
    edit = MessageEdit(required=False, help_text="with one dead letter in `sequences`")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("other_subject" in attrs) != (attrs["to"] == "other"):
            raise serializers.ValidationError("Specify other_subject with to=other, and only then.")
        if "edit" in attrs and sum(map(len, attrs.get("sequences", {}).values())) != 1:
            raise serializers.ValidationError("An edit requires exactly one dead letter in sequences.")
        return super().validate(attrs)


class Failure(Row):
    """A dead letter that could not be replayed or deleted."""

    broker_group = serializers.CharField()
    sequence = serializers.CharField()
    why = serializers.CharField()


class Progress(Row):
    """Result of a replay or deletion. Repeating the request processes the rest and skips dead letters that are done."""

    dry_run = serializers.BooleanField()
    looked_at = serializers.IntegerField()
    done = serializers.IntegerField(help_text="replayed or deleted; in a dry run: to be replayed or deleted")
    already = serializers.IntegerField(help_text="already replayed or deleted")
    under_way = serializers.IntegerField(help_text="being processed by another request")
    unknown = serializers.IntegerField(
        help_text="sent, result unknown; the next request sends them again with the same IDs"
    )
    failed = serializers.IntegerField()
    failures = Failure(many=True, help_text="the first that failed or were not found")
    stopped = NullText(help_text="why the request ended early")
    next = serializers.CharField(allow_null=True, help_text="pass it as `cursor`; null: complete")
    unreachable = serializers.DictField(child=serializers.CharField(), help_text=UNREACHABLE)
    notes = Notes(help_text="what happens next, and what the change does not do")
