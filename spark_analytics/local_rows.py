"""Rows that the driver has, as a frame: by Arrow, as rows one by one start Python workers to be sent in."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def local_table(rows: Iterable[Sequence[Any]], schema: "StructType") -> pa.Table:
    """An Arrow table of these rows, with values in the schema's order; times have a zone."""
    from pyspark.sql.pandas.types import to_arrow_schema

    columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(schema.fields)
    arrow = to_arrow_schema(schema, timezone="UTC")
    arrays = [pa.array(column, field.type) for column, field in zip(columns, arrow, strict=True)]
    return pa.table(arrays, schema=arrow)


def local_frame(spark: "SparkSession", rows: Iterable[Sequence[Any]], schema: "StructType") -> "DataFrame":
    """The same as a frame."""
    return spark.createDataFrame(local_table(rows, schema))
