"""Why messages were retried or became dead letters."""

from enum import StrEnum

from console.analytics.models.summary import (
    LONG_STEPS,
    Summary,
    by_time,
    choice_field,
    group_field,
    number_field,
    one_row,
    subject_field,
    text_field,
    whole_field,
)

CAUSE_CHARS_MAX = 120


class FailureKind(StrEnum):
    """What became of the message."""

    RETRY = "retry"
    DEAD_LETTER = "dead_letter"


class Failure(Summary):
    """Retries and dead letters of a consumer group on a subject, by cause."""

    subject = subject_field()
    group = group_field()
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
