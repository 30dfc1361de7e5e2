"""Serializers of consumer groups."""

from typing import Any

from rest_framework import serializers

from api.schema import ChangeSerializer
from api.serializers.analytics import LAG_STATES
from api.serializers.bodies import MayChange, Reason, Row, SequenceField, Strings
from console.accounts.roles import Right
from console.reports.diagnosis import Code, Severity
from metaserver.services.groups import GROUP

STARTS = [(place, place) for place in ("earliest", "latest", "time", "positions", "group")]
FINDINGS = [(str(code), str(code)) for code in Code]
SEVERITIES = [(str(severity), str(severity)) for severity in Severity]
POSITIONS_MAX = 200
"""Most broker groups of one request."""


class GroupChange(Reason):
    """A change of a consumer group; omitted fields keep their value."""

    rules = GROUP.fields


class PositionsField(serializers.DictField):
    """A sequence by broker group: numbers or strings of digits."""

    child = SequenceField()

    def to_internal_value(self, data: Any) -> dict[str, int]:
        found: dict[str, int] = super().to_internal_value(data)
        if not 1 <= len(found) <= POSITIONS_MAX:
            raise serializers.ValidationError(f"must name 1 to {POSITIONS_MAX} broker groups")
        return found


_REQUIRED = {"time": "time", "positions": "positions", "group": "from_group"}
"""By place, the field that it requires, and that no other place takes."""


def _check_place(to: str, attrs: dict[str, Any]) -> None:
    """Raise ValidationError for a place without its value, or with that of another place."""
    for place, name in _REQUIRED.items():
        if to == place and name not in attrs:
            raise serializers.ValidationError({name: f"is required for {place}"})
        if to != place and name in attrs:
            raise serializers.ValidationError({name: f"is only for {place}"})


class NewGroup(GroupChange):
    """A new consumer group, with a start position or without. Without, its first consumer decides where it starts."""

    subject = serializers.CharField(max_length=100)
    name = serializers.CharField(max_length=200)
    start = serializers.ChoiceField(
        choices=STARTS,
        required=False,
        help_text="start position; absent: its first consumer decides",
    )
    time = serializers.DateTimeField(required=False, help_text="for `time`: the first message stored at or after it")
    positions = PositionsField(required=False, help_text="for `positions`: the sequence on each of these broker groups")
    from_group = serializers.CharField(
        required=False, max_length=200, help_text="for `group`: the consumer group whose positions are copied"
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        _check_place(attrs.get("start", ""), attrs)
        return attrs


class GroupRow(Row):
    """A consumer group in a list."""

    rules = GROUP.fields
    subject = serializers.CharField(source="subject.name")
    name = serializers.CharField()
    owner = serializers.CharField(source="subject.owner.name", allow_null=True, help_text="owning team of the subject")
    is_paused = serializers.BooleanField()
    paused_consumers = Strings()
    pause_reason = serializers.CharField(allow_blank=True)
    may_change = MayChange(Right.CHANGE_GROUPS, "subject.owner.name")
    version = serializers.CharField()
    first_seen_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class Pause(Reason):
    """The consumer to pause or resume, or the whole group."""

    consumer_id = serializers.CharField(
        required=False, allow_blank=True, max_length=200, help_text="one consumer; absent: the whole group"
    )


class Reset(Reason):
    """The new position of a consumer group."""

    to = serializers.ChoiceField(choices=STARTS)
    time = serializers.DateTimeField(required=False, help_text="for `time`: the first message stored at or after it")
    positions = PositionsField(required=False, help_text="for `positions`: the sequence on each of these broker groups")
    from_group = serializers.CharField(
        required=False, max_length=200, help_text="for `group`: the consumer group whose positions are copied"
    )
    broker_group = serializers.CharField(required=False, max_length=100, help_text="only this broker group")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        _check_place(attrs["to"], attrs)
        return attrs


class ResetOnGroup(serializers.Serializer):  # type: ignore[type-arg]
    """Effect of a reset on one broker group."""

    broker_group = serializers.CharField()
    position = serializers.CharField(allow_null=True)
    new_position = serializers.CharField(allow_null=True)
    skipped = serializers.IntegerField(allow_null=True, help_text="pending messages that are skipped")
    repeated = serializers.IntegerField(allow_null=True, help_text="messages that are delivered again")
    in_flight = serializers.IntegerField(
        allow_null=True, help_text="messages in flight; they stay with their consumers"
    )
    pending = serializers.IntegerField(help_text="stored messages from the new position on")


class ResetDone(serializers.Serializer):  # type: ignore[type-arg]
    """Result of a reset; in a dry run, the expected result."""

    target = serializers.CharField()
    dry_run = serializers.BooleanField()
    is_change = serializers.BooleanField()
    before = serializers.DictField(child=serializers.CharField())
    after = serializers.DictField(child=serializers.CharField(), allow_null=True)
    broker_groups = ResetOnGroup(many=True)


class GroupCreated(ChangeSerializer):
    """Result of a creation; in a dry run, the expected result."""

    broker_groups = ResetOnGroup(many=True, help_text="start positions; empty: the first consumer decides")


class FindingShape(serializers.Serializer):  # type: ignore[type-arg]
    """What was found about a consumer group, with its numbers: rates in messages per second, times in seconds."""

    code = serializers.ChoiceField(choices=FINDINGS)
    severity = serializers.ChoiceField(choices=SEVERITIES)
    values = serializers.DictField()


class LatestReset(serializers.Serializer):  # type: ignore[type-arg]
    """A reset in the last hour, which a reset to the positions `before` undoes."""

    at = serializers.DateTimeField()
    by = serializers.CharField()
    before = serializers.DictField(child=serializers.CharField(), help_text="sequences by broker group")
    after = serializers.DictField(child=serializers.CharField(), help_text="sequences by broker group")


class Forget(Reason):
    """Deletion of a consumer group."""

    force = serializers.BooleanField(required=False, default=False)


class GroupMember(serializers.Serializer):  # type: ignore[type-arg]
    """A consumer on one broker group. Null: unknown, `reasons` says why."""

    broker_group = serializers.CharField()
    consumer_id = serializers.CharField()
    address = serializers.CharField(allow_null=True)
    duplicate_addresses = Strings(
        help_text="connections of several processes that use this consumer ID at the same time; empty: one process"
    )
    online = serializers.BooleanField()
    last_seen_seconds = serializers.FloatField(allow_null=True)
    in_flight = serializers.IntegerField()
    in_flight_ranges = serializers.ListField(
        child=Strings(min_length=2, max_length=2),
        help_text="consume sequences [begin, end), lowest first, at most 20",
    )
    in_flight_ranges_total = serializers.IntegerField()
    pulled = serializers.CharField(help_text="messages delivered to the consumer since it was first seen")
    acked = serializers.CharField(help_text="of these, acknowledged")
    oldest_unacked_ms = serializers.IntegerField(
        allow_null=True, help_text="age of the oldest message in flight since it was stored"
    )
    unacked_seconds = serializers.FloatField(
        help_text="time for which the consumer has held messages without an acknowledgement, since the start of the master at most"
    )
    is_paused = serializers.BooleanField()
    reasons = serializers.DictField(child=serializers.CharField())


class OnBrokerGroup(serializers.Serializer):  # type: ignore[type-arg]
    """Progress of a consumer group on one broker group. Null with a `reason` if the broker group is unreachable."""

    broker_group = serializers.CharField()
    reason = serializers.CharField(allow_null=True)
    next_sequence = serializers.CharField(allow_null=True)
    begin_sequence = serializers.CharField(allow_null=True)
    end_sequence = serializers.CharField(allow_null=True)
    backlog = serializers.IntegerField(allow_null=True)
    in_flight = serializers.IntegerField(allow_null=True)
    lag = serializers.IntegerField(allow_null=True)
    time_lag_seconds = serializers.FloatField(allow_null=True)
    pull_rate = serializers.FloatField(allow_null=True)
    ack_rate = serializers.FloatField(allow_null=True)


class GroupDetail(GroupRow):
    """A consumer group with its current progress and consumers, read from the nodes."""

    lag = serializers.IntegerField(allow_null=True, help_text="messages; null if a broker group could not be reached")
    time_lag_seconds = serializers.FloatField(allow_null=True)
    unknown_reason = serializers.CharField(allow_null=True)
    progress = OnBrokerGroup(many=True)
    members = GroupMember(many=True)
    members_total = serializers.IntegerField()
    state = serializers.ChoiceField(choices=LAG_STATES, help_text="of the measurement that the diagnosis is made of")
    diagnosis = FindingShape(many=True, help_text="worst first; empty while no broker group has a position of it")
    latest_reset = LatestReset(allow_null=True, help_text="the newest reset of the last hour; null: there was none")
