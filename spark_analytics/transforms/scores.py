"""How forecasts and flags turned out."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_analytics.forecasts.conformal import INTERVAL_RATIO
from spark_analytics.transforms.frames import at_steps, is_in, selected
from spark_analytics.transforms.outputs import FORECAST_SCORES
from spark_analytics.transforms.windows import HOUR_MS, LONG_STEPS, Window, check_steps

ANOMALY, FLAG = "anomalies", "anomaly_flags"
ALL_CLASS = "all"
"""The class of what has no classes."""


def forecast_scores(
    cases: DataFrame, anomalies: DataFrame, *, window: Window, steps: Sequence[int] = LONG_STEPS
) -> DataFrame:
    """What came due in each step, and how much of it held: `outputs.FORECAST_SCORES`.

    A forecast held if the truth was in its interval; forecasts without an interval are left out. A compared value held if it was
    not flagged, a flag if the next hour was flagged in the same direction; flags of series whose next hour was not judged are left
    out. Nothing in a step: no row.

    Args:
        cases: the lake's `forecast_cases` of the window.
        anomalies: hours of `outputs.ANOMALIES` of the window and of the hour before it.
        window: whole steps, not beyond the watermark.
        steps: hour and day, or one of them.
    """
    check_steps(window, steps)
    known = cases.where(F.col("is_below").isNotNull()).withColumn("hour_ms", F.unix_millis("at"))
    forecasts = known.select(
        "hour_ms",
        "scored",
        "case_class",
        "is_below",
        "is_above",
        "width_ratio",
        (~F.col("is_below") & ~F.col("is_above")).alias("is_held"),
        F.lit(INTERVAL_RATIO).alias("target_ratio"),
    )
    judged = anomalies.where(F.col("step_ms") == HOUR_MS).withColumnRenamed("at_ms", "hour_ms")
    values = _without_interval(judged, ANOMALY, ~F.col("is_flagged"))
    key = ["subject", "group", "metric", "hour_ms"]
    is_low = F.col("score") < 0
    flagged = judged.where("is_flagged").select(
        *key[:3], (F.col("hour_ms") + HOUR_MS).alias("hour_ms"), is_low.alias("was_low")
    )
    again = judged.join(flagged, key)
    flags = _without_interval(again, FLAG, F.col("is_flagged") & (is_low == F.col("was_low")))
    frames = [forecasts, values, flags]
    every = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    found = (
        at_steps(every.where(is_in(F.col("hour_ms"), window)), steps, "hour_ms")
        .groupBy("step_ms", "at_ms", "scored", "case_class")
        .agg(
            F.count("*").alias("cases_count"),
            F.count_if("is_held").alias("held_count"),
            F.sum(F.col("is_below").cast("long")).alias("below_count"),
            F.sum(F.col("is_above").cast("long")).alias("above_count"),
            F.median("width_ratio").alias("width_ratio_median"),
            F.max("target_ratio").alias("target_ratio"),
        )
    )
    return selected(found, FORECAST_SCORES)


def _without_interval(judged: DataFrame, scored: str, is_held: Column) -> DataFrame:
    named = {"scored": F.lit(scored), "case_class": F.lit(ALL_CLASS), "is_held": is_held}
    return judged.withColumns(named).select("hour_ms", *named)
