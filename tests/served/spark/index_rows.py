"""Index rows of a lake, made in Spark."""

from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_analytics.lake import Lake

NINE = int(datetime(2026, 11, 21, 9, tzinfo=UTC).timestamp() * 1000)
EVER = (0, 1 << 42)


def index_rows(spark: SparkSession, begin: int, end: int, *, from_ms: int = NINE, every_ms: int = 60_000) -> DataFrame:
    """Index rows with these sequences, one a minute from 9 o'clock on."""
    return spark.range(begin, end, numPartitions=2).select(
        F.lit("g1").alias("broker_group"),
        F.lit("orders").alias("subject"),
        F.col("id").alias("sequence"),
        F.timestamp_millis(F.lit(from_ms) + F.col("id") * every_ms).alias("stored_at"),
        F.lit(100).alias("size"),
        (F.col("id") * 100).alias("log_offset"),
        F.lit(0).cast("long").alias("tag_bits"),
        F.lit(False).alias("is_withheld"),
    )


def sequences(lake: Lake, from_ms: int = EVER[0], to_ms: int = EVER[1]) -> list[int]:
    return sorted(row["sequence"] for row in lake.read("index", from_ms, to_ms).select("sequence").collect())
