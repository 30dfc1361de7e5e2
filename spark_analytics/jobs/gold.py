"""What jobs publish, all of it, in the lake: hours and days of each summary table in `gold_TABLE`, minutes and ten minutes in
`gold_TABLE_minutes`. The database has what pages need."""

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from console.analytics.rows import Window
from console.analytics.steps import Step
from spark_analytics.lake import Lake
from spark_analytics.lake.tables import GOLD, MINUTES, TABLES

Publications = tuple[tuple[Step, Window], ...]
EVER = Window(0, 1 << 62)
"""The window of a table that looks ahead: it is replaced whole."""
DRIVER_ROWS_MAX = 500_000
"""Most rows of the hours or days that are written again without Spark."""


def keep(lake: Lake, table: str, rows: DataFrame | pa.Table, publications: Publications) -> None:
    """Make these rows what gold has of the windows at the steps, in one commit of each table of gold.

    Hours or days that a window touches are written again, with what is in them of other steps and moments.

    A kill between the two commits leaves new minutes beside the hours and days that were there. It does no harm: each table has
    whole rows, none is computed from the other, and the run did not finish, so its windows are due again and replaced in both.

    Args:
        rows: of the summary table, those of the publications alone; as an Arrow table when the driver has them.
    """
    short = tuple(each for each in publications if each[0].ms < Step.HOUR.ms)
    long = tuple(each for each in publications if each[0].ms >= Step.HOUR.ms)
    for name, published in ((GOLD + table + MINUTES, short), (GOLD + table, long)):
        if published:
            _replace(lake, name, _of_steps(rows, published), published)


def _replace(lake: Lake, name: str, rows: DataFrame | pa.Table, publications: Publications) -> None:
    """The same in one table of gold, with the rows of its steps."""
    is_whole = all(window == EVER for _, window in publications)
    part_ms = TABLES[name].part_ms
    begin = min(window.from_ms for _, window in publications)
    end = max(window.to_ms for _, window in publications)
    begin, end = begin - begin % part_ms, end + -end % part_ms
    before = 0 if is_whole else sum(item.rows for item in lake.files_of(name, begin, end))
    names = TABLES[name].schema.names
    if isinstance(rows, pa.Table) and before <= DRIVER_ROWS_MAX:
        schema = to_arrow_schema(TABLES[name].schema, timezone="UTC")
        at = rows.column("at_ms").cast(pa.timestamp("ms", "UTC"))
        found = rows.append_column("at", at).select(names).cast(schema)
        if before:
            known = lake.arrow(name, begin, end)
            found = pa.concat_tables([found, known.filter(pc.invert(_is_published(known, publications)))])
        lake.replace(name, found, begin, end)
        return
    frame = rows if isinstance(rows, DataFrame) else lake.spark.createDataFrame(rows)
    gold = frame.withColumn("at", F.timestamp_millis("at_ms")).select(*names)
    if before:
        known = lake.read(name, begin, end).withColumn("at_ms", F.unix_millis("at"))
        is_published = reduce(Column.__or__, (is_of(*each) for each in publications))
        gold = gold.unionByName(known.where(~is_published).select(*names))
    lake.replace(name, gold, begin, end)


def _of_steps(rows: DataFrame | pa.Table, publications: Publications) -> DataFrame | pa.Table:
    steps_ms = sorted({step.ms for step, _ in publications})
    if isinstance(rows, DataFrame):
        return rows.where(F.col("step_ms").isin(steps_ms))
    return rows.filter(pc.is_in(rows.column("step_ms"), pa.array(steps_ms)))


def is_of(step: Step, window: Window) -> Column:
    """Whether a row of a summary table is of this step, and begins in this window."""
    at_ms = F.col("at_ms")
    return (F.col("step_ms") == step.ms) & (at_ms >= window.from_ms) & (at_ms < window.to_ms)


def _is_published(known: pa.Table, publications: Publications) -> pa.ChunkedArray:
    """Which rows of gold are of one of these steps and begin in its window."""
    step_ms, at_ms = known.column("step_ms"), known.column("at").cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    masks = [
        pc.and_(
            pc.equal(step_ms, step.ms),
            pc.and_(pc.greater_equal(at_ms, window.from_ms), pc.less(at_ms, window.to_ms)),
        )
        for step, window in publications
    ]
    return reduce(pc.or_, masks)
