"""How evenly the consumers of a group share its work."""

from console.analytics.models.summary import (
    LONG_STEPS,
    OfGroup,
    by_time,
    number_field,
    one_row,
    text_field,
    whole_field,
)
from qmq.protocol.names import CONSUMER_ID_CHARS_MAX


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
