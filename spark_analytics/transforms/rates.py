"""How much was sent, pulled and acked."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_analytics.transforms.frames import at_steps, is_in, is_special, original_subject, selected, start_of
from spark_analytics.transforms.outputs import GROUP_RATES, SUBJECT_RATES
from spark_analytics.transforms.windows import MINUTE_MS, SECOND_MS, SHORT_STEPS, Window, check_steps

MINUTE_SECONDS = MINUTE_MS // SECOND_MS


def subject_rates(stored: DataFrame, *, window: Window, steps: Sequence[int] = SHORT_STEPS) -> DataFrame:
    """What producers sent to each subject by step: `outputs.SUBJECT_RATES`. Retry and dead-letter subjects are left out.

    `sent_messages` and `sent_bytes` (as stored) are counted by store time and over all broker groups; `_per_second_max` is that of
    the step's busiest minute, `_per_second_mean` over the whole step. Nothing sent in a step: no row.

    Args:
        stored: STORED_SECONDS; those outside of the window are left out.
        window: whole steps, not beyond the watermark.
    """
    check_steps(window, steps)
    minutes = sent_minutes(stored.where(~is_special(F.col("subject"))), "subject", window)
    of_step = at_steps(minutes, steps, "minute_ms").groupBy("step_ms", "at_ms", "subject")
    return selected(of_step.agg(*spread("sent_messages"), *spread("sent_bytes")), SUBJECT_RATES)


def group_rates(runs: DataFrame, *, window: Window, steps: Sequence[int] = SHORT_STEPS) -> DataFrame:
    """What each consumer group pulled and acked on each subject by step: `outputs.GROUP_RATES`.

    `pulled_messages` were handed out in the step (redeliveries left out), `acked_messages` were acked by their consumers in it
    (settlings by the broker left out); attempts in the group's retry subject count as messages of their own of the original
    subject. Rates are as in `subject_rates`. Neither pulled nor acked anything in a step: no row.

    Args:
        runs: RUNS of the window.
        window: whole steps, not beyond the watermark.
    """
    check_steps(window, steps)
    named = runs.withColumn("subject", original_subject(F.col("subject")))
    counts = ("pulled_messages", "acked_messages")
    pulled = _counted(named, "pulled_ms", window, "pulled_messages")
    acked = _counted(named.where(F.col("ended_by") == "ack"), "ended_ms", window, "acked_messages")
    minutes = (
        pulled.unionByName(acked, allowMissingColumns=True)
        .groupBy("subject", "group", "minute_ms")
        .agg(*(F.coalesce(F.sum(count), F.lit(0)).alias(count) for count in counts))
    )
    found = (
        at_steps(minutes, steps, "minute_ms")
        .groupBy("step_ms", "at_ms", "subject", "group")
        .agg(*(column for count in counts for column in spread(count)))
    )
    return selected(found, GROUP_RATES)


def sent_minutes(stored: DataFrame, key: str, window: Window) -> DataFrame:
    """What was stored in each minute of a window, by a column: key, minute_ms, sent_messages, sent_bytes."""
    at_ms = F.col("second") * SECOND_MS
    return (
        stored.where(is_in(at_ms, window))
        .groupBy(key, start_of(at_ms, MINUTE_MS).alias("minute_ms"))
        .agg(F.sum("messages").alias("sent_messages"), F.sum("bytes").alias("sent_bytes"))
    )


def spread(count: str) -> tuple[Column, Column, Column]:
    """Of minutes' counts: the step's count, and what it was a second in the busiest minute and over the step."""
    step_seconds = F.first("step_ms") / SECOND_MS
    what, unit = count.split("_")
    return (
        F.sum(count).alias(count),
        (F.max(count) / MINUTE_SECONDS).alias(f"{what}_{unit}_per_second_max"),
        (F.sum(count) / step_seconds).alias(f"{what}_{unit}_per_second_mean"),
    )


def _counted(runs: DataFrame, ms: str, window: Window, count: str) -> DataFrame:
    minute = start_of(F.col(ms), MINUTE_MS).alias("minute_ms")
    return runs.where(is_in(F.col(ms), window)).select("subject", "group", minute, F.col("messages").alias(count))
