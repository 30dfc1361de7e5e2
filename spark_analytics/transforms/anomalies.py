"""What differs from the same hour of earlier weeks, by `spark_analytics.forecasts.anomalies`."""

from collections.abc import Sequence
from functools import reduce
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from spark_analytics.forecasts.anomalies import DAY_HOURS, LOOKBACK_HOURS, SERIES_AT_ONCE, judged
from spark_analytics.forecasts.conformal import Booleans, Doubles, Longs
from spark_analytics.transforms.frames import bucket, longs, selected
from spark_analytics.transforms.latency import END_TO_END
from spark_analytics.transforms.outputs import ANOMALIES
from spark_analytics.transforms.runs import codes_of
from spark_analytics.transforms.windows import DAY_MS, HOUR_MS, LONG_STEPS, Window, check_steps

SENT, ACKED = "sent_messages_per_second", "acked_messages_per_second"
LAG, TIME_LAG = "lag_messages", "time_lag_seconds"
P99, FAILURES = "end_to_end_p99_ms", "failures_messages"
METRICS = (SENT, ACKED, LAG, TIME_LAG, P99, FAILURES)
COUNTED = (SENT, ACKED, FAILURES)
"""Metrics of events: where there is no row, there were none."""
OF_LAG = (LAG, TIME_LAG)
"""Metrics that are 0 where there was no lag."""
WITH_MESSAGES = (TIME_LAG, P99)
"""Metrics that say how long messages take, not how many they are."""
PER_SECOND = (SENT, ACKED)
"""Metrics that are judged by how many there were in the hour."""
HOUR_SECONDS = 3_600

VALUES = StructType(
    [
        StructField("at_ms", LongType(), False),
        StructField("subject", StringType(), False),
        StructField("group", StringType(), False),
        StructField("metric", StringType(), False),
        StructField("value", DoubleType(), True),
        StructField("messages", DoubleType(), True),
    ]
)
"""What a metric was in an hour, null if it was not measured; an empty group is the subject alone. Of WITH_MESSAGES, how many
messages have it; of others null. A row of OF_LAG with neither says that the group was there on the day that the hour is of."""
_SERIES = ("subject", "group", "metric")
_GROUP = ("subject", "group")
_OF_HOURS_OF_LAG = ("at_ms", *_GROUP, "lag_messages_mean", "time_lag_seconds_max")


def groups_with_lag(hours: DataFrame, days: DataFrame, *, window: Window) -> DataFrame:
    """The groups that had lag at some time: subject, group. Of rows of `lag`: hours of the window's days, and earlier days."""
    first_ms = _first_day_ms(window)
    has_lag = F.col("lag_messages_max") > 0
    of_days = days.where(has_lag & (F.col("at_ms") < first_ms)).select(*_GROUP)
    return of_days.union(hours.where(has_lag & (F.col("at_ms") >= first_ms)).select(*_GROUP)).distinct()


def hours_of_lag(hours: DataFrame, days: DataFrame, groups: DataFrame, *, window: Window) -> DataFrame:
    """Rows of `lag` by which the lag of these groups is judged: at_ms, subject, group, lag_messages_mean, time_lag_seconds_max.

    All hours of the window's days, and of earlier ones those with lag. That a group was there on an earlier day says a row at the
    day's first hour in which both numbers are null: most groups have no lag, and all their hours would be too many.

    Args:
        hours: rows of `lag` at the step of an hour, from `values_from_ms` of the window on.
        days: at the step of a day, from the day on that `values_from_ms` lies in.
        groups: subject, group (`groups_with_lag`).
    """
    first_ms, nothing = _first_day_ms(window), F.lit(None).cast("double")
    of_hours = hours.where((F.col("at_ms") >= first_ms) | (F.col("lag_messages_max") > 0)).select(*_OF_HOURS_OF_LAG)
    begins = F.greatest("at_ms", F.lit(values_from_ms(window)))
    of_days = days.where(F.col("at_ms") < first_ms).select(begins, *_GROUP, nothing, nothing)
    return of_hours.union(of_days).join(groups, [*_GROUP], "left_semi")


def metric_values(
    lag: DataFrame, subject_rates: DataFrame, group_rates: DataFrame, latencies: DataFrame, failures: DataFrame
) -> DataFrame:
    """`hours_of_lag` and hourly rows of other summary tables as VALUES: means of rates (messages/s) and of lag (messages), the
    greatest time lag (s), the 99th percentile of end-to-end latency (ms), retries and dead letters of all causes together
    (messages). A time lag is of the hour's mean lag, a latency of the messages acknowledged in it."""
    end_to_end = latencies.where(F.col("kind") == END_TO_END)
    failed = failures.groupBy("at_ms", "subject", "group").agg(F.sum("messages").alias("failed"))
    frames = [
        _values(subject_rates.withColumn("group", F.lit("")), SENT, "sent_messages_per_second_mean"),
        _values(group_rates, ACKED, "acked_messages_per_second_mean"),
        _values(lag, LAG, "lag_messages_mean"),
        _values(lag, TIME_LAG, "time_lag_seconds_max", "lag_messages_mean"),
        _values(end_to_end, P99, "p99_ms", "messages"),
        _values(failed, FAILURES, "failed"),
    ]
    return selected(reduce(DataFrame.unionByName, frames), VALUES)


def _values(frame: DataFrame, metric: str, column: str, messages: str | None = None) -> DataFrame:
    value = F.col(column).cast("double").alias("value")
    of = (F.lit(None) if messages is None else F.col(messages)).cast("double").alias("messages")
    found = frame.select("at_ms", "subject", "group", F.lit(metric).alias("metric"), value, of)
    return found if metric in OF_LAG else found.where(F.col("value").isNotNull())


def values_from_ms(window: Window) -> int:
    """When the first hour begins that a window is judged by: LOOKBACK_HOURS before its first day (UTC), so that hours give the
    same alone and with their day."""
    return _first_day_ms(window) - LOOKBACK_HOURS * HOUR_MS


def _first_day_ms(window: Window) -> int:
    return window.from_ms - window.from_ms % DAY_MS


def anomalies(
    values: DataFrame, *, window: Window, zone: ZoneInfo, buckets: int, steps: Sequence[int] = LONG_STEPS
) -> DataFrame:
    """Each metric of the window's steps against the same hour of earlier weeks: `outputs.ANOMALIES`.

    How hours are judged says `forecasts.anomalies.judged`; one that is not judged has no row. A metric of events that has no value
    in an hour counts as 0 from its first value on, so it is found that nothing came any more. The first value is that of the hour's
    day (UTC) and LOOKBACK_HOURS before it, so days give the same alone and together. A metric of lag that has no row in an hour of
    an earlier day counts as 0 if the group was there on that day, and is judged from the first hour with lag on. The row of a day
    is its flagged hour, or if there is none any of its hours, whose score is furthest from 0.

    `about_messages`, a whole number, is by how many messages of the hour the value differs from the expected one; of WITH_MESSAGES
    it is VALUES' messages.

    Args:
        values: VALUES from `values_from_ms` of the window on; others are left out.
        window: whole steps, not beyond the watermark.
        zone: whose clocks say which hours are the same.
        buckets: parts that the work is split into (`frames.bucket_count`).
        steps: hour and day, or one of them.

    Raises:
        ValueError: there are other steps, or the window is not whole steps.
    """
    check_steps(window, steps)
    if others := set(steps) - set(LONG_STEPS):
        raise ValueError(f"steps of {sorted(others)} ms: must be an hour or a day")

    def of_bucket(table: pa.Table) -> pa.Table:
        return _of_bucket(table, window, zone, steps)

    within = values.where((F.col("at_ms") >= values_from_ms(window)) & (F.col("at_ms") < window.to_ms))
    in_buckets = within.withColumn("bucket", bucket(buckets, *_SERIES))
    return selected(in_buckets.groupBy("bucket").applyInArrow(of_bucket, ANOMALIES), ANOMALIES)


def _of_bucket(table: pa.Table, window: Window, zone: ZoneInfo, steps: Sequence[int]) -> pa.Table:
    """The rows of a bucket's series, some series at a time: few of them have a value in each hour."""
    begin_ms = values_from_ms(window)
    codes = codes_of(table, _SERIES)
    hours = (longs(table, "at_ms") - begin_ms) // HOUR_MS
    columns = [table.column(name).to_numpy() for name in ("value", "messages")]
    order = np.argsort(codes, kind="stable")
    begins = np.flatnonzero(np.append(True, np.diff(codes[order]) != 0))
    tables = []
    for at in range(0, len(begins), SERIES_AT_ONCE):
        firsts = order[begins[at : at + SERIES_AT_ONCE]]
        rows = order[begins[at] : begins[at + SERIES_AT_ONCE] if at + SERIES_AT_ONCE < len(begins) else None]
        values, messages = np.full((2, len(firsts), (window.to_ms - begin_ms) // HOUR_MS), np.nan)
        of, at_hours = codes[rows] - at, hours[rows]
        is_measured = ~np.isnan([column[rows] for column in columns]).all(axis=0)
        for column, into in zip(columns, (values, messages), strict=True):
            into[of[is_measured], at_hours[is_measured]] = column[rows][is_measured]
        was_there = np.zeros(values.shape, dtype=bool)
        was_there[of, at_hours] = True
        was_there = _on_days(was_there, begin_ms)
        series = table.take(pa.array(firsts)).select(_SERIES)
        for day_ms in range(begin_ms + LOOKBACK_HOURS * HOUR_MS, window.to_ms, DAY_MS):
            first = (day_ms - begin_ms) // HOUR_MS - LOOKBACK_HOURS
            end_ms = min(day_ms + DAY_MS, window.to_ms)
            of_day = slice(first, (end_ms - begin_ms) // HOUR_MS)
            day = Window(max(day_ms, window.from_ms), end_ms)
            parts = (values[:, of_day], messages[:, of_day], was_there[:, of_day])
            tables += _of_day(series, *parts, day, zone, steps)
    return pa.concat_tables(tables) if tables else to_arrow_schema(ANOMALIES).empty_table()


def _on_days(was_there: Booleans, begin_ms: int) -> Booleans:
    """(series, hours from `begin_ms` on): whether a series was there in any hour of the hour's day (UTC)."""
    before, count = begin_ms % DAY_MS // HOUR_MS, was_there.shape[1]
    whole = np.pad(was_there, ((0, 0), (before, -(before + count) % DAY_HOURS)))
    of_days = whole.reshape(len(was_there), -1, DAY_HOURS).any(axis=2)
    return of_days.repeat(DAY_HOURS, axis=1)[:, before : before + count]


def _of_day(
    series: pa.Table,
    values: Doubles,
    messages: Doubles,
    was_there: Booleans,
    window: Window,
    zone: ZoneInfo,
    steps: Sequence[int],
) -> list[pa.Table]:
    """A table for each step.

    Args:
        values: (series, hours), up to the window's end.
        messages: the same.
        was_there: the same, by whole days (UTC).
        window: hours of one day.
    """
    metric = series.column("metric").to_numpy(zero_copy_only=False)
    is_of_lag = np.isin(metric, OF_LAG)[:, np.newaxis]
    # A time lag that was not measured has messages: it is none of the hours without lag.
    has_none = np.isnan(values) & np.isnan(messages)
    is_known = np.logical_or.accumulate(~np.isnan(values), axis=1) & np.isin(metric, COUNTED)[:, np.newaxis]
    # Of the day itself, hours without lag have rows too.
    had_none = was_there & is_of_lag & (np.arange(values.shape[1]) < LOOKBACK_HOURS)
    is_silent = has_none & (is_known | had_none)
    values = np.where(is_silent, 0.0, values)
    scale = np.where(np.isin(metric, PER_SECOND), HOUR_SECONDS, 1)[:, np.newaxis]
    count = (window.to_ms - window.from_ms) // HOUR_MS
    found = judged(values * scale, window.to_ms - values.shape[1] * HOUR_MS, zone, count)
    differ = np.abs(values[:, -count:] * scale - found.expected)
    about = np.where(np.isin(metric, WITH_MESSAGES)[:, np.newaxis], messages[:, -count:], differ)
    columns = {
        "value": values[:, -count:],
        "about_messages": np.rint(about),
        "expected": found.expected / scale,
        "expected_low": found.low / scale,
        "expected_high": found.high / scale,
        "score": found.score,
        "is_flagged": found.is_flagged,
    }
    had_lag = np.logical_or.accumulate(values > 0, axis=1)[:, -count:]
    is_judged = ~np.isnan(found.score) & (had_lag | ~is_of_lag)
    tables = []
    for step_ms in steps:
        if step_ms == DAY_MS:
            number, hour = _furthest(is_judged, found.score, found.is_flagged)
            at_ms = np.full(len(number), window.from_ms)
        else:
            number, hour = np.nonzero(is_judged)
            at_ms = window.from_ms + hour * HOUR_MS
        rows = series.take(pa.array(number))
        chosen: dict[str, Any] = {name: column[number, hour] for name, column in columns.items()}
        chosen |= {"step_ms": np.full(len(number), step_ms), "at_ms": at_ms}
        chosen |= {name: rows.column(name) for name in _SERIES}
        chosen["about_messages"] = pa.array(chosen["about_messages"], from_pandas=True).cast(pa.int64())
        schema = to_arrow_schema(ANOMALIES)
        tables.append(pa.table({name: chosen[name] for name in schema.names}, schema=schema))
    return tables


def _furthest(is_judged: Booleans, score: Doubles, is_flagged: Booleans) -> tuple[Longs, Longs]:
    """Series that have judged hours, and which of them stands for the day: a flagged one if there is one, of these the first whose
    score is furthest from 0."""
    is_calm = ~is_flagged.any(axis=1, keepdims=True)
    hour = np.where(is_judged & (is_flagged | is_calm), np.abs(score), -1.0).argmax(axis=1)
    number = np.flatnonzero(is_judged.any(axis=1))
    return number, hour[number]
