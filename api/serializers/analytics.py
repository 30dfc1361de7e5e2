"""The shape of analytics runs, live numbers and the overview."""

from rest_framework import serializers

from console.analytics.models import RunState
from console.live.lag_state import LagState

LAG_STATES = [(state.value, state.value) for state in LagState]


class RunRow(serializers.Serializer):  # type: ignore[type-arg]
    """One run of an analytics job."""

    id = serializers.CharField()
    job = serializers.CharField()
    state = serializers.ChoiceField(choices=[s.value for s in RunState])
    from_at = serializers.DateTimeField(allow_null=True)
    to_at = serializers.DateTimeField(allow_null=True)
    watermark_at = serializers.DateTimeField(allow_null=True)
    inputs = serializers.DictField()
    tables = serializers.ListField(child=serializers.CharField(), help_text="summary tables it has filled")
    rows_read = serializers.CharField(allow_null=True)
    rows_written = serializers.CharField(allow_null=True)
    missing = serializers.ListField(
        child=serializers.CharField(),
        help_text="broker groups that could not be read: their rows are missing in what the run published",
    )
    late_rows = serializers.CharField(
        allow_null=True, help_text="rows read that came after their steps were published: these are computed again"
    )
    holes = serializers.CharField(allow_null=True, help_text="stretches that nodes had deleted before they were read")
    error = serializers.CharField(allow_blank=True)
    started_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)


class LagRow(serializers.Serializer):  # type: ignore[type-arg]
    """A consumer group's lag on a subject. Null: could not be measured; `reason` says why."""

    subject = serializers.CharField()
    group = serializers.CharField()
    backlog = serializers.IntegerField(allow_null=True, help_text="stored, not pulled")
    in_flight = serializers.IntegerField(allow_null=True, help_text="pulled, not acked")
    lag = serializers.IntegerField(allow_null=True)
    time_lag_seconds = serializers.FloatField(allow_null=True)
    pull_rate = serializers.FloatField(allow_null=True)
    ack_rate = serializers.FloatField(allow_null=True)
    drain_seconds = serializers.FloatField(
        allow_null=True, help_text="null: never at these rates when is_draining is false, otherwise unknown"
    )
    is_draining = serializers.BooleanField(allow_null=True, help_text="whether the lag ever drains at these rates")
    consumers_online = serializers.IntegerField(allow_null=True)
    is_paused = serializers.BooleanField(allow_null=True, help_text="as the nodes have it in force")
    retry_lag = serializers.IntegerField(allow_null=True, help_text="messages that wait for another attempt")
    withheld = serializers.IntegerField(
        allow_null=True,
        help_text="stored messages of the subject that are lost to damage: no group can consume them, and their share of the "
        "lag ends when the group skips them",
    )
    state = serializers.ChoiceField(choices=LAG_STATES)
    reason = serializers.CharField(allow_null=True)


class GroupLag(LagRow):
    """A row of the list of all."""

    owner = serializers.CharField(allow_null=True, help_text="team of the subject")


class LagPage(serializers.Serializer):  # type: ignore[type-arg]
    """The live numbers of consumer groups, as the collector last measured them."""

    at = serializers.DateTimeField(allow_null=True, help_text="when they were measured; null: not at all")
    reason = serializers.CharField(allow_null=True, help_text="why there are none")
    results = GroupLag(many=True)
    next = serializers.CharField(allow_null=True, help_text="to be sent as ?cursor=")


class Overview(serializers.Serializer):  # type: ignore[type-arg]
    """The whole system at a glance. Null: could not be measured."""

    subjects = serializers.IntegerField()
    consumer_groups = serializers.IntegerField()
    broker_groups = serializers.DictField(child=serializers.IntegerField(), help_text="state -> broker groups in it")
    nodes = serializers.IntegerField()
    subjects_moving = serializers.IntegerField()
    alerts_firing = serializers.DictField(child=serializers.IntegerField(), help_text="severity -> alerts")
    tasks_late = serializers.ListField(child=serializers.CharField())
    measured_at = serializers.DateTimeField(allow_null=True)
    unmeasured_reason = serializers.CharField(allow_null=True)
    send_rate = serializers.FloatField(allow_null=True, help_text="messages a second")
    ack_rate = serializers.FloatField(allow_null=True)
    lag = serializers.IntegerField(allow_null=True, help_text="messages, over all groups")
    worst = LagRow(many=True, help_text="the groups with the longest time lag")
