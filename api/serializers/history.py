"""Serializers of recent history."""

from rest_framework import serializers


class History(serializers.Serializer):  # type: ignore[type-arg]
    """Columns: `at[i]` is the time of the i-th value of each field."""

    step_seconds = serializers.IntegerField()
    at = serializers.ListField(child=serializers.DateTimeField())
    fields = serializers.DictField(  # type: ignore[assignment]
        child=serializers.ListField(child=serializers.FloatField(allow_null=True)),
        help_text="numbers with seven significant digits; null: not measured",
    )
    reason = serializers.CharField(allow_null=True, help_text="why there is no data")
