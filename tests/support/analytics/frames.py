"""Frames of the analytics jobs from plain columns, and rows of frames as plain dictionaries."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tests.support.analytics.simulated_day import Columns

_ARROW = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "binary": pa.binary(),
}


def arrow(columns: Columns, schema: StructType) -> pa.Table:
    """Columns as an Arrow table of a schema; times are milliseconds since the epoch."""
    arrays = []
    for field in schema:
        values, kind = columns[field.name], field.dataType.simpleString()
        if kind == "timestamp":
            micros = pa.array([None if ms is None else ms * 1000 for ms in values], pa.int64())
            arrays.append(micros.cast(pa.timestamp("us", "UTC")))
        else:
            arrays.append(pa.array(values, _ARROW[kind]))
    return pa.table(arrays, names=schema.names)


def frame(spark: SparkSession, columns: Columns, schema: StructType) -> DataFrame:
    """The same as a frame."""
    return spark.createDataFrame(arrow(columns, schema), schema)


def table(spark: SparkSession, text: str, schema: StructType, **same: Any) -> DataFrame:
    """A frame from rows as a test shows them: a line of column names, a line for each row; `-` is null. `same`: other columns'
    value.

    Columns that are named nowhere are null, or 0, false or "" where null is not allowed.
    """
    lines = [line.split() for line in text.strip().splitlines()]
    names, rows = lines[0], lines[1:]
    empty = {"string": "", "bigint": 0, "int": 0, "boolean": False, "timestamp": 0, "double": 0.0, "binary": b""}
    columns: Columns = {}
    for field in schema:
        kind = field.dataType.simpleString()
        if field.name in names:
            place = names.index(field.name)
            columns[field.name] = [_value(row[place], kind) for row in rows]
        else:
            default = None if field.nullable else empty[kind]
            columns[field.name] = [same.get(field.name, default)] * len(rows)
    return frame(spark, columns, schema)


def _value(text: str, kind: str) -> Any:
    if text == "-":
        return None
    match kind:
        case "string":
            return "" if text == "''" else text
        case "boolean":
            return {"true": True, "false": False}[text]
        case "double":
            return float(text)
    return int(text)


def rows(found: DataFrame, *key: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """A frame's rows by some of their columns; a second row of one key is an error."""
    result: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in found.toArrow().to_pylist():
        name = tuple(row.pop(column) for column in key)
        assert name not in result, f"a second row of {name}"
        result[name] = row
    return result


def differences(
    expected: Mapping[tuple[Any, ...], Mapping[str, Any]],
    found: Mapping[tuple[Any, ...], Mapping[str, Any]],
    relative: float = 1e-12,
) -> list[str]:
    """What two tables differ in, in words; floating-point numbers may differ by a part of themselves."""
    told = [f"missing: {key}" for key in sorted(expected.keys() - found.keys(), key=repr)]
    told += [f"too much: {key}" for key in sorted(found.keys() - expected.keys(), key=repr)]
    for key in sorted(expected.keys() & found.keys(), key=repr):
        want, got = expected[key], found[key]
        if want.keys() != got.keys():
            told.append(f"{key}: columns {sorted(want)} and {sorted(got)}")
            continue
        told += [f"{key} {n}: {got[n]!r}, not {want[n]!r}" for n in want if not _alike(want[n], got[n], relative)]
    return told


def _alike(want: Any, got: Any, relative: float) -> bool:
    if isinstance(want, float) and isinstance(got, int | float):
        return abs(got - want) <= relative * max(abs(want), abs(got))
    if isinstance(got, float) and isinstance(want, int):
        return abs(got - want) <= relative * max(abs(want), abs(got))
    return bool(want == got)
