"""From frames into summary tables, through the console's services."""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from console.analytics import services
from console.analytics.models import AnalyticsRun
from console.analytics.rows import PUBLISH_ROWS_MAX, Window
from console.analytics.steps import Step
from spark_analytics.jobs.planning import portions

Publications = tuple[tuple[Step, Window], ...]
AHEAD = Window(0, 1 << 62)


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
    PUBLISH_ROWS_MAX rows and is one transaction, so that a kill leaves whole ones.

    Args:
        rows: the table's columns with `step_ms` and `at_ms`; rows of other steps and moments are left out.
        is_ahead: the table is replaced whole, whatever the windows.

    Raises:
        ValueError: more than PUBLISH_ROWS_MAX rows begin at one moment, or that many look ahead.
    """
    # What other jobs use too is cached already, and stays cached.
    is_ours = not rows.is_cached
    kept = rows.persist() if is_ours else rows
    try:
        counted = (
            kept.groupBy("step_ms", "at_ms")
            .count()
            .toArrow()
            .sort_by([("step_ms", "ascending"), ("at_ms", "ascending")])
        )
        whole = kept.toArrow() if sum(counted.column("count").to_pylist()) <= PUBLISH_ROWS_MAX else None
        written = 0
        for step, requested in publications:
            window = AHEAD if is_ahead else requested
            moments = [
                (row["at_ms"], row["count"])
                for row in counted.to_pylist()
                if row["step_ms"] == step.ms and window.from_ms <= row["at_ms"] < window.to_ms
            ]
            parts = [window] if is_ahead else portions(moments, window, PUBLISH_ROWS_MAX)
            for part in parts:
                found = _rows_of(kept, step, part) if whole is None else _select(whole, step, part)
                published = found.drop_columns(["step_ms"]).to_pylist()
                services.publish(run, table, published, step=step, window=None if is_ahead else part)
                written += found.num_rows
        return written
    finally:
        if is_ours:
            kept.unpersist()


def _select(table: pa.Table, step: Step, window: Window) -> pa.Table:
    at_ms = table.column("at_ms")
    is_meant = pc.and_(pc.greater_equal(at_ms, window.from_ms), pc.less(at_ms, window.to_ms))
    return table.filter(pc.and_(is_meant, pc.equal(table.column("step_ms"), step.ms)))


def _rows_of(frame: DataFrame, step: Step, window: Window) -> pa.Table:
    at_ms = F.col("at_ms")
    return frame.where((F.col("step_ms") == step.ms) & (at_ms >= window.from_ms) & (at_ms < window.to_ms)).toArrow()
