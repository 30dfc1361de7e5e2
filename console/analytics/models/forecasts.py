"""When something will be reached, with an interval. A day's row is the last of its hours."""

from enum import StrEnum

from console.analytics.models.summary import (
    LONG_STEPS,
    OfGroup,
    Summary,
    by_time,
    choice_field,
    number_field,
    one_row,
    text_field,
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


class Forecast(Summary):
    """What all forecasts say."""

    outlook = choice_field(Outlook, 10, "expected; possible (no upper bound); never; unknown (too little data)")
    method = text_field(METHOD_CHARS_MAX, "how it was computed")
    interval_ratio = number_field("confidence: share of cases between the lower and the upper bound")

    steps = LONG_STEPS

    class Meta:
        abstract = True


class DrainForecast(OfGroup, Forecast):
    """Time until a consumer group's lag is zero, from the end of the step."""

    lag_messages_last = whole_field("current lag")
    drain_seconds_low = number_field("lower bound")
    drain_seconds_mid = number_field("estimate")
    drain_seconds_high = number_field("upper bound")

    class Meta:
        constraints = one_row("drain", "subject", "group")
        indexes = by_time("drain", "group")


class DiskForecast(Forecast):
    """How long until a node's disk is full, from the step's end on."""

    broker_group = text_field(NODE_CHARS_MAX, "the broker group or delay group")
    node_id = text_field(NODE_CHARS_MAX, "the node")
    disk_used_bytes_last = whole_field("disk space used at the end of the step")
    disk_total_bytes_last = whole_field("size of the disk")
    growth_bytes_per_second = number_field("growth, taking retention into account")
    full_seconds_low = number_field("lower bound")
    full_seconds_mid = number_field("estimate")
    full_seconds_high = number_field("upper bound")

    key = ("broker_group", "node_id")

    class Meta:
        constraints = one_row("disk", "broker_group", "node_id")
        indexes = by_time("disk")
