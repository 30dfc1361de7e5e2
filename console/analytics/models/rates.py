"""How much was sent, pulled and acked."""

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


class SubjectRates(Summary):
    """What producers sent to a subject."""

    subject = subject_field()
    sent_messages = whole_field()
    sent_bytes = whole_field()
    sent_messages_per_second_max = number_field()
    sent_messages_per_second_mean = number_field()
    sent_bytes_per_second_max = number_field()
    sent_bytes_per_second_mean = number_field()

    key = ("subject",)
    meanings: ClassVar[dict[str, str]] = {
        "subject": "the subject",
        "sent_messages": "messages stored in the step, retries left out",
        "sent_bytes": "their size in the message log",
        "sent_messages_per_second_max": "of the step's busiest minute",
        "sent_messages_per_second_mean": "over the step's time that was measured",
        "sent_bytes_per_second_max": "of the step's busiest minute",
        "sent_bytes_per_second_mean": "over the step's time that was measured",
    }

    class Meta:
        constraints = one_row("subject_rates", "subject")
        indexes = by_time("subject_rates")


class GroupRates(Summary):
    """What a consumer group pulled and acked on a subject."""

    subject = subject_field()
    group = group_field()
    pulled_messages = whole_field()
    acked_messages = whole_field()
    pulled_messages_per_second_max = number_field()
    pulled_messages_per_second_mean = number_field()
    acked_messages_per_second_max = number_field()
    acked_messages_per_second_mean = number_field()

    key = ("subject", "group")
    meanings: ClassVar[dict[str, str]] = {
        "subject": "the subject",
        "group": "the consumer group",
        "pulled_messages": "messages handed out in the step, redeliveries left out",
        "acked_messages": "messages acked in the step",
        "pulled_messages_per_second_max": "of the step's busiest minute",
        "pulled_messages_per_second_mean": "over the step's time that was measured",
        "acked_messages_per_second_max": "of the step's busiest minute",
        "acked_messages_per_second_mean": "over the step's time that was measured",
    }

    class Meta:
        constraints = one_row("group_rates", "subject", "group")
        indexes = by_time("group_rates", "group")
