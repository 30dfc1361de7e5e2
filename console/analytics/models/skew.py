"""How evenly the consumers of a group share its work."""

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
from qmq.protocol.names import CONSUMER_ID_CHARS_MAX


class GroupSkew(Summary):
    """Skew inside a consumer group, by the messages its consumers acked."""

    subject = subject_field()
    group = group_field()
    consumers_count = whole_field()
    acked_messages = whole_field()
    max_mean_ratio = number_field()
    gini_ratio = number_field()

    key = ("subject", "group")
    steps = LONG_STEPS
    meanings: ClassVar[dict[str, str]] = {
        "subject": "the subject",
        "group": "the consumer group",
        "consumers_count": "consumers that pulled during the step",
        "acked_messages": "messages they acknowledged",
        "max_mean_ratio": "messages of the busiest consumer relative to the mean; 1 is even",
        "gini_ratio": "Gini coefficient of their messages; 0 is even, near 1 one consumer receives all",
    }

    class Meta:
        constraints = one_row("skew", "subject", "group")
        indexes = by_time("skew", "group")


class ConsumerShare(Summary):
    """One consumer's part in its group's work."""

    subject = subject_field()
    group = group_field()
    consumer_id = models.CharField(max_length=CONSUMER_ID_CHARS_MAX)
    acked_messages = whole_field()
    share_ratio = number_field()

    key = ("subject", "group", "consumer_id")
    steps = LONG_STEPS
    meanings: ClassVar[dict[str, str]] = {
        "subject": "the subject",
        "group": "the consumer group",
        "consumer_id": "the consumer",
        "acked_messages": "messages it acknowledged during the step",
        "share_ratio": "its share of the group's messages, 0 to 1",
    }

    class Meta:
        constraints = one_row("shares", "subject", "group", "consumer_id")
        indexes = by_time("shares", "group")
