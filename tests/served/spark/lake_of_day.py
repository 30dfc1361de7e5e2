"""A lake filled with a simulated day, as ingestion would have filled it."""

from spark_analytics.lake import Lake
from spark_analytics.lake.delta import Change
from spark_analytics.lake.lake import WATERMARK_SECONDS
from spark_analytics.lake.tables import STREAMED, TABLES
from tests.support.analytics.frames import frame
from tests.support.analytics.simulated_day import Day, rows_of

FILLED = (*STREAMED, "nodes", "ranges")


def fill(lake: Lake, day: Day, known_to_ms: int | None = None) -> None:
    """Append the day's rows to the lake's tables; the watermark then is `known_to_ms`, the day's end by default."""
    rows = rows_of(day)
    rows["ranges"] = {"sampled_at" if name == "at_ms" else name: values for name, values in rows["ranges"].items()}
    for table in FILLED:
        lake.append(table, frame(lake.spark, rows[table], TABLES[table].schema).coalesce(1))
    know(lake, day, known_to_ms if known_to_ms is not None else day.first_ms + 86_400_000)


def know(lake: Lake, day: Day, to_ms: int) -> None:
    """Everything up to a moment is in the lake."""
    groups = sorted({message.broker_group for message in day.record.messages})
    for table in STREAMED:
        told = dict.fromkeys(groups, to_ms + WATERMARK_SECONDS * 1000)
        lake.commit(table, lake.snapshot(table), Change(watermarks=told))
