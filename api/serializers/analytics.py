"""Serializers of analytics runs, live numbers and the overview."""

from collections.abc import Collection
from typing import Any, ClassVar

from rest_framework import serializers

from api.serializers.bodies import Row, Strings
from console.analytics.models import DEMO_DATA, RunState
from console.cluster.group_numbers import GROUP_NUMBERS, GroupNumber
from console.reports.lag_table import LISTED_NUMBERS
from console.snapshot.lag_state import LagState, NotDraining

LAG_STATES = [(state.value, state.value) for state in LagState]
NOT_DRAINING = [(why.value, why.value) for why in NotDraining]


class RunRow(Row):
    """One run of an analytics job."""

    id = serializers.CharField()
    job = serializers.CharField()
    state = serializers.ChoiceField(choices=[s.value for s in RunState])
    from_at = serializers.DateTimeField(allow_null=True)
    to_at = serializers.DateTimeField(allow_null=True)
    watermark_at = serializers.DateTimeField(allow_null=True)
    part = serializers.IntegerField(
        allow_null=True,
        help_text="which of the `parts` of a call of all jobs it is; null for the run that reads the nodes",
    )
    parts = serializers.IntegerField(allow_null=True)
    inputs = serializers.DictField()
    tables = Strings(help_text="summary tables filled by this run")
    rows_read = serializers.CharField(allow_null=True)
    rows_written = serializers.CharField(allow_null=True)
    missing = Strings(help_text="broker groups that could not be read; their rows are missing from the published data")
    late_rows = serializers.CharField(
        allow_null=True, help_text="rows that arrived after their step was published; the step is recomputed"
    )
    holes = serializers.CharField(allow_null=True, help_text="ranges that retention deleted before they were read")
    skipped = serializers.DictField(
        child=serializers.ChoiceField(choices=[DEMO_DATA]),
        help_text="summary tables that this call of all jobs did not fill, and why. `demo_data`: the table contains demo "
        "data, which scheduled runs do not replace",
    )
    error = serializers.CharField(allow_blank=True)
    started_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)


class DemoData(serializers.Serializer):  # type: ignore[type-arg]
    """Demo data in summary tables."""

    tables = Strings(help_text="tables that contain demo data")
    from_at = serializers.DateTimeField(allow_null=True)
    to_at = serializers.DateTimeField(allow_null=True)
    is_replaceable = serializers.BooleanField(help_text="whether scheduled runs replace all of it")


class OfGroupNumbers(serializers.Serializer):  # type: ignore[type-arg]
    """A serializer with numbers of a consumer group in addition to its own fields."""

    numbers: ClassVar[Collection[str]] = tuple(GROUP_NUMBERS)

    def get_fields(self) -> dict[str, Any]:
        return {name: _number(GROUP_NUMBERS[name]) for name in self.numbers} | super().get_fields()


def _number(number: GroupNumber) -> serializers.Field:  # type: ignore[type-arg]
    kind = serializers.IntegerField if number.is_whole else serializers.FloatField
    return kind(allow_null=True, help_text=number.help or None)


class LagNumbers(OfGroupNumbers):
    """Numbers of a consumer group whose measurement is incomplete. Null: unknown."""


class LagRow(OfGroupNumbers):
    """Lag of a consumer group on a subject. Null: not measured; `reason` says why."""

    numbers = LISTED_NUMBERS
    subject = serializers.CharField()
    group = serializers.CharField()
    drain_seconds = serializers.FloatField(
        allow_null=True, help_text="0: no lag, or the group keeps up; null: never (is_draining is false) or unknown"
    )
    is_draining = serializers.BooleanField(
        allow_null=True, help_text="whether the lag decreases at the current rates, or the group keeps up"
    )
    not_draining = serializers.ChoiceField(
        choices=NOT_DRAINING,
        allow_null=True,
        help_text="why the lag does not decrease; null: it does, the group keeps up, or unknown",
    )
    is_paused = serializers.BooleanField(allow_null=True, help_text="as enforced by the nodes")
    withheld = serializers.IntegerField(
        allow_null=True,
        help_text="stored messages of the subject that are lost to corruption: no group can consume them, and they "
        "count towards the lag until the group skips them",
    )
    state = serializers.ChoiceField(choices=LAG_STATES)
    reason = serializers.CharField(allow_null=True)
    at = serializers.DateTimeField(allow_null=True, help_text="when it was last measured completely, if it is not now")
    missing = Strings(allow_null=True, help_text="broker groups whose numbers are missing")
    at_least = LagNumbers(allow_null=True, help_text="numbers of the reachable broker groups while some are missing")
    last = LagNumbers(allow_null=True, help_text="numbers of the last complete measurement while some are missing")


class GroupLag(LagRow):
    """A row of the list of all consumer groups."""

    owner = serializers.CharField(allow_null=True, help_text="owning team of the subject")


class LagPage(serializers.Serializer):  # type: ignore[type-arg]
    """The live numbers of consumer groups, as the collector last measured them."""

    at = serializers.DateTimeField(allow_null=True, help_text="time of measurement; null: not measured")
    reason = serializers.CharField(allow_null=True, help_text="why numbers are missing")
    states = serializers.DictField(
        child=serializers.IntegerField(),
        help_text="number of groups in each state, of all groups or those of the subject, regardless of other filters",
    )
    results = GroupLag(many=True)
    next = serializers.CharField(allow_null=True, help_text="pass it as ?cursor=")


class KnownTotals(serializers.Serializer):  # type: ignore[type-arg]
    """Totals of the values that could be measured."""

    send_rate = serializers.FloatField()
    ack_rate = serializers.FloatField()
    lag = serializers.FloatField()
    missing = Strings(help_text="broker groups whose numbers are missing")
    reason = serializers.CharField(allow_null=True, help_text="why a total is unknown although none is missing")


class Overview(serializers.Serializer):  # type: ignore[type-arg]
    """Summary of the whole system. Null: not measured."""

    subjects = serializers.IntegerField()
    consumer_groups = serializers.IntegerField()
    broker_groups = serializers.DictField(
        child=serializers.IntegerField(), help_text="number of broker groups by state"
    )
    nodes = serializers.IntegerField()
    subjects_moving = serializers.IntegerField()
    alerts_firing = serializers.DictField(child=serializers.IntegerField(), help_text="number of alerts by severity")
    jobs_late = Strings()
    measured_at = serializers.DateTimeField(allow_null=True)
    unmeasured_reason = serializers.CharField(allow_null=True)
    send_rate = serializers.FloatField(allow_null=True, help_text="messages per second")
    ack_rate = serializers.FloatField(allow_null=True)
    lag = serializers.IntegerField(allow_null=True, help_text="messages, sum over all groups")
    known = KnownTotals(allow_null=True, help_text="totals of what is known")
    worst = LagRow(many=True, help_text="the groups with the longest time lag")
