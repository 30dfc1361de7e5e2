"""How evenly the consumers of a group share its work."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F

from spark_analytics.transforms.frames import at_steps, consumer_name, is_in, original_subject, selected, start_of
from spark_analytics.transforms.outputs import CONSUMER_SHARES, GROUP_SKEW
from spark_analytics.transforms.windows import LONG_STEPS, Window, check_steps

_GROUP = ("step_ms", "at_ms", "subject", "group")


def group_skew(runs: DataFrame, *, window: Window, steps: Sequence[int] = LONG_STEPS) -> DataFrame:
    """How even a group's work was among its consumers by step: `outputs.GROUP_SKEW`.

    Of the consumers that were handed anything in the step (`consumers_count`), by what they acked in it (`acked_messages`; attempts
    in the retry subject count): `max_mean_ratio` is the busiest one's over the mean, `gini_ratio` the Gini coefficient: 0 for the
    same each, (n - 1) / n for one of n doing all. Both are null when nothing was acked. Without deliveries there is no row.

    Args:
        runs: RUNS of the window.
        window: whole steps, not beyond the watermark.
    """
    check_steps(window, steps)
    pulling = _by_consumer(runs, window, steps).where(F.col("pulled_messages") > 0)
    ranked = pulling.withColumn("rank", F.row_number().over(Over.partitionBy(*_GROUP).orderBy("acked_messages")))
    n, total = F.count("*"), F.sum("acked_messages")
    # With x ascending: G = sum((2 i - n - 1) x_i) / (n sum(x)).
    weighted = 2 * F.sum(F.col("rank") * F.col("acked_messages")) - (n + 1) * total
    found = ranked.groupBy(*_GROUP).agg(
        n.alias("consumers_count"),
        total.alias("acked_messages"),
        F.when(total > 0, F.max("acked_messages") * n / total).alias("max_mean_ratio"),
        F.when(total > 0, weighted / (n * total)).alias("gini_ratio"),
    )
    return selected(found, GROUP_SKEW)


def consumer_shares(runs: DataFrame, *, window: Window, steps: Sequence[int] = LONG_STEPS) -> DataFrame:
    """Each consumer's part of what its group acked on a subject by step: `outputs.CONSUMER_SHARES`.

    A row for each consumer that was handed or acked anything in the step; `share_ratio` is null when the group acked nothing. A
    consumer whose id is gone is named by its key, 16 hex digits.

    Args:
        runs: RUNS of the window.
        window: whole steps, not beyond the watermark.
    """
    check_steps(window, steps)
    total = F.sum("acked_messages").over(Over.partitionBy(*_GROUP))
    share = F.when(total > 0, F.col("acked_messages") / total)
    return selected(_by_consumer(runs, window, steps).withColumn("share_ratio", share), CONSUMER_SHARES)


def _by_consumer(runs: DataFrame, window: Window, steps: Sequence[int]) -> DataFrame:
    """What each consumer was handed and acked in each step; on retry subjects it is the same consumer."""
    named = runs.withColumn("subject", original_subject(F.col("subject")))
    keys = ("subject", "group", "consumer_key")

    def counted(frame: DataFrame, ms: str, count: str) -> DataFrame:
        shortest = start_of(F.col(ms), min(steps)).alias("shortest_ms")
        inside = frame.where(is_in(F.col(ms), window))
        return inside.select(*keys, "consumer_id", shortest, F.col("messages").alias(count))

    pulled = counted(named, "pulled_ms", "pulled_messages")
    acked = counted(named.where(F.col("ended_by") == "ack"), "ended_ms", "acked_messages")
    shortest = (
        pulled.unionByName(acked, allowMissingColumns=True)
        .groupBy(*keys, "shortest_ms")
        .agg(
            F.max("consumer_id").alias("consumer_id"),
            *(F.coalesce(F.sum(n), F.lit(0)).alias(n) for n in ("pulled_messages", "acked_messages")),
        )
    )
    # The id may be known in one step and gone in another.
    known = F.max("consumer_id").over(Over.partitionBy(*keys))
    return (
        at_steps(shortest.withColumn("consumer_id", consumer_name(known, F.col("consumer_key"))), steps, "shortest_ms")
        .groupBy(*_GROUP, "consumer_id")
        .agg(F.sum("pulled_messages").alias("pulled_messages"), F.sum("acked_messages").alias("acked_messages"))
    )
