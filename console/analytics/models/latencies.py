"""How long messages took."""

from enum import StrEnum

from django.db import models

from console.analytics.models.summary import OfGroup, by_time, choice_field, meaning, one_row


class LatencyKind(StrEnum):
    """Between which two moments."""

    END_TO_END = "end_to_end"
    """From storing a message to its ack."""
    HANDLING = "handling"
    """From handing it out, the first time, to its ack."""


class Latency(OfGroup):
    """Latencies of the messages that a consumer group acked on a subject. No messages, no row."""

    kind = choice_field(
        LatencyKind,
        20,
        "end_to_end: from storing to acknowledgement; handling: from the first delivery to acknowledgement",
    )
    messages = meaning("messages acknowledged during the step", models.BigIntegerField())
    mean_ms = meaning("mean", models.FloatField())
    p50_ms = meaning("50th percentile", models.FloatField())
    p90_ms = meaning("90th percentile", models.FloatField())
    p99_ms = meaning("99th percentile", models.FloatField())
    p999_ms = meaning("99.9th percentile", models.FloatField())
    max_ms = meaning("maximum", models.FloatField())

    key = ("subject", "group", "kind")

    class Meta:
        constraints = one_row("latencies", "subject", "group", "kind")
        indexes = by_time("latencies", "group")
