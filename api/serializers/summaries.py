"""The shape of summary tables and their rows."""

from rest_framework import serializers

from api.serializers.bodies import Row
from console.analytics.models import RunState, Scored
from console.analytics.steps import Step

TABLE_STATES = ("no_run_yet", "filled")
COLUMN_TYPES = ("text", "integer", "number", "boolean")


class ColumnRow(Row):
    """A column of a summary table."""

    name = serializers.CharField()
    type = serializers.ChoiceField(choices=COLUMN_TYPES)
    unit = serializers.CharField(allow_null=True, help_text="unit of numbers; 1: ratio; null: no unit")
    text = serializers.CharField(help_text="meaning")
    is_nullable = serializers.BooleanField(help_text="null: not measured")
    is_key = serializers.BooleanField(help_text="part of the key")
    choices = serializers.ListField(
        child=serializers.CharField(), source="choices_sorted", help_text="possible values; empty: any"
    )


class TableRow(serializers.Serializer):  # type: ignore[type-arg]
    """A summary table."""

    name = serializers.CharField()
    text = serializers.CharField()
    columns = ColumnRow(many=True)
    filters = serializers.ListField(child=serializers.CharField(), help_text="available filters")
    steps = serializers.ListField(child=serializers.ChoiceField(choices=[step.value for step in Step]))
    is_ahead = serializers.BooleanField(help_text="whether its times are in the future")
    state = serializers.ChoiceField(choices=TABLE_STATES)
    as_of = serializers.DateTimeField(allow_null=True, help_text="the table is complete up to this time")


class Tables(serializers.Serializer):  # type: ignore[type-arg]
    """All summary tables."""

    results = TableRow(many=True)


class RunOfRows(Row):
    """A run that made rows. Those of job `demo` are made up."""

    id = serializers.CharField()
    job = serializers.CharField()
    state = serializers.ChoiceField(choices=[s.value for s in RunState])
    finished_at = serializers.DateTimeField(allow_null=True)
    watermark_at = serializers.DateTimeField(allow_null=True)
    missing = serializers.ListField(
        child=serializers.CharField(), help_text="broker groups whose rows are missing in what it published"
    )


class ScoreRow(Row):
    """How forecasts or anomaly flags of the last days turned out."""

    scored = serializers.ChoiceField(
        choices=[kind.value for kind in Scored],
        help_text="drain_forecasts, disk_forecasts: forecasts that came due, held where the truth lay in the interval; "
        "anomalies: values compared, held where they were not flagged; "
        "anomaly_flags: flags, held where the next hour was flagged as well",
    )
    days = serializers.IntegerField()
    cases_count = serializers.IntegerField()
    held_count = serializers.IntegerField()
    held_ratio = serializers.FloatField(allow_null=True, help_text="null: not verified yet, too few cases")
    target_ratio = serializers.FloatField(allow_null=True, help_text="target share; null: no target")


class SummaryPage(serializers.Serializer):  # type: ignore[type-arg]
    """Rows of a summary table, what was asked for, and who made them."""

    table = serializers.CharField()
    state = serializers.ChoiceField(choices=TABLE_STATES, help_text="no_run_yet: no job has filled the table")
    as_of = serializers.DateTimeField(
        allow_null=True, help_text="everything before it is in the table; null: no run that filled it has succeeded yet"
    )
    step = serializers.ChoiceField(choices=[step.value for step in Step], help_text="meaning of a row")
    step_seconds = serializers.IntegerField()
    from_at = serializers.DateTimeField()
    to_at = serializers.DateTimeField()
    kept_since = serializers.DateTimeField(help_text="older rows of this step have been deleted")
    runs = RunOfRows(many=True, help_text="runs that produced these rows and the latest run of the table; newest first")
    missing = serializers.ListField(
        child=serializers.CharField(), help_text="broker groups that could not be read by these runs"
    )
    holes = serializers.IntegerField(
        help_text="stretches that nodes had deleted before they were read, found from from_at to to_at"
    )
    late_rows = serializers.IntegerField(
        help_text="rows that came after their steps were published, found from from_at to to_at; they are computed again"
    )
    scores = ScoreRow(many=True, help_text="verified accuracy of forecasts or flags; empty: not applicable")
    results = serializers.ListField(
        child=serializers.DictField(),
        help_text="`at` (the step's beginning), `run`, and the table's columns; null is what could not be measured",
    )
    next = serializers.CharField(allow_null=True, help_text="pass it as ?cursor=")
    previous = serializers.CharField(allow_null=True, help_text="pass it as ?cursor=")
