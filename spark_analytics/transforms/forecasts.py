"""Forecasts of drain times and full disks, each with an interval.

A speed is estimated with its standard error; the early and the late case are the ends of the interval that holds INTERVAL_RATIO of
cases by Student's t. What is never reached at a speed of 0 or less is null, and `outlook` says which of the cases that is:
*expected* (all three reach it), *possible* (the early one does, the late one does not), *never* (none), *unknown* (too little was
measured).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as SparkWindow
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from spark_analytics.transforms.frames import is_in, original_subject, selected, start_of
from spark_analytics.transforms.outputs import DISK_FORECASTS, DRAIN_FORECASTS
from spark_analytics.transforms.windows import DAY_MS, HOUR_MS, LONG_STEPS, MINUTE_MS, SECOND_MS, Window, check_steps

INTERVAL_RATIO = 0.8
DRAIN_METHOD = "mean of the last hour's minutes"
DRAIN_MINUTES_MIN = 10
"""Minutes, each with one before it in the same hour, below which nothing is said of a group's speed."""
DISK_METHOD = "least squares over 24 hours"
DISK_LOOKBACK_MS = DAY_MS
DISK_SAMPLES_MIN = 3
DISK_SPAN_MS_MIN = 600_000
"""From the first sample to the last, below which nothing is said of growth."""

EXPECTED, POSSIBLE, NEVER, UNKNOWN = "expected", "possible", "never", "unknown"

STUDENT_T = (
    (1, 3.0777), (2, 1.8856), (3, 1.6377), (4, 1.5332), (5, 1.4759), (6, 1.4398), (7, 1.4149), (8, 1.3968), (9, 1.3830),
    (10, 1.3722), (11, 1.3634), (12, 1.3562), (13, 1.3502), (14, 1.3450), (15, 1.3406), (16, 1.3368), (17, 1.3334), (18, 1.3304),
    (19, 1.3277), (20, 1.3253), (25, 1.3163), (30, 1.3104), (40, 1.3031), (58, 1.2963), (120, 1.2886), (1000, 1.2824),
)  # fmt: skip
"""Degrees of freedom, and the t that a Student variable is below in 90 % of cases: between -t and t lie 80 %. For degrees in
between the line before counts, which is the wider interval."""


def student_t(degrees: int) -> float:
    """Half the width of the interval that holds INTERVAL_RATIO of cases, in standard errors."""
    return next(t for least, t in reversed(STUDENT_T) if degrees >= least)


def drain_forecasts(
    lag: DataFrame, progress: DataFrame, *, window: Window, steps: Sequence[int] = LONG_STEPS
) -> DataFrame:
    """Time until a group's lag is zero, from each step's end, in seconds: `outputs.DRAIN_FORECASTS`.

    Lag at the step's end, over the speed at which it falls: the mean from minute to minute of the step's last hour, with the
    standard error of that mean. So whatever makes it fall counts: acks, what a filter leaves out, retention. Minutes in which the
    group was set elsewhere do not; fewer than DRAIN_MINUTES_MIN are too few. No lag: 0.

    Args:
        lag: rows of `lag.lag` with minutes, and with the steps requested.
        progress: entries of the window.
        window: whole steps, not beyond the watermark.
        steps: of an hour and longer.
    """
    check_steps(window, steps)
    if min(steps) < HOUR_MS:
        raise ValueError("a forecast of how lag drains rests on an hour; steps have to be as long")
    is_start = (F.col("kind") == "start") & is_in(F.unix_millis("at"), window)
    set_elsewhere = (
        progress.where(is_start)
        .select(
            original_subject(F.col("subject")).alias("subject"),
            "group",
            start_of(F.unix_millis("at"), MINUTE_MS).alias("at_ms"),
        )
        .distinct()
    )
    hour = start_of(F.col("at_ms"), HOUR_MS).alias("hour_ms")
    by_time = SparkWindow.partitionBy("subject", "group", "hour_ms").orderBy("at_ms")
    net = F.lag("lag_messages_last").over(by_time) - F.col("lag_messages_last")
    minutes = (
        lag.where((F.col("step_ms") == MINUTE_MS) & is_in(F.col("at_ms"), window))
        .select("subject", "group", "at_ms", "lag_messages_last", hour)
        .withColumn("net", net)
        .where(F.col("net").isNotNull())
        .join(set_elsewhere, ["subject", "group", "at_ms"], "left_anti")
        .groupBy("subject", "group", "hour_ms")
        .agg(F.count("*").alias("n"), F.sum("net").alias("total"), F.sum(F.col("net") * F.col("net")).alias("squares"))
    )
    ends = lag.where(F.col("step_ms").isin(list(steps)) & is_in(F.col("at_ms"), window)).select(
        "step_ms",
        "at_ms",
        "subject",
        "group",
        "lag_messages_last",
        (F.col("at_ms") + F.col("step_ms") - HOUR_MS).alias("hour_ms"),
    )
    n = F.col("n")
    mean = F.col("total") / n
    apart = F.greatest(F.lit(0.0), F.col("squares") - F.col("total") * mean)
    error = F.sqrt(apart / F.when(n > 1, n - 1) / n)
    t = F.coalesce(*(F.when(n - 1 >= least, F.lit(value)) for least, value in reversed(STUDENT_T)))
    is_known = n >= DRAIN_MINUTES_MIN
    minute_seconds = MINUTE_MS / SECOND_MS
    speeds = {
        "low": (mean + t * error) / minute_seconds,
        "mid": mean / minute_seconds,
        "high": (mean - t * error) / minute_seconds,
    }
    left = F.col("lag_messages_last")
    found = ends.join(minutes, ["subject", "group", "hour_ms"], "left")
    for case, speed in speeds.items():
        seconds = F.when(left == 0, 0.0).when(is_known & (speed > 0), left / speed)
        found = found.withColumn(f"drain_seconds_{case}", seconds)
    return selected(_with_outlook(found, "drain_seconds", is_known | (left == 0), DRAIN_METHOD), DRAIN_FORECASTS)


def _with_outlook(frame: DataFrame, name: str, is_known: Column, method: str) -> DataFrame:
    low, high = F.col(f"{name}_low"), F.col(f"{name}_high")
    outlook = (
        F.when(~F.coalesce(is_known, F.lit(False)), UNKNOWN)
        .when(high.isNotNull(), EXPECTED)
        .when(low.isNotNull(), POSSIBLE)
        .otherwise(NEVER)
    )
    return frame.select(
        "*", outlook.alias("outlook"), F.lit(method).alias("method"), F.lit(INTERVAL_RATIO).alias("interval_ratio")
    )


def disk_forecasts(nodes: DataFrame, *, window: Window, steps: Sequence[int] = LONG_STEPS) -> DataFrame:
    """How long until each node's disk is full, from each step's end on, in seconds: `outputs.DISK_FORECASTS`.

    What is free at the step's last sample, over growth: the slope of a straight line through the samples of the 24 hours before the
    step's end, with its standard error. Retention's doing is in it. Fewer than DISK_SAMPLES_MIN samples, or less than
    DISK_SPAN_MS_MIN between them: unknown, and growth is null. No sample in a step: no row.

    Args:
        nodes: samples (the input table) of the window and of DISK_LOOKBACK_MS before it; those without disk figures are left out.
        window: whole steps, not beyond the watermark.
    """
    check_steps(window, steps)
    at_ms = F.unix_millis("measured_at")
    samples = nodes.where(
        F.col("disk_used_bytes").isNotNull()
        & F.col("disk_total_bytes").isNotNull()
        & (at_ms >= window.from_ms - DISK_LOOKBACK_MS)
        & (at_ms < window.to_ms)
    ).select("broker_group", "node_id", at_ms.alias("sample_ms"), "disk_used_bytes", "disk_total_bytes")

    def of_node(table: pa.Table) -> pa.Table:
        return _of_node(window, tuple(steps), table)

    found = samples.groupBy("broker_group", "node_id").applyInArrow(of_node, DISK_FORECASTS)
    return selected(found, DISK_FORECASTS)


def growth(at_seconds: "np.ndarray[Any, Any]", used_bytes: "np.ndarray[Any, Any]") -> tuple[float, float]:
    """The slope of the straight line through samples by least squares, and its standard error, in bytes a second."""
    x, y = at_seconds - at_seconds.mean(), used_bytes - used_bytes.mean()
    spread = float(x @ x)
    slope = float(x @ y) / spread
    rest = y - slope * x
    return slope, float(np.sqrt(rest @ rest / (len(x) - 2) / spread))


def _of_node(window: Window, steps: tuple[int, ...], table: pa.Table) -> pa.Table:
    table = table.sort_by("sample_ms")
    at = table.column("sample_ms").to_numpy()
    used = table.column("disk_used_bytes").to_numpy().astype(np.float64)
    rows = []
    for step_ms in steps:
        for at_ms in range(window.from_ms, window.to_ms, step_ms):
            begin, end = np.searchsorted(at, (at_ms + step_ms - DISK_LOOKBACK_MS, at_ms + step_ms))
            if end == 0 or at[end - 1] < at_ms:
                continue
            last = table.slice(end - 1, 1).to_pylist()[0]
            row = {"step_ms": step_ms, "at_ms": at_ms, "method": DISK_METHOD, "interval_ratio": INTERVAL_RATIO}
            row |= {name: last[name] for name in ("broker_group", "node_id")}
            row |= {f"{name}_last": last[name] for name in ("disk_used_bytes", "disk_total_bytes")}
            rows.append(row | _disk_outlook(at[begin:end], used[begin:end], last["disk_total_bytes"]))
    return pa.Table.from_pylist(rows, schema=to_arrow_schema(DISK_FORECASTS))


def _disk_outlook(at: "np.ndarray[Any, Any]", used: "np.ndarray[Any, Any]", total: int) -> dict[str, Any]:
    if len(at) < DISK_SAMPLES_MIN or at[-1] - at[0] < DISK_SPAN_MS_MIN:
        return {"outlook": UNKNOWN}
    slope, error = growth((at - at[-1]) / SECOND_MS, used)
    half, free = student_t(len(at) - 2) * error, max(0.0, total - float(used[-1]))
    speeds = {"low": slope + half, "mid": slope, "high": slope - half}
    times = {
        f"full_seconds_{case}": 0.0 if free == 0 else free / speed if speed > 0 else None
        for case, speed in speeds.items()
    }
    low, high = times["full_seconds_low"], times["full_seconds_high"]
    outlook = EXPECTED if high is not None else POSSIBLE if low is not None else NEVER
    return {"outlook": outlook, "growth_bytes_per_second": slope, **times}
