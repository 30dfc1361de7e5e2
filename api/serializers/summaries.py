"""Serializers of summary tables and their rows."""

from rest_framework import serializers

from api.serializers.bodies import Row, Strings
from console.analytics.models import CaseClass, RunState, Scored
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
    choices = Strings(help_text="possible values; empty: any")


class TableRow(serializers.Serializer):  # type: ignore[type-arg]
    """A summary table."""

    name = serializers.CharField()
    text = serializers.CharField()
    columns = ColumnRow(many=True)
    filters = Strings(help_text="available filters")
    steps = serializers.ListField(child=serializers.ChoiceField(choices=[step.value for step in Step]))
    is_ahead = serializers.BooleanField(help_text="whether its times are in the future")
    state = serializers.ChoiceField(choices=TABLE_STATES)
    as_of = serializers.DateTimeField(allow_null=True, help_text="the table is complete up to this time")


class Tables(serializers.Serializer):  # type: ignore[type-arg]
    """All summary tables."""

    results = TableRow(many=True)


class RunOfRows(Row):
    """A run that produced rows. Runs of job `demo` produce demo data."""

    id = serializers.CharField()
    job = serializers.CharField()
    state = serializers.ChoiceField(choices=[s.value for s in RunState])
    finished_at = serializers.DateTimeField(allow_null=True)
    watermark_at = serializers.DateTimeField(allow_null=True)
    missing = Strings(help_text="broker groups whose rows are missing from the published data")


class ScoreRow(Row):
    """Accuracy of the forecasts of a class, or of anomaly flags, of the last days."""

    scored = serializers.ChoiceField(
        choices=[kind.value for kind in Scored],
        help_text="drain_forecasts, disk_forecasts: a forecast that came due holds if the actual value was in the interval; "
        "anomalies: a compared value holds if it was not flagged; "
        "anomaly_flags: a flag holds if the next hour was flagged too",
    )
    case_class = serializers.ChoiceField(
        choices=[each.value for each in CaseClass],
        help_text="forecasts that are alike, by the minutes of arrivals that wait and whether the lag falls "
        "(drain_forecasts); all: no classes, or no cases",
    )
    days = serializers.IntegerField()
    cases_count = serializers.IntegerField()
    held_count = serializers.IntegerField()
    below_count = serializers.IntegerField(
        allow_null=True, help_text="forecasts whose lower bound was missed; null: no forecasts"
    )
    above_count = serializers.IntegerField(
        allow_null=True, help_text="forecasts whose upper bound was missed; null: no forecasts"
    )
    width_ratio_mean = serializers.FloatField(
        allow_null=True,
        help_text="width of the intervals that have both bounds, the mean over hours of the median: upper bound relative to "
        "the lower one (drain_forecasts), difference of the bounds of a day's growth relative to the disk (disk_forecasts)",
    )
    held_ratio = serializers.FloatField(allow_null=True, help_text="null: not known yet, fewer than 30 cases")
    is_trusted = serializers.BooleanField(
        allow_null=True,
        help_text="whether alerts use these forecasts: 70% to 90% of at least 30 cases held; null: no forecasts",
    )
    target_ratio = serializers.FloatField(allow_null=True, help_text="target share; null: no target")


class OmissionRow(Row):
    """Rows that are left out of minutes and ten minutes because a moment has too many. Hours and days are complete."""

    ranked_by = serializers.CharField(help_text="the rows with the highest values of this column are stored")
    left_out_count = serializers.IntegerField(
        help_text="most rows that a moment lacks; a row is one key, such as a group"
    )
    rows_count = serializers.IntegerField(help_text="rows that this moment would have")
    moments_count = serializers.IntegerField(help_text="moments that lack rows")


class OfRange(serializers.Serializer):  # type: ignore[type-arg]
    """What answers about a range of a summary table say beside their rows: the effective query and the runs."""

    table = serializers.CharField()
    state = serializers.ChoiceField(choices=TABLE_STATES, help_text="no_run_yet: no job has filled the table")
    as_of = serializers.DateTimeField(
        allow_null=True, help_text="the table is complete up to this time; null: no run that fills it has succeeded yet"
    )
    step = serializers.ChoiceField(choices=[step.value for step in Step], help_text="meaning of a row")
    step_seconds = serializers.IntegerField()
    from_at = serializers.DateTimeField()
    to_at = serializers.DateTimeField()
    kept_since = serializers.DateTimeField(help_text="older rows of this step have been deleted")
    runs = RunOfRows(many=True, help_text="runs that produced these rows and the latest run of the table; newest first")
    missing = Strings(help_text="broker groups that could not be read by these runs")
    holes = serializers.IntegerField(
        help_text="ranges that retention deleted before they were read, found between from_at and to_at"
    )
    late_rows = serializers.IntegerField(
        help_text="rows that arrived after their step was published, found between from_at and to_at; the step is recomputed"
    )
    omission = OmissionRow(
        allow_null=True, help_text="what is left out of the moments between from_at and to_at; null: nothing"
    )
    scores = ScoreRow(many=True, help_text="verified accuracy of forecasts or flags; empty: not applicable")


class SummaryPage(OfRange):
    """Rows of a summary table."""

    results = serializers.ListField(
        child=serializers.DictField(),
        help_text="`at` (start of the step), `run`, and the columns of the table; null: not measured",
    )
    next = serializers.CharField(allow_null=True, help_text="pass it as ?cursor=")
    previous = serializers.CharField(allow_null=True, help_text="pass it as ?cursor=")


class RankedValue(Row):
    """The value of a step."""

    at = serializers.DateTimeField(help_text="start of the step")
    value = serializers.FloatField(allow_null=True, help_text="null: not measured, or a time that never comes")


class RankedKey(Row):
    """One key of a table."""

    row = serializers.DictField(help_text="its latest row in the range: `at`, `run` and the columns of the table")
    extreme = serializers.FloatField(
        allow_null=True,
        help_text="highest value in the range; of an ascending ranking the lowest; null: a time that never comes",
    )
    history = RankedValue(many=True)


class Ranking(OfRange):
    """The keys of a summary table with the highest or lowest values in a range."""

    total = serializers.IntegerField(
        help_text="keys with a value in the range, or whose time never comes; at most 50 are in `results`"
    )
    results = RankedKey(many=True)
