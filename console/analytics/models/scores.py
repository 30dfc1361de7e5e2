"""How forecasts and anomaly flags turned out."""

from enum import StrEnum
from typing import ClassVar

from django.db import models

from console.analytics.models.summary import LONG_STEPS, Summary, by_time, number_field, one_row, whole_field

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

    scored = models.CharField(max_length=SCORED_CHARS_MAX, choices=[(kind.value, kind.value) for kind in Scored])
    cases_count = whole_field()
    held_count = whole_field()
    target_ratio = number_field()

    key = ("scored",)
    steps = LONG_STEPS
    meanings: ClassVar[dict[str, str]] = {
        "scored": "drain_forecasts and disk_forecasts: by their intervals; anomalies: values compared with earlier days;"
        " anomaly_flags: flags by the hour that followed",
        "cases_count": "forecasts that came due during the step; compared values; flags compared with the next hour",
        "held_count": "forecasts within their interval; values not flagged; flags that persisted into the next hour",
        "target_ratio": "target share; null: no target",
    }

    class Meta:
        constraints = one_row("scores", "scored")
        indexes = by_time("scores")
