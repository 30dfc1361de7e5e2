"""Reads of the lake."""

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

Read = Callable[..., DataFrame]


def read_table(spark: SparkSession, metaserver: str, table: str, schema: str = "", **options: str) -> DataFrame:
    """A table of a system."""
    reader = spark.read.format("qmq").options(metaserver=metaserver, table=table, **options)
    return (reader.schema(schema) if schema else reader).load()
