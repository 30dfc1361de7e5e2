"""What differs from the same hour of earlier days."""

from enum import StrEnum
from typing import ClassVar

from django.db import models

from console.analytics.models.summary import (
    LONG_STEPS,
    Summary,
    by_time,
    group_field,
    number_field,
    one_row,
    subject_field,
    whole_field,
)


class Metric(StrEnum):
    """What was compared; its unit is in its name."""

    SENT = "sent_messages_per_second"
    ACKED = "acked_messages_per_second"
    LAG = "lag_messages"
    TIME_LAG = "time_lag_seconds"
    END_TO_END_P99 = "end_to_end_p99_ms"
    FAILURES = "failures_messages"


class Anomaly(Summary):
    """A number against the same hour of earlier days, flagged where it is outside of what they say."""

    subject = subject_field()
    group = group_field()
    metric = models.CharField(max_length=40, choices=[(metric.value, metric.value) for metric in Metric])
    value = number_field()
    expected = number_field()
    expected_low = number_field()
    expected_high = number_field()
    score = number_field()
    compared_days_count = whole_field()
    is_flagged = models.BooleanField()

    key = ("subject", "group", "metric")
    steps = LONG_STEPS
    meanings: ClassVar[dict[str, str]] = {
        "subject": "the subject",
        "group": "the consumer group; empty for values of the subject itself",
        "metric": "the metric; its unit is part of its name",
        "value": "measured value",
        "expected": "median of the same hour on previous days",
        "expected_low": "lower limit; values below it are flagged",
        "expected_high": "upper limit; values above it are flagged",
        "score": "signed distance from the median in robust standard deviations (1.4826 x median absolute deviation)",
        "compared_days_count": "number of previous days compared",
        "is_flagged": "whether the value is outside the limits",
    }

    class Meta:
        constraints = one_row("anomalies", "subject", "group", "metric")
        indexes = by_time("anomalies", "group")
