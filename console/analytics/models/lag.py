"""Backlog and lag, as qmq/lag.py defines them."""

from typing import ClassVar

from console.analytics.models.summary import (
    Summary,
    by_time,
    group_field,
    number_field,
    one_row,
    subject_field,
    whole_field,
)


class Lag(Summary):
    """Backlog, messages in flight, lag and time lag of a consumer group on a subject."""

    subject = subject_field()
    group = group_field()
    backlog_messages_max = whole_field()
    backlog_messages_mean = number_field()
    backlog_messages_last = whole_field()
    in_flight_messages_max = whole_field()
    in_flight_messages_mean = number_field()
    in_flight_messages_last = whole_field()
    lag_messages_min = whole_field()
    lag_messages_max = whole_field()
    lag_messages_mean = number_field()
    lag_messages_last = whole_field()
    time_lag_seconds_max = number_field()
    time_lag_seconds_mean = number_field()
    time_lag_seconds_last = number_field()

    key = ("subject", "group")
    meanings: ClassVar[dict[str, str]] = {
        "subject": "the subject",
        "group": "the consumer group",
        "backlog_messages_max": "stored and not yet pulled by the group, at most",
        "backlog_messages_mean": "the same, over the step's time",
        "backlog_messages_last": "the same, at the step's end",
        "in_flight_messages_max": "pulled and not acked, at most",
        "in_flight_messages_mean": "the same, over the step's time",
        "in_flight_messages_last": "the same, at the step's end",
        "lag_messages_min": "backlog and in flight together, at least",
        "lag_messages_max": "the same, at most",
        "lag_messages_mean": "the same, over the step's time",
        "lag_messages_last": "the same, at the step's end",
        "time_lag_seconds_max": "since the oldest message not acked was stored, at most; 0 when all are acked",
        "time_lag_seconds_mean": "the same, over the step's time",
        "time_lag_seconds_last": "the same, at the step's end",
    }

    class Meta:
        constraints = one_row("lag", "subject", "group")
        indexes = by_time("lag", "group")
