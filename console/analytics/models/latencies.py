"""How long messages took."""

from enum import StrEnum
from typing import ClassVar

from django.db import models

from console.analytics.models.summary import Summary, by_time, group_field, one_row, subject_field

SKETCH_BYTES_MAX = 16 << 10


class LatencyKind(StrEnum):
    """Between which two moments."""

    END_TO_END = "end_to_end"
    """From storing a message to its ack."""
    HANDLING = "handling"
    """From handing it out, the first time, to its ack."""


class Latency(Summary):
    """Latencies of the messages that a consumer group acked on a subject. No messages, no row."""

    subject = subject_field()
    group = group_field()
    kind = models.CharField(max_length=20, choices=[(kind.value, kind.value) for kind in LatencyKind])
    messages = models.BigIntegerField()
    mean_ms = models.FloatField()
    p50_ms = models.FloatField()
    p90_ms = models.FloatField()
    p99_ms = models.FloatField()
    p999_ms = models.FloatField()
    max_ms = models.FloatField()
    sketch = models.BinaryField(max_length=SKETCH_BYTES_MAX)
    """What the percentiles of longer steps are merged from; the jobs' own format. Pages don't get it."""

    key = ("subject", "group", "kind")
    meanings: ClassVar[dict[str, str]] = {
        "subject": "the subject",
        "group": "the consumer group",
        "kind": "end_to_end: from storing to acknowledgement; handling: from the first delivery to acknowledgement",
        "messages": "messages acknowledged during the step",
        "mean_ms": "mean",
        "p50_ms": "50th percentile",
        "p90_ms": "90th percentile",
        "p99_ms": "99th percentile",
        "p999_ms": "99.9th percentile",
        "max_ms": "maximum",
        "sketch": "sketch from which percentiles of longer steps are merged",
    }

    class Meta:
        constraints = one_row("latencies", "subject", "group", "kind")
        indexes = by_time("latencies", "group")
