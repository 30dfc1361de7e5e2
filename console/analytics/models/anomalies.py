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
        "group": "the consumer group; empty for what concerns the subject alone",
        "metric": "what was compared; its unit is in its name",
        "value": "what was measured",
        "expected": "median of the same hour of earlier days",
        "expected_low": "less is flagged",
        "expected_high": "more is flagged",
        "score": "distance from the median in robust standard deviations (1.4826 x median deviation), with sign",
        "compared_days_count": "earlier days that were compared with",
        "is_flagged": "whether it is outside of low and high",
    }

    class Meta:
        constraints = one_row("anomalies", "subject", "group", "metric")
        indexes = by_time("anomalies", "group")
