"""When something will be reached, with an interval. A day's row is the last of its hours."""

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

METHOD_CHARS_MAX = 60
NODE_CHARS_MAX = 100


class Outlook(StrEnum):
    """Whether it will be reached: which of low, mid and high are there follows from it."""

    EXPECTED = "expected"
    """Even in the late case: all three are there."""
    POSSIBLE = "possible"
    """In the early case; the late one never gets there: high is null, and mid may be."""
    NEVER = "never"
    UNKNOWN = "unknown"


OUTLOOK_TEXT = "expected; possible (no upper bound); never; unknown (too little data)"


class Forecast(Summary):
    """What all forecasts say."""

    outlook = models.CharField(max_length=10, choices=[(outlook.value, outlook.value) for outlook in Outlook])
    method = models.CharField(max_length=METHOD_CHARS_MAX)
    interval_ratio = number_field()

    steps = LONG_STEPS
    meanings: ClassVar[dict[str, str]] = {
        "outlook": OUTLOOK_TEXT,
        "method": "how it was computed",
        "interval_ratio": "confidence: share of cases between the lower and the upper bound",
    }

    class Meta:
        abstract = True


class DrainForecast(Forecast):
    """How long until a consumer group's lag is worked off, from the step's end on."""

    subject = subject_field()
    group = group_field()
    lag_messages_last = whole_field()
    drain_seconds_low = number_field()
    drain_seconds_mid = number_field()
    drain_seconds_high = number_field()

    key = ("subject", "group")
    meanings: ClassVar[dict[str, str]] = Forecast.meanings | {
        "subject": "the subject",
        "group": "the consumer group",
        "lag_messages_last": "current lag",
        "drain_seconds_low": "lower bound",
        "drain_seconds_mid": "estimate",
        "drain_seconds_high": "upper bound",
    }

    class Meta:
        constraints = one_row("drain", "subject", "group")
        indexes = by_time("drain", "group")


class DiskForecast(Forecast):
    """How long until a node's disk is full, from the step's end on."""

    broker_group = models.CharField(max_length=NODE_CHARS_MAX)
    node_id = models.CharField(max_length=NODE_CHARS_MAX)
    disk_used_bytes_last = whole_field()
    disk_total_bytes_last = whole_field()
    growth_bytes_per_second = number_field()
    full_seconds_low = number_field()
    full_seconds_mid = number_field()
    full_seconds_high = number_field()

    key = ("broker_group", "node_id")
    meanings: ClassVar[dict[str, str]] = Forecast.meanings | {
        "broker_group": "the broker group or delay group",
        "node_id": "the node",
        "disk_used_bytes_last": "disk space used at the end of the step",
        "disk_total_bytes_last": "size of the disk",
        "growth_bytes_per_second": "growth, taking retention into account",
        "full_seconds_low": "lower bound",
        "full_seconds_mid": "estimate",
        "full_seconds_high": "upper bound",
    }

    class Meta:
        constraints = one_row("disk", "broker_group", "node_id")
        indexes = by_time("disk")
