"""How long messages took, from being stored and from being handed out, to their ack."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from spark_analytics.buckets import added, buckets_of, percentiles
from spark_analytics.transforms.frames import (
    at_steps,
    bucket,
    is_in,
    original_subject,
    selected,
    start_of,
)
from spark_analytics.transforms.outputs import LATENCIES
from spark_analytics.transforms.runs import codes_of
from spark_analytics.transforms.stored import CHUNK_SEQUENCES, stretches
from spark_analytics.transforms.windows import SHORT_STEPS, Window, check_steps

END_TO_END, HANDLING = "end_to_end", "handling"
RATIOS = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}

Longs = NDArray[np.int64]

_PARTS = StructType(
    [
        StructField("subject", StringType()),
        StructField("group", StringType()),
        StructField("kind", StringType()),
        StructField("shortest_ms", LongType()),
        StructField("messages", LongType()),
        StructField("sum_ms", LongType()),
        StructField("max_ms", LongType()),
        StructField("buckets", ArrayType(LongType())),
        StructField("counts", ArrayType(LongType())),
    ]
)


def latencies(
    index: DataFrame, runs: DataFrame, *, window: Window, buckets: int, steps: Sequence[int] = SHORT_STEPS
) -> DataFrame:
    """Latencies of the messages that consumers acked in each step: `outputs.LATENCIES`.

    `end_to_end` is the ack's time less the store time, `handling` the ack's time less the time the message was handed out first
    (redeliveries are not recorded), in whole milliseconds, never below 0; over all broker groups. Messages that the broker
    settled have none. An attempt in the group's retry subject is a message of its own of the original subject: stored when it
    was put there. Percentiles are of rank ceil(ratio x messages) and within 1 % (`spark_analytics.buckets`), and merged from the
    shortest step's buckets for longer ones; mean and max are exact. Nothing acked in a step: no row; nor `end_to_end` of
    messages whose store time is not in `index`.

    Args:
        index: the input table, back to the oldest message that was acked in the window (`oldest_acked`).
        runs: RUNS of the window.
        window: whole steps, not beyond the watermark.
        buckets: parts that the work is split into (`frames.bucket_count`).
        steps: each a multiple of the shortest.
    """
    check_steps(window, steps)
    shortest = min(steps)
    acked = runs.where((F.col("ended_by") == "ack") & is_in(F.col("ended_ms"), window)).select(
        "broker_group",
        "subject",
        original_subject(F.col("subject")).alias("original"),
        "group",
        "begin",
        (F.col("begin") + F.col("messages")).alias("end"),
        "pulled_ms",
        "ended_ms",
        start_of(F.col("ended_ms"), shortest).alias("shortest_ms"),
    )
    last = F.floor((F.col("end") - 1) / CHUNK_SEQUENCES)
    in_chunks = (
        acked.withColumn("chunk", F.explode(F.sequence(F.floor(F.col("begin") / CHUNK_SEQUENCES), last)))
        .withColumn("begin", F.greatest("begin", F.col("chunk") * CHUNK_SEQUENCES))
        .withColumn("end", F.least("end", (F.col("chunk") + 1) * CHUNK_SEQUENCES))
        .withColumn("bucket", bucket(buckets, "broker_group", "subject", "chunk"))
    )
    parts = (
        stretches(index, buckets).groupBy("bucket").cogroup(in_chunks.groupBy("bucket")).applyInArrow(_measured, _PARTS)
    )
    of_steps = at_steps(parts, steps, "shortest_ms").withColumn("bucket", bucket(buckets, "subject", "group", "kind"))
    merged = of_steps.drop("shortest_ms").groupBy("bucket").applyInArrow(_merged, LATENCIES)
    return selected(merged, LATENCIES)


def oldest_acked(stored: DataFrame, runs: DataFrame, *, window: Window) -> DataFrame:
    """When the oldest message of each subject was stored that was acked in the window: broker_group, subject, second.

    Subjects of which none was acked, or none is known, have no row.

    Args:
        stored: STORED_SECONDS with the tail before the window.
        runs: RUNS of the window.
    """
    acked = runs.where((F.col("ended_by") == "ack") & is_in(F.col("ended_ms"), window))
    lowest = acked.groupBy("broker_group", "subject").agg(F.min("begin").alias("lowest"))
    found = stored.join(lowest, ["broker_group", "subject"], "inner").where(F.col("end_sequence") > F.col("lowest"))
    return found.groupBy("broker_group", "subject").agg(F.min("second").alias("second"))


def overlaps(first: Longs, end: Longs, begin: Longs, behind: Longs) -> tuple[Longs, Longs, Longs]:
    """Which of the stretches [first, end), ascending, hold parts of the runs [begin, behind): run, stretch and how many there.

    Of stretches that overlap, the one that begins later counts.
    """
    if not len(first) or not len(begin):
        none = np.zeros(0, dtype=np.int64)
        return none, none, none
    # Each ends where the next begins; what is left free behind it then belongs to the one that reaches furthest.
    behind_it = np.append(first[1:], np.iinfo(np.int64).max)
    reach = np.maximum.accumulate(end)
    furthest = np.maximum.accumulate(np.where(end == reach, np.arange(len(end)), 0))
    cut = np.minimum(end, behind_it)
    free = np.flatnonzero(np.minimum(reach, behind_it) > cut)
    owner = np.concatenate([np.arange(len(first)), furthest[free]])
    first, end = np.append(first, cut[free]), np.append(cut, np.minimum(reach, behind_it)[free])
    order = np.lexsort((end, first))
    first, end, owner = first[order], end[order], owner[order]
    low = np.searchsorted(end, begin, side="right")
    high = np.searchsorted(first, behind, side="left")
    counts = np.maximum(0, high - low)
    run = np.repeat(np.arange(len(begin)), counts)
    stretch = np.arange(len(run)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(low, counts)
    n = np.minimum(end[stretch], behind[run]) - np.maximum(first[stretch], begin[run])
    is_there = n > 0
    return run[is_there], owner[stretch[is_there]], n[is_there]


def _measured(stored: pa.Table, acked: pa.Table) -> pa.Table:
    """Latencies of the acked runs of a bucket, by original subject, group, kind and shortest step."""
    if not acked.num_rows:
        return to_arrow_schema(_PARTS).empty_table()
    # One line for all subjects of the bucket: what a subject's sequences take, one behind the other.
    joint = pa.concat_tables([stored.select(_LINE), acked.select(_LINE)])
    places = codes_of(joint, _LINE)
    line = places * CHUNK_SEQUENCES - joint.column("chunk").to_numpy() * CHUNK_SEQUENCES
    of_stored, of_acked = line[: stored.num_rows], line[stored.num_rows :]
    first, end = stored.column("first").to_numpy() + of_stored, stored.column("end").to_numpy() + of_stored
    order = np.lexsort((end, first))
    begin, behind = acked.column("begin").to_numpy() + of_acked, acked.column("end").to_numpy() + of_acked
    run, stretch, n = overlaps(first[order], end[order], begin, behind)
    ended = acked.column("ended_ms").to_numpy()
    waited = ended[run] - stored.column("stored_ms").to_numpy()[order][stretch]
    handled = ended - acked.column("pulled_ms").to_numpy()
    series = codes_of(acked, ("original", "group", "shortest_ms"))
    tables = [
        _counted(acked, END_TO_END, series[run], run, waited, n),
        _counted(acked, HANDLING, series, np.arange(len(series)), handled, behind - begin),
    ]
    return pa.concat_tables(tables)


_LINE = ("broker_group", "subject", "chunk")


def _counted(acked: pa.Table, kind: str, series: Longs, run: Longs, took_ms: Longs, n: Longs) -> pa.Table:
    """A row for each series; `run` is the row of `acked` that each value is of."""
    schema = to_arrow_schema(_PARTS)
    if not len(series):
        return schema.empty_table()
    took_ms = np.maximum(took_ms, 0)
    order = np.argsort(series, kind="stable")
    series, run, took_ms, n = series[order], run[order], took_ms[order], n[order]
    begins = np.flatnonzero(np.append(True, series[1:] != series[:-1]))
    of_series, buckets, counts = added(series, buckets_of(took_ms), n)
    offsets = pa.array(np.append(np.searchsorted(of_series, series[begins]), len(of_series)), pa.int32())
    rows = acked.take(pa.array(run[begins]))
    columns: dict[str, Any] = {
        "subject": rows.column("original"),
        "group": rows.column("group"),
        "kind": pa.array([kind] * len(begins), pa.string()),
        "shortest_ms": rows.column("shortest_ms"),
        "messages": np.add.reduceat(n, begins),
        "sum_ms": np.add.reduceat(took_ms * n, begins),
        "max_ms": np.maximum.reduceat(took_ms, begins),
        "buckets": pa.ListArray.from_arrays(offsets, pa.array(buckets)),
        "counts": pa.ListArray.from_arrays(offsets, pa.array(counts)),
    }
    return pa.table(columns, schema=schema)


_SERIES = ("subject", "group", "kind", "step_ms", "at_ms")


def _merged(table: pa.Table) -> pa.Table:
    """A row for each step of each series of a bucket, from the counts of the shortest steps."""
    series = codes_of(table, _SERIES)
    order = np.argsort(series, kind="stable")
    begins = np.flatnonzero(np.append(True, np.diff(series[order]) != 0))
    messages = np.add.reduceat(table.column("messages").to_numpy()[order], begins)
    sums = np.add.reduceat(table.column("sum_ms").to_numpy()[order], begins)
    slowest = np.maximum.reduceat(table.column("max_ms").to_numpy()[order], begins).astype(np.float64)
    buckets, counts = table.column("buckets"), table.column("counts")
    of_buckets = np.repeat(series, pc.list_value_length(buckets).to_numpy())
    merged = added(of_buckets, pc.list_flatten(buckets).to_numpy(), pc.list_flatten(counts).to_numpy())
    found = percentiles(*merged, list(RATIOS.values()))
    rows = table.take(pa.array(order[begins]))
    columns: dict[str, Any] = {name: rows.column(name) for name in _SERIES}
    columns |= {"messages": messages, "mean_ms": sums / messages, "max_ms": slowest}
    # What a bucket stands for may lie above the slowest in it.
    columns |= {name: np.minimum(found[:, i], slowest) for i, name in enumerate(RATIOS)}
    schema = to_arrow_schema(LATENCIES)
    return pa.table({name: columns[name] for name in schema.names}, schema=schema)
