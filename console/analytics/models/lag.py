"""Backlog and lag, as qmq/lag.py defines them."""

from console.analytics.models.summary import OfGroup, by_time, number_field, one_row, whole_field


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

    class Meta:
        constraints = one_row("lag", "subject", "group")
        indexes = by_time("lag", "group")
