"""From frames into summary tables, through the console's services."""

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from django.conf import settings
from pyspark.sql import Column, DataFrame
from pyspark.sql import Window as Partition
from pyspark.sql import functions as F

from console.analytics import services
from console.analytics.models import AnalyticsRun
from console.analytics.rows import PUBLISH_ROWS_MAX, Window
from console.analytics.steps import Step
from console.analytics.tables import TABLES
from spark_analytics.jobs.planning import portions

Publications = tuple[tuple[Step, Window], ...]
AHEAD = Window(0, 1 << 62)
DICTS_AT_ONCE = 10_000
"""Rows that are Python objects at a time."""


def publish(
    run: AnalyticsRun,
    table: str,
    rows: DataFrame,
    publications: Publications,
    *,
    is_ahead: bool = False,
) -> int:
    """Make these rows what a summary table says of the windows at the steps; how many were written.

    Every step is published, one without rows too: what was there before goes. Each publication has no more than
    PUBLISH_ROWS_MAX rows and is one transaction, so that a kill leaves whole ones; a single moment with more rows, or a table
    that looks ahead, is several, which readers see when the last one is done (services.publish). Of a minute or ten minutes at most
    ANALYTICS_MINUTE_ROWS_MAX rows are published: those that rank highest.

    Args:
        rows: the table's columns with `step_ms` and `at_ms`; rows of other steps and moments are left out.
        is_ahead: the table is replaced whole, whatever the windows.
    """
    # What other jobs use too is cached already, and stays cached.
    is_ours = not rows.is_cached
    kept = rows if is_ahead else rows.where(reduce(Column.__or__, (_is_of(*each) for each in publications)))
    kept = kept.persist() if is_ours else rows
    try:
        counted = kept.groupBy("step_ms", "at_ms").count().collect()
        totals = {(row["step_ms"], row["at_ms"]): row["count"] for row in counted}
        most = settings.ANALYTICS_MINUTE_ROWS_MAX
        ranked_by = TABLES[table].model.ranked_by
        over = {key: total for key, total in totals.items() if ranked_by and key[0] < Step.HOUR.ms and total > most}
        counts = totals | dict.fromkeys(over, most)
        chosen = _highest(kept, table, most) if over else kept
        whole = chosen.toArrow() if sum(counts.values()) <= PUBLISH_ROWS_MAX else None
        written = 0
        for step, requested in publications:
            window = AHEAD if is_ahead else requested
            moments = [
                (at_ms, count)
                for (step_ms, at_ms), count in sorted(counts.items())
                if step_ms == step.ms and window.from_ms <= at_ms < window.to_ms
            ]
            parts = [window] if is_ahead else portions(moments, window, PUBLISH_ROWS_MAX)
            for part in parts:
                found = _rows_of(chosen, step, part) if whole is None else _select(whole, step, part)
                written += services.publish(
                    run,
                    table,
                    _mappings(found.drop_columns(["step_ms"])),
                    step=step,
                    window=None if is_ahead else part,
                    totals={
                        at_ms: total
                        for (step_ms, at_ms), total in over.items()
                        if step_ms == step.ms and part.from_ms <= at_ms < part.to_ms
                    },
                )
        return written
    finally:
        if is_ours:
            kept.unpersist()


def _highest(rows: DataFrame, table: str, most: int) -> DataFrame:
    """The rows, but of each minute and ten minutes only this number: those with the highest values of the column that ranks them,
    of equal values the first keys."""
    model = TABLES[table].model
    order = (F.col(model.ranked_by).desc_nulls_last(), *map(F.col, model.key))
    place = F.row_number().over(Partition.partitionBy("step_ms", "at_ms").orderBy(*order))
    short = rows.where(F.col("step_ms") < Step.HOUR.ms).withColumn("place", place)
    return short.where(F.col("place") <= most).drop("place").union(rows.where(F.col("step_ms") >= Step.HOUR.ms))


def _mappings(table: pa.Table) -> Iterator[Mapping[str, Any]]:
    for batch in table.to_batches(max_chunksize=DICTS_AT_ONCE):
        yield from batch.to_pylist()


def _select(table: pa.Table, step: Step, window: Window) -> pa.Table:
    at_ms = table.column("at_ms")
    is_meant = pc.and_(pc.greater_equal(at_ms, window.from_ms), pc.less(at_ms, window.to_ms))
    return table.filter(pc.and_(is_meant, pc.equal(table.column("step_ms"), step.ms)))


def _rows_of(frame: DataFrame, step: Step, window: Window) -> pa.Table:
    return frame.where(_is_of(step, window)).toArrow()


def _is_of(step: Step, window: Window) -> Column:
    at_ms = F.col("at_ms")
    return (F.col("step_ms") == step.ms) & (at_ms >= window.from_ms) & (at_ms < window.to_ms)
