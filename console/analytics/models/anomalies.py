"""What differs from the same hour of earlier days."""

from enum import StrEnum

from django.db import models

from console.analytics.models.summary import (
    LONG_STEPS,
    Summary,
    by_time,
    choice_field,
    group_field,
    meaning,
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
    group = group_field("the consumer group; empty for values of the subject itself")
    metric = choice_field(Metric, 40, "the metric; its unit is part of its name")
    value = number_field("measured value")
    expected = number_field("median of the same hour on previous days")
    expected_low = number_field("lower limit; values below it are flagged")
    expected_high = number_field("upper limit; values above it are flagged")
    score = number_field(
        "signed distance from the median in robust standard deviations (1.4826 x median absolute deviation)"
    )
    compared_days_count = whole_field("number of previous days compared")
    is_flagged = meaning("whether the value is outside the limits", models.BooleanField())

    key = ("subject", "group", "metric")
    steps = LONG_STEPS

    class Meta:
        constraints = one_row("anomalies", "subject", "group", "metric")
        indexes = by_time("anomalies", "group")
