"""Serializers of numbers over time."""

from rest_framework import serializers

from api.serializers.bodies import Row, Strings
from api.serializers.summaries import TABLE_STATES
from console.jobs.analytics import ANALYTICS
from console.jobs.summaries import SUMMARIES


class HistorySummary(Row):
    """Where the points before `border_at` come from."""

    step_seconds = serializers.IntegerField(help_text="length of these points, which have the highest value of each")
    job = serializers.ChoiceField(
        choices=(ANALYTICS.name, SUMMARIES.name),
        help_text="background job that stores them: summaries for broker groups, otherwise analytics",
    )
    state = serializers.ChoiceField(choices=TABLE_STATES, help_text="no_run_yet: the job never stored anything")
    as_of = serializers.DateTimeField(allow_null=True, help_text="they are complete up to this time")
    is_demo = serializers.BooleanField(help_text="whether demo data is among them")
    missing = Strings(help_text="broker groups that could not be read: values are too low")
    fields = Strings(  # type: ignore[assignment]
        help_text="fields that the job stores; others are null before `border_at`"
    )
    omitted_steps_count = serializers.IntegerField(
        help_text="steps of which no value may be stored because others had more lag or traffic (`omission` of the tables)"
    )


class HistoryFigures(Row):
    """What a field comes to over the whole range."""

    mean = serializers.FloatField(allow_null=True)
    p99 = serializers.FloatField(
        allow_null=True, help_text="99th percentile of the highest values of all steps, not only of those in `at`"
    )
    measured_seconds = serializers.IntegerField()


class History(serializers.Serializer):  # type: ignore[type-arg]
    """Columns: `at[i]` is the time of the i-th value of each field."""

    from_at = serializers.DateTimeField()
    to_at = serializers.DateTimeField()
    step_seconds = serializers.IntegerField(help_text="length of the points from `border_at` on")
    at = serializers.ListField(child=serializers.DateTimeField())
    fields = serializers.DictField(  # type: ignore[assignment]
        child=serializers.ListField(child=serializers.FloatField(allow_null=True)),
        help_text="numbers with seven significant digits; null: not measured",
    )
    reason = serializers.CharField(allow_null=True, help_text="why nothing was measured in the last hour")
    border_at = serializers.DateTimeField(
        allow_null=True,
        help_text="points before it are from `summary`, others were measured; null: all are of one kind",
    )
    summary = HistorySummary(allow_null=True, help_text="null: the range is within the last hour")
    figures = serializers.DictField(child=HistoryFigures())
