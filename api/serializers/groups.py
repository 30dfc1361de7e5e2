"""Serializers of consumer groups."""

from rest_framework import serializers

from api.serializers.bodies import MayChange, Reason, Row, Strings
from console.accounts.roles import Right
from metaserver.services.groups import GROUP


class GroupChange(Reason):
    """A change of a consumer group; omitted fields keep their value."""

    rules = GROUP.fields


class NewGroup(GroupChange):
    """A new consumer group."""

    subject = serializers.CharField(max_length=100)
    name = serializers.CharField(max_length=200)


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

    to = serializers.ChoiceField(choices=["earliest", "latest", "time", "sequence"])
    time = serializers.DateTimeField(required=False, help_text="for `time`: the first message stored at or after it")
    sequence = serializers.RegexField(r"^[0-9]{1,18}$", required=False, help_text="for `sequence`, with broker_group")
    broker_group = serializers.CharField(
        required=False, max_length=100, help_text="only this broker group; required for `sequence`"
    )


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


class ResetDone(serializers.Serializer):  # type: ignore[type-arg]
    """Result of a reset; in a dry run, the expected result."""

    target = serializers.CharField()
    dry_run = serializers.BooleanField()
    is_change = serializers.BooleanField()
    before = serializers.DictField(child=serializers.CharField())
    after = serializers.DictField(child=serializers.CharField(), allow_null=True)
    broker_groups = ResetOnGroup(many=True)


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
    oldest_unacked_ms = serializers.IntegerField(allow_null=True)
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
