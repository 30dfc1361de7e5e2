"""Who was handed what and how it ended, from the groups' histories."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.transforms.deliveries import Entries, Kind, Longs, follow
from spark_analytics.transforms.frames import RUNS, bucket, is_in, longs, selected
from spark_analytics.transforms.windows import Window

_GROUP = ("broker_group", "subject", "group")
_IDENTITY = (*_GROUP, "consumer_key")


def runs(progress: DataFrame, state: DataFrame, *, window: Window, buckets: int) -> DataFrame:
    """What consumers held at the window's beginning or were handed in it, and how that ended in it: RUNS.

    Every handed-out message is in one run; a message handed out twice (after a reset) is in two. Runs still held at the
    window's end have no `ended_ms`. Redeliveries of the same pull sequences are no entries, so they are not included.

    Args:
        progress: entries of the window (others are left out), each once.
        state: GROUP_STATE at the window's beginning.
        buckets: parts that the work is split into (`frames.bucket_count`).
    """
    consumer = (*_GROUP, "is_broadcast", "consumer_key", "consumer_id")
    entries = progress.where(is_in(F.unix_millis("at"), window)).select(
        *consumer,
        "position",
        "kind",
        F.unix_millis("at").alias("at_ms"),
        F.col("begin").alias("pull_begin"),
        F.col("end").alias("pull_end"),
        # A broadcast's pull sequences are the messages' own.
        F.when(F.col("is_broadcast"), F.col("begin"))
        .otherwise(F.col("next_sequence") - (F.col("end") - F.col("begin")))
        .alias("begin"),
    )
    held = state.where(F.col("consumer_key").isNotNull()).select(
        *consumer,
        F.lit(-1).cast("long").alias("position"),
        F.lit("pull").alias("kind"),
        F.col("pulled_ms").alias("at_ms"),
        "pull_begin",
        (F.col("pull_begin") + F.col("messages")).alias("pull_end"),
        "begin",
    )
    # A group's START is of no consumer: it changes no run. A forgotten group ends the runs of its consumers, in all buckets.
    of_consumers = F.when(F.col("kind") != "forget", F.array(bucket(buckets, *_IDENTITY))).otherwise(
        F.sequence(F.lit(0), F.lit(buckets - 1))
    )
    together = entries.where(F.col("kind") != "start").unionByName(held).withColumn("bucket", F.explode(of_consumers))
    found = together.groupBy("bucket").applyInArrow(_followed, RUNS)
    return selected(found, RUNS)


def positions(progress: DataFrame, *, window: Window) -> DataFrame:
    """Where each group stood at the end of each second in which something happened: broker_group, subject, group, second,
    next_sequence."""
    return (
        progress.where(is_in(F.unix_millis("at"), window))
        .groupBy("broker_group", "subject", "group", F.unix_seconds("at").alias("second"))
        .agg(F.max_by("next_sequence", "position").alias("next_sequence"))
    )


def _followed(table: pa.Table) -> pa.Table:
    """The runs of all consumers in a bucket."""
    table = _with_ends(table)
    codes = codes_of(table, _IDENTITY)
    order = np.lexsort((longs(table, "pull_begin"), longs(table, "position"), codes))
    kinds = table.column("kind").combine_chunks().dictionary_encode()
    kind_of = np.array([Kind[name.upper()] for name in kinds.dictionary.to_pylist()], dtype=np.int64)
    kind = kind_of[np.asarray(kinds.indices)]
    entries = Entries(
        consumer=codes[order],
        kind=kind[order],
        at_ms=longs(table, "at_ms")[order],
        begin=longs(table, "pull_begin")[order],
        end=longs(table, "pull_end")[order],
        sequence=longs(table, "begin")[order],
    )
    found = follow(entries)
    rows = table.take(pa.array(order[found.pull]))
    is_held = found.ended_by < 0
    ended_by = pa.DictionaryArray.from_arrays(
        pa.array(np.where(is_held, 0, found.ended_by), mask=is_held), pa.array([kind.name.lower() for kind in Kind])
    ).cast(pa.string())
    columns = {
        "pull_begin": pa.array(found.pull_begin),
        "begin": pa.array(found.begin),
        "messages": pa.array(found.messages),
        "pulled_ms": rows.column("at_ms"),
        "ended_ms": pa.array(found.ended_ms, mask=is_held),
        "ended_by": ended_by,
    }
    return pa.table({name: columns[name] if name in columns else rows.column(name) for name in RUNS.names})


def _with_ends(table: pa.Table) -> pa.Table:
    """The table with each `forget` given to every consumer that its group has there, as its own entry."""
    is_end = pc.equal(table.column("kind"), "forget")
    if not pc.any(is_end).as_py():
        return table
    rest, ends = table.filter(pc.invert(is_end)), table.filter(is_end)
    consumers = rest.group_by([*_GROUP, "consumer_key"]).aggregate([])
    given: Any = ends.drop_columns("consumer_key").join(consumers, list(_GROUP), join_type="inner")
    return pa.concat_tables([rest, given.select(table.column_names).cast(table.schema)])


def codes_of(table: pa.Table, names: tuple[str, ...]) -> Longs:
    """A number for each row that is the same for rows with the same values in these columns."""
    code = np.zeros(table.num_rows, dtype=np.int64)
    for name in names:
        encoded = table.column(name).combine_chunks().dictionary_encode()
        code = code * len(encoded.dictionary) + np.asarray(encoded.indices)
        code = np.unique(code, return_inverse=True)[1].astype(np.int64)
    return code
