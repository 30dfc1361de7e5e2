"""What was stored when: index rows counted together. The one part of the work that grows with messages."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.schemas import SEQUENCES_PER_LOG
from spark_analytics.transforms.frames import STORED_SECONDS, bucket, selected

CHUNK_SEQUENCES = 1 << 20
"""Number of consume sequences of a subject whose store times are processed together."""


def stored_seconds(index: DataFrame) -> DataFrame:
    """Index rows counted by broker group, subject and second of their store time: STORED_SECONDS.

    Withheld messages are in no second: they can't be delivered. Rows that are counted again give other seconds, so index has to
    have each message once.
    """
    found = (
        index.where(~F.col("is_withheld"))
        .groupBy("broker_group", "subject", F.unix_seconds("stored_at").alias("second"))
        .agg(
            F.count("*").alias("messages"),
            F.sum("size").alias("bytes"),
            F.min("sequence").alias("first_sequence"),
            (F.max("sequence") + 1).alias("end_sequence"),
        )
    )
    return selected(found, STORED_SECONDS)


def silver_seconds(index: DataFrame) -> DataFrame:
    """The same with `at`, the second as a time, in place of `second`: as the lake keeps it."""
    counted = stored_seconds(index)
    at = F.timestamp_seconds("second").alias("at")
    return counted.select(at, *(name for name in counted.columns if name != "second")).coalesce(1)


def seconds_of(silver: DataFrame) -> DataFrame:
    """STORED_SECONDS of rows that the lake keeps; rows of one second, which several batches brought, are one."""
    return merged_seconds(silver.withColumn("second", F.unix_seconds("at")).select(*STORED_SECONDS.names))


def hours_of(silver: DataFrame) -> DataFrame:
    """Rows of `stored_seconds` that the lake keeps summed by broker group, subject and hour: broker_group, subject, bytes,
    first_sequence, end_sequence."""
    # Between two logs of a broker group lie sequences that never were.
    log = F.floor(F.col("first_sequence") / SEQUENCES_PER_LOG).alias("log")
    summed = silver.groupBy(F.date_trunc("hour", "at").alias("hour"), "broker_group", "subject", log).agg(
        F.sum("bytes").alias("bytes"),
        F.min("first_sequence").alias("first_sequence"),
        F.max("end_sequence").alias("end_sequence"),
    )
    return summed.drop("hour", "log")


def merged_seconds(*frames: DataFrame) -> DataFrame:
    """One frame of STORED_SECONDS of several, such as a tail and a window's; a second that two have is the sum of both."""
    together = frames[0]
    for frame in frames[1:]:
        together = together.unionByName(frame)
    found = together.groupBy("broker_group", "subject", "second").agg(
        F.sum("messages").alias("messages"),
        F.sum("bytes").alias("bytes"),
        F.min("first_sequence").alias("first_sequence"),
        F.max("end_sequence").alias("end_sequence"),
    )
    return selected(found, STORED_SECONDS)


def stretches(index: DataFrame, buckets: int) -> DataFrame:
    """Neighbouring sequences stored in the same millisecond: bucket, broker_group, subject, chunk, stored_ms, first, end.

    A batch is stored at once, so these are far fewer than messages. Where the wall clock stepped back, two stretches of a chunk may
    overlap; then a sequence counts to the one that begins later.
    """
    return (
        index.where(~F.col("is_withheld"))
        .groupBy(
            "broker_group",
            "subject",
            F.floor(F.col("sequence") / CHUNK_SEQUENCES).alias("chunk"),
            F.unix_millis("stored_at").alias("stored_ms"),
        )
        .agg(F.min("sequence").alias("first"), (F.max("sequence") + 1).alias("end"))
        .withColumn("bucket", bucket(buckets, "broker_group", "subject", "chunk"))
    )
