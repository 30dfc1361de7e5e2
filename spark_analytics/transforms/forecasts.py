"""What forecasts of drain times rest on, the minutes of groups, points at the ends of hours and when lag was drained, and what of
them is published."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    ByteType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from spark_analytics.forecasts import drain
from spark_analytics.forecasts.conformal import EXPECTED, INTERVAL_RATIO, UNKNOWN, Longs
from spark_analytics.transforms.frames import bucket, bucket_count, is_in, longs, original_subject, selected, start_of
from spark_analytics.transforms.outputs import DRAIN_FORECASTS
from spark_analytics.transforms.runs import codes_of
from spark_analytics.transforms.windows import DAY_MS, HOUR_MS, MINUTE_MS, Window, check_steps

LOOKBACK_MS = drain.DAYS_MAX * DAY_MS
"""How long before a forecast the minutes begin that it rests on."""
SERIES_AT_ONCE = 200
"""Groups that are computed together: some 400 KB each."""
ROWS_PER_HOUR = 10
"""An hour of a group counts as that many rows of other tables when work is split: it has 60 minutes."""
NO_CLASS = "none"
"""The class of rows that forecast nothing: no lag, or too little known for a point."""
_SERIES = ("subject", "group")

GROUP_MINUTES = StructType(
    [
        StructField("hour_ms", LongType(), False),
        StructField("subject", StringType(), False),
        StructField("group", StringType(), False),
        StructField("minutes", ArrayType(ByteType()), False),
        StructField("arrived_messages", ArrayType(LongType()), False),
        StructField("lag_messages", ArrayType(LongType()), False),
        StructField("was_reset", ArrayType(BooleanType()), False),
    ]
)
"""An hour of a group in which it had lag or messages arrived; arrays of one length. `minutes`: those of the hour in which the group
existed, ascending; what arrived in each, the lag at its end (null: not known), and whether the group was set elsewhere in it."""

MADE = StructType(
    [
        StructField("made_ms", LongType(), False),
        StructField("subject", StringType(), False),
        StructField("group", StringType(), False),
        StructField("is_new", BooleanType(), False),
        StructField("class_number", ByteType(), True),
        StructField("minutes", DoubleType(), True),
    ]
)
"""Of a group that had lag at `made_ms`, an hour's end: if it is new, the point of the forecast with its class, else in how many
minutes the lag was drained (infinite: not within a day). Null: not known."""


def group_minutes(lag: DataFrame, subject_rates: DataFrame, progress: DataFrame, *, window: Window) -> DataFrame:
    """The hours of groups in which something was to do: GROUP_MINUTES.

    Args:
        lag: rows of `outputs.LAG` with minutes and hours.
        subject_rates: rows of `outputs.SUBJECT_RATES` with minutes and hours.
        progress: entries of the window.
        window: whole hours, not beyond the watermark.
    """
    check_steps(window, (HOUR_MS,))
    at_ms, hour = F.col("at_ms"), start_of(F.col("at_ms"), HOUR_MS).alias("hour_ms")

    def at_step(frame: DataFrame, step_ms: int, *columns: Column) -> DataFrame:
        return frame.where((F.col("step_ms") == step_ms) & is_in(at_ms, window)).select("subject", *columns)

    of_subject = at_step(subject_rates, HOUR_MS, hour).withColumn("is_sent", F.lit(True))
    hours = at_step(lag, HOUR_MS, F.col("group"), hour, F.col("lag_messages_max")).join(
        of_subject, ["subject", "hour_ms"], "left"
    )
    is_idle = (F.col("lag_messages_max") == 0) & F.col("is_sent").isNull()
    busy = hours.where(~F.coalesce(is_idle, F.lit(False))).select("subject", "group", "hour_ms")
    arrived = at_step(subject_rates, MINUTE_MS, at_ms, F.col("sent_messages"))
    is_start = (F.col("kind") == "start") & is_in(F.unix_millis("at"), window)
    reset = (
        progress.where(is_start)
        .select(
            original_subject(F.col("subject")).alias("subject"),
            "group",
            start_of(F.unix_millis("at"), MINUTE_MS).alias("at_ms"),
        )
        .distinct()
        .withColumn("reset", F.lit(True))
    )
    minute = ((at_ms - F.col("hour_ms")) / MINUTE_MS).cast("byte").alias("minute")
    never = F.lit(False)
    of_minute = F.struct(
        minute,
        F.coalesce("sent_messages", F.lit(0)).cast("long").alias("arrived"),
        F.col("lag_messages_last").cast("long").alias("lag"),
        F.coalesce("reset", never).alias("reset"),
    )
    found = (
        at_step(lag, MINUTE_MS, F.col("group"), at_ms, hour, F.col("lag_messages_last"))
        .join(busy, ["subject", "group", "hour_ms"], "left_semi")
        .join(arrived, ["subject", "at_ms"], "left")
        .join(reset, ["subject", "group", "at_ms"], "left")
        .groupBy("hour_ms", *_SERIES)
        .agg(F.sort_array(F.collect_list(of_minute)).alias("each"))
    )
    names = {"minutes": "minute", "arrived_messages": "arrived", "lag_messages": "lag", "was_reset": "reset"}
    columns = [F.col(f"each.{field}").alias(name) for name, field in names.items()]
    return selected(found.select("hour_ms", *_SERIES, *columns), GROUP_MINUTES)


def points_and_truths(minutes: DataFrame, *, window: Window, rows: int, cores: int) -> DataFrame:
    """The points of forecasts at the ends of a window's hours, and what became of the lag of those a day earlier: MADE.

    `forecasts.drain` says what a point rests on.

    Args:
        minutes: GROUP_MINUTES from LOOKBACK_MS before the end of the first hour to the window's end, of the groups in question.
        window: whole hours, not beyond the watermark.
        rows: about how many these are.
        cores: of the whole session.
    """
    check_steps(window, (HOUR_MS,))
    buckets = bucket_count(rows * ROWS_PER_HOUR, cores)

    def of_bucket(table: pa.Table) -> pa.Table:
        return _of_bucket(table, window)

    placed = minutes.withColumn("bucket", bucket(buckets, *_SERIES))
    return selected(placed.groupBy("bucket").applyInArrow(of_bucket, MADE), MADE)


def _of_bucket(table: pa.Table, window: Window) -> pa.Table:
    begin_ms = window.from_ms + HOUR_MS - LOOKBACK_MS
    codes = codes_of(table, _SERIES)
    order = np.lexsort((longs(table, "hour_ms"), codes))
    begins = np.append(np.flatnonzero(np.append(True, np.diff(codes[order]) != 0)), len(order))
    schema = to_arrow_schema(MADE)
    found = [schema.empty_table()]
    for at in range(0, len(begins) - 1, SERIES_AT_ONCE):
        last = min(at + SERIES_AT_ONCE, len(begins) - 1)
        part = table.take(pa.array(order[begins[at] : begins[last]]))
        groups = np.repeat(np.arange(last - at), np.diff(begins[at : last + 1]))
        series = part.take(pa.array(begins[at:last] - begins[at])).select(_SERIES)
        history = history_of(part, groups, begin_ms, window.to_ms)
        for made_ms in range(window.from_ms + HOUR_MS, window.to_ms + 1, HOUR_MS):
            made = drain.points(history, (made_ms - begin_ms) // MINUTE_MS)
            found.append(_rows(series, made_ms, made.groups, made.minutes, made.classes))
            before_ms = made_ms - DAY_MS
            minute = (before_ms - begin_ms) // MINUTE_MS
            rows = np.flatnonzero(history.lag[:, minute] > 0)
            found.append(_rows(series, before_ms, rows, drain.drained_minutes(history.lag, rows, minute), None))
    return pa.concat_tables(found)


def history_of(table: pa.Table, groups: Longs, begin_ms: int, end_ms: int) -> drain.History:
    """The minutes of [begin, end) of groups.

    Between hours that are there a group had no lag; behind one at whose end it had some it is not known any more: the group was
    deleted.

    Args:
        table: GROUP_MINUTES, by group and hour.
        groups: the group's number of each row.
    """
    count, length = int(groups.max()) + 1, (end_ms - begin_ms) // MINUTE_MS
    hours = (longs(table, "hour_ms") - begin_ms) // HOUR_MS
    sizes = pc.list_value_length(table.column("minutes")).to_numpy()
    rows = np.repeat(np.arange(table.num_rows), sizes)
    minutes = hours[rows] * 60 + _flat(table, "minutes")
    arrived, lag = np.zeros((count, length + 1)), np.zeros((count, length + 1))
    was_reset = np.zeros((count, length), dtype=bool)
    arrived[groups[rows], minutes + 1] = _flat(table, "arrived_messages")
    np.cumsum(arrived, axis=1, out=arrived)
    was_reset[groups[rows], minutes] = _flat(table, "was_reset")
    lags = np.full((table.num_rows, 60), np.nan)
    lags[rows, minutes % 60] = _flat(table, "lag_messages")
    lag[groups[:, None], hours[:, None] * 60 + np.arange(1, 61)] = lags
    is_last = np.append(np.diff(groups) != 0, True)
    following = np.where(is_last, length // 60, np.roll(hours, -1))
    for row in np.flatnonzero((following > hours + 1) & (lags[:, -1] != 0)):
        lag[groups[row], (hours[row] + 1) * 60 + 1 : following[row] * 60 + 1] = np.nan
    firsts = np.flatnonzero(np.append(True, np.diff(groups) != 0))
    return drain.History(arrived, lag, was_reset, hours[firsts] * 60)


def _flat(table: pa.Table, name: str) -> "np.ndarray[Any, Any]":
    """The values of a column of arrays; null is NaN."""
    return np.asarray(pc.list_flatten(table.column(name)).to_numpy(zero_copy_only=False))


def _rows(series: pa.Table, made_ms: int, groups: Longs, minutes: Any, classes: Any) -> pa.Table:
    """Rows of MADE for some groups; without classes they are truths."""
    chosen = series.take(pa.array(groups))
    count = len(groups)
    schema = to_arrow_schema(MADE)
    columns = {
        "made_ms": pa.array(np.full(count, made_ms)),
        "subject": chosen.column("subject"),
        "group": chosen.column("group"),
        "is_new": pa.array(np.full(count, classes is not None)),
        "class_number": pa.nulls(count, pa.int8()) if classes is None else pa.array(classes, pa.int8()),
        "minutes": pa.array(minutes, pa.float64(), from_pandas=True),
    }
    return pa.table(columns, schema=schema)


def drain_rows(lag: DataFrame, made: DataFrame, *, window: Window) -> DataFrame:
    """The forecasts of the ends of hours for every group: `outputs.DRAIN_FORECASTS` of hours.

    A group without lag is drained: 0 seconds. Where the lag is not known, nothing is.

    Args:
        lag: rows of `outputs.LAG` with hours.
        made: `at_ms`, `subject`, `group`, `outlook`, `case_class` and `drain_seconds_*` of the hours of groups with lag.
        window: whole hours.
    """
    check_steps(window, (HOUR_MS,))
    ends = lag.where((F.col("step_ms") == HOUR_MS) & is_in(F.col("at_ms"), window))
    is_drained = F.col("lag_messages_last") == 0
    found = ends.select("step_ms", "at_ms", *_SERIES, "lag_messages_last").join(made, ["at_ms", *_SERIES], "left")
    columns = {
        "outlook": F.when(is_drained, EXPECTED).otherwise(F.coalesce("outlook", F.lit(UNKNOWN))),
        "method": F.lit(drain.METHOD),
        "interval_ratio": F.lit(INTERVAL_RATIO),
        "case_class": F.coalesce("case_class", F.lit(NO_CLASS)),
    }
    columns |= {
        name: F.when(is_drained, 0.0).otherwise(F.col(name))
        for name in ("drain_seconds_low", "drain_seconds_mid", "drain_seconds_high")
    }
    return selected(found.withColumns(columns), DRAIN_FORECASTS)


def at_days_too(hours: DataFrame, *, window: Window, steps: Sequence[int]) -> DataFrame:
    """Rows of hours, with those of days: each is that of the day's last hour.

    Args:
        hours: with `step_ms` and `at_ms`.
        window: of the hours; whole days if days are among the steps.
        steps: hour and day, or hour alone.
    """
    check_steps(window, steps)
    if DAY_MS not in steps:
        return hours
    last = hours.where(F.pmod("at_ms", F.lit(DAY_MS)) == DAY_MS - HOUR_MS)
    days = last.withColumns({"step_ms": F.lit(DAY_MS).cast("long"), "at_ms": F.col("at_ms") - (DAY_MS - HOUR_MS)})
    return hours.unionByName(days)
