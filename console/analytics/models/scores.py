"""How forecasts and anomaly flags turned out."""

from enum import StrEnum

from console.analytics.models.summary import (
    LONG_STEPS,
    Summary,
    by_time,
    choice_field,
    number_field,
    one_row,
    whole_field,
)

SCORED_CHARS_MAX = 20


class Scored(StrEnum):
    """What is scored."""

    DRAIN = "drain_forecasts"
    """Held: the lag was drained inside of the interval."""
    DISK = "disk_forecasts"
    """Held: the disk grew over the next day as fast as the interval says."""
    ANOMALY = "anomalies"
    """Held: the value was not flagged."""
    FLAG = "anomaly_flags"
    """Held: the next hour was flagged in the same direction."""


class ForecastScore(Summary):
    """How many forecasts came due, and how many of them held; the same of anomaly flags."""

    scored = choice_field(
        Scored,
        SCORED_CHARS_MAX,
        "drain_forecasts and disk_forecasts: by their intervals; anomalies: values compared with earlier days;"
        " anomaly_flags: flags by the hour that followed",
    )
    cases_count = whole_field(
        "forecasts that came due during the step; compared values; flags compared with the next hour"
    )
    held_count = whole_field(
        "forecasts within their interval; values not flagged; flags that persisted into the next hour"
    )
    target_ratio = number_field("target share; null: no target")

    key = ("scored",)
    steps = LONG_STEPS

    class Meta:
        constraints = one_row("scores", "scored")
        indexes = by_time("scores")
