"""Frames between the transforms, as schema constants, and the expressions they share."""

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from qmq.protocol.names import DEAD_PREFIX, RETRY_PREFIX
from spark_analytics.transforms.windows import Window

_TEXT, _LONG, _FLAG = StringType(), LongType(), BooleanType()

BUCKET_ROWS = 500_000
"""Rows of the lake for each of the parts that work in numpy is split into, by a hash of what belongs together. Each part is in one
worker's memory at a time."""
BUCKETS_PER_CORE = 4
"""The least number of parts for each core, because a hash does not fill them evenly."""
BUCKETS_MAX = 1_024
"""The most parts: each is a call of its own. Those of a window of more than 512 million rows are larger."""

_PLACE = (StructField("broker_group", _TEXT, False), StructField("subject", _TEXT, False))
_GROUP = (*_PLACE, StructField("group", _TEXT, False), StructField("is_broadcast", _FLAG, False))
_HELD = (
    StructField("consumer_key", _LONG, True),
    StructField("consumer_id", _TEXT, True),
    StructField("pull_begin", _LONG, True),
    StructField("begin", _LONG, True),
    StructField("messages", _LONG, True),
    StructField("pulled_ms", _LONG, True),
)

STORED_SECONDS = StructType(
    [
        *_PLACE,
        StructField("second", _LONG, False),
        StructField("messages", _LONG, False),
        StructField("bytes", _LONG, False),
        StructField("first_sequence", _LONG, False),
        StructField("end_sequence", _LONG, False),
    ]
)
"""What was stored in a subject in a second (since the epoch): messages, their size as stored in bytes, the lowest sequence and the
one behind the highest. Seconds in which nothing was stored have no row. Subjects are those stored in: retry subjects too."""

RUNS = StructType([*_GROUP, *_HELD, StructField("ended_ms", _LONG, True), StructField("ended_by", _TEXT, True)])
"""Neighbouring messages that one consumer was handed together and that ended together: consume sequences from `begin` on, pull
sequences from `pull_begin` on. `ended_by`: ack (the consumer's), settle (the broker moved them to the retry subject), offline (the
consumer left a broadcast), dropped (its numbers began again), forget (with its group); null with `ended_ms` while they are held."""

GROUP_STATE = StructType([*_GROUP, StructField("next_sequence", _LONG, True), *_HELD])
"""Where groups are at a moment: of each group one row with its position (`next_sequence`; the rest null), and a row for each run it
holds (`next_sequence` null). A group that was forgotten stays, with position -1, because its
pending retries belong to no group."""

RANGES = StructType(
    [
        *_PLACE,
        StructField("at_ms", _LONG, False),
        StructField("begin", _LONG, False),
        StructField("end", _LONG, False),
        StructField("stored_bytes", _LONG, True),
    ]
)
"""Samples of what a subject keeps on a broker group: consume sequences [begin, end), and their bytes, each copy counted (null: not
known)."""

OWNERS = StructType([StructField("subject", _TEXT, False), StructField("team", _TEXT, False)])
"""Each subject of the metadata and the team that owns it; an empty team means no owner."""


def original_subject(subject: Column) -> Column:
    """The subject whose retries or dead letters a subject holds; others are their own. As `qmq.protocol.names.split_subject`."""
    parts = F.filter(F.split(subject, "%"), lambda part: part != "")
    return F.when(is_special(subject) & (F.size(parts) == 3), F.element_at(parts, 2)).otherwise(subject)


def retrying_group(subject: Column) -> Column:
    """The group whose retries a subject holds; null for another subject."""
    parts = F.filter(F.split(subject, "%"), lambda part: part != "")
    return F.when(subject.startswith(RETRY_PREFIX.rstrip("%")) & (F.size(parts) == 3), F.element_at(parts, 3))


def is_special(subject: Column) -> Column:
    """Whether a subject holds a group's retries or dead letters."""
    return subject.startswith(RETRY_PREFIX.rstrip("%")) | subject.startswith(DEAD_PREFIX.rstrip("%"))


def bucket_count(rows: int, cores: int) -> int:
    """How many parts to split work in numpy into. Results do not depend on it.

    Args:
        rows: of the lake, that the work is made from.
        cores: of the whole session.
    """
    return min(BUCKETS_MAX, max(-(-rows // BUCKET_ROWS), BUCKETS_PER_CORE * max(1, cores)))


def bucket(count: int, *columns: str) -> Column:
    """A number below `count` that is the same for rows with the same values there."""
    return F.pmod(F.xxhash64(*columns), F.lit(count)).cast("int")


def start_of(ms: Column, step_ms: int) -> Column:
    """When the step begins that a moment lies in."""
    return ms - F.pmod(ms, F.lit(step_ms))


def is_in(ms: Column, window: Window) -> Column:
    """Whether a moment lies in a window."""
    return (ms >= window.from_ms) & (ms < window.to_ms)


def consumer_name(consumer_id: Column, consumer_key: Column) -> Column:
    """A consumer's id, or its key as 16 hex digits when the id is gone."""
    return F.coalesce(consumer_id, F.format_string("%016x", consumer_key))


def selected(frame: DataFrame, schema: StructType) -> DataFrame:
    """The columns of a schema, in its order and types: every transform ends here."""
    return frame.select(*(F.col(f"`{field.name}`").cast(field.dataType).alias(field.name) for field in schema))


def repeated(frame: DataFrame, *, window: Window, steps: Sequence[int]) -> DataFrame:
    """Rows without a moment at every moment of a window: with `step_ms` and `at_ms`. They are few: each worker gets all of them."""
    moments = [
        frame.sparkSession.range(window.from_ms, window.to_ms, step_ms).select(
            F.lit(step_ms).cast("long").alias("step_ms"), F.col("id").alias("at_ms")
        )
        for step_ms in steps
    ]
    return reduce(DataFrame.unionByName, moments).crossJoin(F.broadcast(frame))


def at_steps(frame: DataFrame, steps: Sequence[int], ms: str) -> DataFrame:
    """Each row once for every step it lies in: with `step_ms` and `at_ms`."""
    of_steps = frame.withColumn("step_ms", F.explode(F.array(*(F.lit(step).cast("long") for step in steps))))
    return of_steps.withColumn("at_ms", F.col(ms) - F.pmod(F.col(ms), F.col("step_ms")))


def longs(table: pa.Table, name: str) -> NDArray[np.int64]:
    """A column of numbers."""
    values: NDArray[np.int64] = table.column(name).to_numpy()
    return values
