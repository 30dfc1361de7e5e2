"""How much was sent, pulled and acked."""

from console.analytics.models.summary import (
    OfGroup,
    Summary,
    by_time,
    number_field,
    one_row,
    subject_field,
    whole_field,
)


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

    class Meta:
        constraints = one_row("group_rates", "subject", "group")
        indexes = by_time("group_rates", "group")
