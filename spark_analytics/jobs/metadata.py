"""What jobs need of the metadata and of earlier summaries. It is small: the driver reads it once and hands it in as a frame."""

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import F, Min, QuerySet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from console.analytics.rows import Window
from console.analytics.steps import Step
from console.analytics.tables import TABLES
from metaserver import queries
from spark_analytics.local_rows import local_frame
from spark_analytics.transforms.frames import OWNERS
from spark_analytics.transforms.outputs import SCHEMAS

SUMMARY_ROWS_MAX = 5_000_000
"""Rows of a summary table that one window's computation may look back on."""


class TooManyRows(Exception):
    """More rows of a summary table than the driver takes."""


def owners(spark: SparkSession) -> DataFrame:
    """Return each subject and its current owner (OWNERS); an empty team means no owner."""
    found = queries.subjects().order_by().values_list("name", "owner__name")
    rows = [(str(subject), str(team or "")) for subject, team in found]
    return local_frame(spark, rows, OWNERS)


def summary(
    spark: SparkSession, table: str, from_ms: int, to_ms: int, steps: Sequence[int], times_of_day: Window | None = None
) -> DataFrame:
    """Rows of a summary table that begin in [from, to) at some steps, with `step_ms` and `at_ms`.

    Args:
        steps: in ms.
        times_of_day: only rows that begin at these times of their days (ms since midnight, UTC). Of each key the moment of its
            first row is included anyway, with zeros for numbers: because the start of its history matters.

    Raises:
        TooManyRows: there are more than SUMMARY_ROWS_MAX.
    """
    schema = SCHEMAS[table]
    columns = {column.name for column in TABLES[table].columns}
    names = ["step_ms", "at_ms", *(name for name in schema.names if name in columns)]
    seconds = [step // 1000 for step in steps]
    every = TABLES[table].model._default_manager.filter(at_ms__gte=from_ms, at_ms__lt=to_ms, step_seconds__in=seconds)
    every = every.annotate(step_ms=F("step_seconds") * 1000)
    found = every.order_by()
    if times_of_day is not None:
        of_day = found.annotate(of_day=F("at_ms") % Step.DAY.ms)
        found = of_day.filter(of_day__gte=times_of_day.from_ms, of_day__lt=times_of_day.to_ms)
    rows: list[tuple[Any, ...]] = list(found.values_list(*names)[: SUMMARY_ROWS_MAX + 1])
    if len(rows) > SUMMARY_ROWS_MAX:
        raise TooManyRows(f"{table}: more than {SUMMARY_ROWS_MAX} rows from {from_ms} to {to_ms}")
    if times_of_day is not None:
        rows += _first_rows(every, TABLES[table].model.key, names, times_of_day)
    return local_frame(spark, rows, StructType([schema[name] for name in names]))


def _first_rows(
    every: "QuerySet[Any]", key: Sequence[str], names: Sequence[str], left_out: Window
) -> Iterator[tuple[Any, ...]]:
    """A row of zeros at each key's first moment, but for moments that are read anyway."""
    firsts = every.order_by().values("step_ms", *key).annotate(at_ms=Min("at_ms"))
    for found in firsts:
        if not left_out.from_ms <= found["at_ms"] % Step.DAY.ms < left_out.to_ms:
            yield tuple(found.get(name, 0) for name in names)
