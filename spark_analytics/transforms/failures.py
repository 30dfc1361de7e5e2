"""Why messages were retried or became dead letters."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.transforms.frames import at_steps, is_in, selected
from spark_analytics.transforms.outputs import FAILURES
from spark_analytics.transforms.windows import LONG_STEPS, Window, check_steps

CAUSE_CHARS_MAX = 120
RETRY, DEAD_LETTER = "retry", "dead_letter"


def failures(
    retries: DataFrame, dead_letters: DataFrame, *, window: Window, steps: Sequence[int] = LONG_STEPS
) -> DataFrame:
    """Retries and dead letters by original subject, group, kind and cause by step: `outputs.FAILURES`.

    Counted when they were stored in the retry or dead-letter subject, over all broker groups. `attempts_mean` and
    `attempts_max` are of the attempts that had failed by then: one less than the attempt of a retry, and the attempt of a dead
    letter, which is its last one. Causes are cut to CAUSE_CHARS_MAX characters. None in a step: no row.

    Args:
        retries: the input table; withheld rows, which have no time, are left out.
        dead_letters: the input table, likewise.
        window: whole steps, not beyond the watermark.
    """
    check_steps(window, steps)
    both = _of_kind(retries, RETRY).unionByName(_of_kind(dead_letters, DEAD_LETTER))
    found = (
        at_steps(both.where(is_in(F.col("stored_ms"), window)), steps, "stored_ms")
        .groupBy("step_ms", "at_ms", "subject", "group", "kind", "cause")
        .agg(
            F.count("*").alias("messages"),
            F.avg("attempts").alias("attempts_mean"),
            F.max("attempts").alias("attempts_max"),
        )
    )
    return selected(found, FAILURES)


def _of_kind(frame: DataFrame, kind: str) -> DataFrame:
    return frame.select(
        "subject",
        "group",
        F.lit(kind).alias("kind"),
        F.substring("cause", 1, CAUSE_CHARS_MAX).alias("cause"),
        F.unix_millis("stored_at").alias("stored_ms"),
        F.greatest(F.col("attempt").cast("long") - (0 if kind == DEAD_LETTER else 1), F.lit(0).cast("long")).alias(
            "attempts"
        ),
    )
