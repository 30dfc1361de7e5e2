"""Why messages were retried or became dead letters."""

from enum import StrEnum

from console.analytics.models.summary import (
    LONG_STEPS,
    OfGroup,
    by_time,
    choice_field,
    number_field,
    one_row,
    text_field,
    whole_field,
)

CAUSE_CHARS_MAX = 120


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
