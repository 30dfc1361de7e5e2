"""Why messages were retried or given up."""

from enum import StrEnum
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

CAUSE_CHARS_MAX = 120


class FailureKind(StrEnum):
    """What became of the message."""

    RETRY = "retry"
    DEAD_LETTER = "dead_letter"


class Failure(Summary):
    """Retries and dead letters of a consumer group on a subject, by cause."""

    subject = subject_field()
    group = group_field()
    kind = models.CharField(max_length=20, choices=[(kind.value, kind.value) for kind in FailureKind])
    cause = models.CharField(max_length=CAUSE_CHARS_MAX)
    messages = whole_field()
    attempts_mean = number_field()
    attempts_max = whole_field()

    key = ("subject", "group", "kind", "cause")
    steps = LONG_STEPS
    meanings: ClassVar[dict[str, str]] = {
        "subject": "the subject",
        "group": "the consumer group",
        "kind": "retry: another attempt; dead_letter: attempts exhausted",
        "cause": "a short label such as an exception's class or consumer_left; never a message's text",
        "messages": "number during the step",
        "attempts_mean": "mean number of attempts so far",
        "attempts_max": "maximum number of attempts so far",
    }

    class Meta:
        constraints = one_row("failures", "subject", "group", "kind", "cause")
        indexes = by_time("failures", "group")
