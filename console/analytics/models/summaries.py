"""The summaries: what jobs publish and pages read."""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from django.db import models

from console.analytics.models.summary import (
    LONG_STEPS,
    OfGroup,
    Summary,
    by_time,
    choice_field,
    group_field,
    meaning,
    number_field,
    one_row,
    subject_field,
    text_field,
    whole_field,
)
from console.analytics.steps import Step
from qmq.protocol.names import CONSUMER_ID_CHARS_MAX

CAUSE_CHARS_MAX = 120
CLASS_CHARS_MAX = 30
METHOD_CHARS_MAX = 60
NODE_CHARS_MAX = 100
SCORED_CHARS_MAX = 20
TEAM_CHARS_MAX = 60


class Lag(OfGroup):
    """Backlog, messages in flight, lag and time lag of a consumer group on a subject."""

    backlog_messages_max = whole_field("stored, not yet pulled by the group: maximum")
    backlog_messages_mean = number_field("the same: mean over the step")
    backlog_messages_last = whole_field("the same: at the end of the step")
    in_flight_messages_max = whole_field("pulled, not yet acknowledged: maximum")
    in_flight_messages_mean = number_field("the same: mean over the step")
    in_flight_messages_last = whole_field("the same: at the end of the step")
    lag_messages_min = whole_field("backlog plus in flight: minimum")
    lag_messages_max = whole_field("the same: maximum")
    lag_messages_mean = number_field("the same: mean over the step")
    lag_messages_last = whole_field("the same: at the end of the step")
    time_lag_seconds_max = number_field("age of the oldest unacknowledged message: maximum; 0 if all are acknowledged")
    time_lag_seconds_mean = number_field("the same: mean over the step")
    time_lag_seconds_last = number_field("the same: at the end of the step")

    ranked_by = "lag_messages_max"

    class Meta:
        constraints = one_row("lag", "subject", "group")
        indexes = by_time("lag", "group")


class SubjectRates(Summary):
    """What producers sent to a subject."""

    subject = subject_field()
    sent_messages = whole_field("messages stored during the step, excluding retries")
    sent_bytes = whole_field("size of these messages in the message log")
    sent_messages_per_second_max = number_field("maximum over the minutes of the step")
    sent_messages_per_second_mean = number_field("mean over the measured time of the step")
    sent_bytes_per_second_max = number_field("maximum over the minutes of the step")
    sent_bytes_per_second_mean = number_field("mean over the measured time of the step")

    key = ("subject",)
    ranked_by = "sent_messages"

    class Meta:
        constraints = one_row("subject_rates", "subject")
        indexes = by_time("subject_rates")


class GroupRates(OfGroup):
    """What a consumer group pulled and acked on a subject."""

    pulled_messages = whole_field("messages delivered during the step, excluding redeliveries")
    acked_messages = whole_field("messages acknowledged during the step")
    pulled_messages_per_second_max = number_field("maximum over the minutes of the step")
    pulled_messages_per_second_mean = number_field("mean over the measured time of the step")
    acked_messages_per_second_max = number_field("maximum over the minutes of the step")
    acked_messages_per_second_mean = number_field("mean over the measured time of the step")

    ranked_by = "pulled_messages"

    class Meta:
        constraints = one_row("group_rates", "subject", "group")
        indexes = by_time("group_rates", "group")


class LatencyKind(StrEnum):
    """Between which two moments."""

    END_TO_END = "end_to_end"
    """From storing a message to its ack."""
    HANDLING = "handling"
    """From handing it out, the first time, to its ack."""


class Latency(OfGroup):
    """Latencies of the messages that a consumer group acked on a subject. No messages, no row."""

    kind = choice_field(
        LatencyKind,
        20,
        "end_to_end: from storing to acknowledgement; handling: from the first delivery to acknowledgement",
    )
    messages = meaning("messages acknowledged during the step", models.BigIntegerField())
    mean_ms = meaning("mean", models.FloatField())
    p50_ms = meaning("50th percentile", models.FloatField())
    p90_ms = meaning("90th percentile", models.FloatField())
    p99_ms = meaning("99th percentile", models.FloatField())
    p999_ms = meaning("99.9th percentile", models.FloatField())
    max_ms = meaning("maximum", models.FloatField())

    key = ("subject", "group", "kind")
    ranked_by = "messages"

    class Meta:
        constraints = one_row("latencies", "subject", "group", "kind")
        indexes = by_time("latencies", "group")


class GroupSkew(OfGroup):
    """Skew inside a consumer group, by the messages its consumers acked."""

    consumers_count = whole_field("consumers that pulled during the step")
    acked_messages = whole_field("messages they acknowledged")
    max_mean_ratio = number_field("messages of the busiest consumer relative to the mean; 1 is even")
    gini_ratio = number_field("Gini coefficient of their messages; 0 is even, near 1 one consumer receives all")

    steps = LONG_STEPS

    class Meta:
        constraints = one_row("skew", "subject", "group")
        indexes = by_time("skew", "group")


class ConsumerShare(OfGroup):
    """One consumer's part in its group's work."""

    consumer_id = text_field(CONSUMER_ID_CHARS_MAX, "the consumer")
    acked_messages = whole_field("messages it acknowledged during the step")
    share_ratio = number_field("its share of the group's messages, 0 to 1")

    key = ("subject", "group", "consumer_id")
    steps = LONG_STEPS

    class Meta:
        constraints = one_row("shares", "subject", "group", "consumer_id")
        indexes = by_time("shares", "group")


class FailureKind(StrEnum):
    """What became of the message."""

    RETRY = "retry"
    DEAD_LETTER = "dead_letter"


class Failure(OfGroup):
    """Retries and dead letters of a consumer group on a subject, by cause."""

    kind = choice_field(FailureKind, 20, "retry: another attempt; dead_letter: attempts exhausted")
    cause = text_field(
        CAUSE_CHARS_MAX, "a short label such as an exception's class or consumer_left; never a message's text"
    )
    messages = whole_field("number during the step")
    attempts_mean = number_field("mean number of attempts so far")
    attempts_max = whole_field("maximum number of attempts so far")

    key = ("subject", "group", "kind", "cause")
    steps = LONG_STEPS

    class Meta:
        constraints = one_row("failures", "subject", "group", "kind", "cause")
        indexes = by_time("failures", "group")


class DelayedLoad(Summary):
    """Calendar of delayed messages: what was pending at the last run, by the time it is due."""

    subject = subject_field()
    pending_messages = whole_field("messages due during the step")
    pending_bytes = whole_field("their size")

    key = ("subject",)
    steps = LONG_STEPS
    is_ahead = True

    class Meta:
        constraints = one_row("delayed", "subject")
        indexes = by_time("delayed")


class BrokerGroupNumbers(Summary):
    """What the master of a broker group measured each ten seconds. A step without a row was not measured."""

    broker_group = text_field(NODE_CHARS_MAX, "the broker group or delay group")
    sent_messages_per_second_max = number_field("messages stored per second: maximum")
    sent_messages_per_second_mean = number_field("the same: mean of what was measured")
    sent_bytes_per_second_max = number_field("bytes of these messages per second: maximum")
    sent_bytes_per_second_mean = number_field("the same: mean of what was measured")
    pulled_messages_per_second_max = number_field("messages pulled per second: maximum")
    pulled_messages_per_second_mean = number_field("the same: mean of what was measured")
    disk_used_bytes_max = number_field("disk space used: maximum")
    disk_used_bytes_mean = number_field("the same: mean of what was measured")
    connections_count_max = number_field("open connections: maximum")
    connections_count_mean = number_field("the same: mean of what was measured")
    pending_messages_max = number_field("delayed messages that are pending: maximum")
    pending_messages_mean = number_field("the same: mean of what was measured")
    overdue_messages_max = number_field("pending messages that are overdue: maximum")
    overdue_messages_mean = number_field("the same: mean of what was measured")
    delivered_messages_per_second_max = number_field("delayed messages delivered per second: maximum")
    delivered_messages_per_second_mean = number_field("the same: mean of what was measured")
    lateness_p99_seconds_max = number_field("99th percentile of the lateness of deliveries: maximum")
    lateness_p99_seconds_mean = number_field("the same: mean of what was measured")

    key = ("broker_group",)
    steps = (Step.TEN_MINUTES, Step.HOUR)

    class Meta:
        constraints = one_row("broker_groups", "broker_group")
        indexes = by_time("broker_groups")


BROKER_GROUP_COLUMNS = {
    "send_rate": "sent_messages_per_second",
    "send_bytes_rate": "sent_bytes_per_second",
    "pull_rate": "pulled_messages_per_second",
    "disk_used_bytes": "disk_used_bytes",
    "connections": "connections_count",
    "pending": "pending_messages",
    "overdue": "overdue_messages",
    "delivered_per_second": "delivered_messages_per_second",
    "lateness_p99_seconds": "lateness_p99_seconds",
}
"""Field of the history in Redis (console.snapshot.history) -> how the names of its columns begin in `BrokerGroupNumbers`."""


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


class CaseClass(StrEnum):
    """Which forecasts are alike: by how many minutes of arrivals wait, and whether the lag fell in the last half hour."""

    BELOW_2_MINUTES = "below_2_minutes"
    BELOW_20_MINUTES = "below_20_minutes"
    BELOW_2_HOURS = "below_2_hours"
    FROM_2_HOURS = "from_2_hours"
    FALLING_BELOW_2_MINUTES = "falling_below_2_minutes"
    FALLING_BELOW_20_MINUTES = "falling_below_20_minutes"
    FALLING_BELOW_2_HOURS = "falling_below_2_hours"
    FALLING_FROM_2_HOURS = "falling_from_2_hours"
    ALL = "all"
    """All forecasts of a kind without classes."""
    NONE = "none"
    """Of a row that forecasts nothing."""


class DrainForecast(OfGroup, Forecast):
    """Time until a consumer group's lag is zero, from the end of the step. Null with another class than none: not within a day."""

    case_class = choice_field(
        CaseClass,
        CLASS_CHARS_MAX,
        "forecasts that are alike, by minutes of arrivals that wait and whether the lag falls; none: nothing to forecast",
    )
    lag_messages_last = whole_field("current lag")
    drain_seconds_low = number_field("lower bound")
    drain_seconds_mid = number_field("estimate")
    drain_seconds_high = number_field("upper bound")

    class Meta:
        constraints = one_row("drain", "subject", "group")
        indexes = by_time("drain", "group", alerts=models.Q(lag_messages_last__gt=0))


class DiskForecast(Forecast):
    """How long until a node's disk is full, from the step's end on."""

    broker_group = text_field(NODE_CHARS_MAX, "the broker group or delay group")
    node_id = text_field(NODE_CHARS_MAX, "the node")
    disk_used_bytes_last = whole_field("disk space used at the end of the step")
    disk_total_bytes_last = whole_field("size of the disk")
    growth_bytes_per_second_low = number_field("growth within the next day, taking retention into account: lower bound")
    growth_bytes_per_second_mid = number_field("the same: estimate")
    growth_bytes_per_second_high = number_field("the same: upper bound")
    full_seconds_low = number_field("time until the disk is full: lower bound")
    full_seconds_mid = number_field("the same: estimate")
    full_seconds_high = number_field("the same: upper bound")

    key = ("broker_group", "node_id")
    # The fastest growth fills a disk first.
    never: ClassVar[Mapping[str, str]] = {
        "full_seconds_low": "growth_bytes_per_second_high",
        "full_seconds_mid": "growth_bytes_per_second_mid",
        "full_seconds_high": "growth_bytes_per_second_low",
    }

    class Meta:
        constraints = one_row("disk", "broker_group", "node_id")
        indexes = by_time("disk")


class Metric(StrEnum):
    """What was compared; its unit is in its name."""

    SENT = "sent_messages_per_second"
    ACKED = "acked_messages_per_second"
    LAG = "lag_messages"
    TIME_LAG = "time_lag_seconds"
    END_TO_END_P99 = "end_to_end_p99_ms"
    FAILURES = "failures_messages"


class Anomaly(Summary):
    """A number against the same hour of earlier weeks, flagged where two hours in a row are outside of what they say.

    The row of a day is that of its hour with the score furthest from 0, a flagged one if there is one.
    """

    subject = subject_field()
    group = group_field("the consumer group; empty for values of the subject itself")
    metric = choice_field(Metric, 40, "the metric; its unit is part of its name")
    value = number_field("measured value")
    expected = number_field(
        "median of the same hour of the week in previous weeks; for young series also of previous days"
    )
    expected_low = number_field("lower limit: 1% of the last 4 weeks were further below their expected value")
    expected_high = number_field("upper limit: 1% of the last 4 weeks were further above their expected value")
    score = number_field(
        "distance from the expected value on a logarithmic scale, in half distances between the limits; negative: below"
    )
    about_messages = whole_field(
        "messages that it is about: by how many the value differs from the expected one; of ages and latencies, those that"
        " have them"
    )
    is_flagged = meaning("whether this hour and the previous one are beyond the same limit", models.BooleanField())

    key = ("subject", "group", "metric")
    steps = LONG_STEPS

    class Meta:
        constraints = one_row("anomalies", "subject", "group", "metric")
        indexes = by_time("anomalies", "group", alerts=models.Q(is_flagged=True))


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
    """How many forecasts of a class came due, and how many of them held; the same of anomaly flags."""

    scored = choice_field(
        Scored,
        SCORED_CHARS_MAX,
        "drain_forecasts and disk_forecasts: by their intervals; anomalies: values compared with earlier weeks;"
        " anomaly_flags: flags by the hour that followed",
    )
    case_class = choice_field(CaseClass, CLASS_CHARS_MAX, "forecasts that are alike (drain_forecasts); others: all")
    cases_count = whole_field(
        "forecasts that came due during the step; compared values; flags compared with the next hour"
    )
    held_count = whole_field(
        "forecasts within their interval; values not flagged; flags that persisted into the next hour"
    )
    below_count = whole_field("forecasts whose lower bound was missed; null: no forecasts")
    above_count = whole_field("forecasts whose upper bound was missed; null: no forecasts")
    width_ratio_median = number_field(
        "median width of the intervals that have both bounds: upper bound relative to the lower one (drain_forecasts), difference"
        " of the growths of a day relative to the disk (disk_forecasts)"
    )
    target_ratio = number_field("target share; null: no target")

    key = ("scored", "case_class")
    steps = LONG_STEPS

    class Meta:
        constraints = one_row("scores", "scored", "case_class")
        indexes = by_time("scores")


class TeamCapacity(Summary):
    """Messages and bytes of a team's subjects, by who owns them when the run is made."""

    team = text_field(TEAM_CHARS_MAX, "the team; empty for subjects without an owner")
    subjects_count = whole_field("number of subjects")
    sent_messages = whole_field("messages stored during the step")
    sent_bytes = whole_field("size of these messages in the message log")
    sent_messages_per_second_max = number_field("maximum over the minutes of the step")
    sent_messages_per_second_mean = number_field("mean over the measured time of the step")
    sent_bytes_per_second_max = number_field("maximum over the minutes of the step")
    sent_bytes_per_second_mean = number_field("mean over the measured time of the step")
    stored_messages_last = whole_field("stored messages at the end of the step")
    stored_bytes_last = whole_field("size of these messages, counting every copy")

    key = ("team",)
    steps = LONG_STEPS

    class Meta:
        constraints = one_row("capacity", "team")
        indexes = by_time("capacity")
