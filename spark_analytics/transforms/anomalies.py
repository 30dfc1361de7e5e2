"""What differs from the same hour of earlier days."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Over
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from spark_analytics.transforms.frames import is_in, selected
from spark_analytics.transforms.latency import END_TO_END
from spark_analytics.transforms.outputs import ANOMALIES
from spark_analytics.transforms.windows import DAY_MS, LONG_STEPS, Window, check_steps

DAYS_MAX = 28
"""Earlier days that are compared with, at most."""
DAYS_MIN = 3
"""Fewer say nothing: no row."""
MAD_TO_SIGMA = 1.4826
"""What the median absolute deviation of a normal variable has to be multiplied with for its standard deviation."""
FLAGGED_BEYOND = 4.0
"""Scores further from 0 are flagged."""
FLOOR_RATIO = 0.1
"""Minimum deviation as a part of the median, so that days with almost equal values do not flag minor changes."""
LOOKBACK_MS = DAYS_MAX * DAY_MS

SENT, ACKED = "sent_messages_per_second", "acked_messages_per_second"
LAG, TIME_LAG = "lag_messages", "time_lag_seconds"
P99, FAILURES = "end_to_end_p99_ms", "failures_messages"
FLOORS = {SENT: 0.1, ACKED: 0.1, LAG: 10.0, TIME_LAG: 5.0, P99: 10.0, FAILURES: 1.0}
"""Metric -> the least deviation it is judged with, in its unit."""
COUNTED = (SENT, ACKED, FAILURES)
"""Metrics of events: where there is no row, there were none."""

VALUES = StructType(
    [
        StructField("step_ms", LongType(), False),
        StructField("at_ms", LongType(), False),
        StructField("subject", StringType(), False),
        StructField("group", StringType(), False),
        StructField("metric", StringType(), False),
        StructField("value", DoubleType(), False),
    ]
)
"""What a metric was in a step; an empty group is the subject alone."""


def metric_values(
    lag: DataFrame, subject_rates: DataFrame, group_rates: DataFrame, latencies: DataFrame, failures: DataFrame
) -> DataFrame:
    """Rows of summary tables as VALUES: means of rates (messages/s) and of lag (messages), the greatest time lag (s), the 99th
    percentile of end-to-end latency (ms), retries and dead letters of all causes together (messages)."""
    end_to_end = latencies.where(F.col("kind") == END_TO_END)
    failed = failures.groupBy("step_ms", "at_ms", "subject", "group").agg(F.sum("messages").alias("failed"))
    frames = [
        _values(subject_rates.withColumn("group", F.lit("")), SENT, "sent_messages_per_second_mean"),
        _values(group_rates, ACKED, "acked_messages_per_second_mean"),
        _values(lag, LAG, "lag_messages_mean"),
        _values(lag, TIME_LAG, "time_lag_seconds_max"),
        _values(end_to_end, P99, "p99_ms"),
        _values(failed, FAILURES, "failed"),
    ]
    return selected(reduce(DataFrame.unionByName, frames), VALUES)


def _values(frame: DataFrame, metric: str, column: str) -> DataFrame:
    value = F.col(column).cast("double")
    found = frame.select("step_ms", "at_ms", "subject", "group", F.lit(metric).alias("metric"), value.alias("value"))
    return found.where(F.col("value").isNotNull())


def anomalies(values: DataFrame, *, window: Window, steps: Sequence[int] = LONG_STEPS) -> DataFrame:
    """Each metric of the window's steps against the same time of earlier days: `outputs.ANOMALIES`.

    Compared with are the steps that began whole days earlier, up to DAYS_MAX; fewer than DAYS_MIN of them, no row. `expected`
    is their median, the deviation 1.4826 times their median absolute deviation, but at least FLOOR_RATIO of the median and the
    metric's floor. `score` is the distance from the median in deviations, with its sign; beyond FLAGGED_BEYOND it is flagged,
    and `expected_low` (at least 0) and `expected_high` are where that begins. A metric of events that has no value in a step
    counts as 0 from its first value on: that nothing came any more is found. The first value is that of LOOKBACK_MS before the
    day (from the window's time of day on) and of the day itself, so days give the same alone and together.

    Args:
        values: VALUES of the window and of LOOKBACK_MS before it.
        window: whole steps, not beyond the watermark.
    """
    check_steps(window, steps)
    key = ("step_ms", "subject", "group", "metric")
    time_of_day = F.pmod(F.col("at_ms") - window.from_ms, F.lit(DAY_MS))
    wanted = values.where(
        F.col("step_ms").isin(list(steps))
        & (F.col("at_ms") >= window.from_ms - LOOKBACK_MS)
        & (F.col("at_ms") < window.to_ms)
        & (time_of_day < window.to_ms - window.from_ms)
    )
    counted = wanted.where(F.col("metric").isin(list(COUNTED)))
    moments = F.sequence(F.min("at_ms"), window.to_ms - F.col("step_ms"), F.col("step_ms"))
    # From its first value of all, not only of those at the window's times of day.
    first = values.where(F.col("metric").isin(list(COUNTED)) & F.col("step_ms").isin(list(steps)))
    day = F.col("at_ms") - time_of_day
    every = (
        first.where((F.col("at_ms") >= window.from_ms - LOOKBACK_MS) & (F.col("at_ms") < window.to_ms))
        .groupBy(*key, day.alias("day_ms"))
        .agg(F.min("at_ms").alias("at_ms"))
        .groupBy(*key)
        .agg(moments.alias("moments"), F.sort_array(F.collect_list("at_ms")).alias("firsts"))
        .select(*key, "firsts", F.explode("moments").alias("at_ms"))
        .where(time_of_day < window.to_ms - window.from_ms)
    )
    # What is before the window is compared with only: of which day's first value it is does not matter.
    within = F.filter(
        "firsts", lambda at_ms: (at_ms >= F.greatest(day, F.lit(window.from_ms)) - LOOKBACK_MS) & (at_ms < day + DAY_MS)
    )
    filled = every.join(counted, [*key, "at_ms"], "left").select(
        *key, "at_ms", F.coalesce("value", F.lit(0.0)).alias("value"), F.array_min(within).alias("first_ms")
    )
    full = (
        wanted.where(~F.col("metric").isin(list(COUNTED)))
        .withColumn("first_ms", F.lit(0).cast("long"))
        .unionByName(filled)
    )
    same_time = (
        Over.partitionBy(*key, F.pmod(F.col("at_ms"), F.lit(DAY_MS)))
        .orderBy("at_ms")
        .rangeBetween(-LOOKBACK_MS, -DAY_MS)
    )
    # In the order of days, and of events every day: as many as there are since the first value are the last ones.
    since = F.least(F.size("before"), F.floor((F.col("at_ms") - F.col("first_ms")) / DAY_MS).cast("int"))
    compared = (
        full.withColumn("before", F.collect_list("value").over(same_time))
        .where(is_in(F.col("at_ms"), window) & (F.col("at_ms") >= F.col("first_ms")))
        .withColumn("earlier", F.sort_array(F.slice("before", F.size("before") - since + 1, since)))
        .where(F.size("earlier") >= DAYS_MIN)
        .withColumn("expected", _median("earlier"))
        .withColumn("apart", F.sort_array(F.transform("earlier", lambda value: F.abs(value - F.col("expected")))))
    )
    floor = F.coalesce(*(F.when(F.col("metric") == metric, F.lit(least)) for metric, least in FLOORS.items()))
    deviation = F.greatest(MAD_TO_SIGMA * _median("apart"), FLOOR_RATIO * F.abs("expected"), floor)
    found = (
        compared.withColumn("deviation", deviation)
        .withColumn("score", (F.col("value") - F.col("expected")) / F.col("deviation"))
        .withColumn("reach", FLAGGED_BEYOND * F.col("deviation"))
        .withColumn("expected_low", F.greatest(F.lit(0.0), F.col("expected") - F.col("reach")))
        .withColumn("expected_high", F.col("expected") + F.col("reach"))
        .withColumn("compared_days_count", F.size("earlier"))
        .withColumn("is_flagged", F.abs("score") > FLAGGED_BEYOND)
    )
    return selected(found, ANOMALIES)


def _median(array: str) -> Column:
    """The middle of an ascending array, or the mean of the two in the middle."""
    n = F.size(array)
    low, high = (
        F.element_at(array, F.floor((n + 1) / 2).cast("int")),
        F.element_at(array, F.floor(n / 2 + 1).cast("int")),
    )
    return (low + high) / 2
