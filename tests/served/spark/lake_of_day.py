"""A lake filled with a simulated day, as ingestion would have filled it."""

from collections.abc import Callable, Mapping, Set
from types import MappingProxyType

from spark_analytics.lake import Lake
from spark_analytics.lake.delta import Change
from spark_analytics.lake.lake import WATERMARK_SECONDS
from spark_analytics.lake.tables import STREAMED, TABLES
from tests.support.analytics.frames import frame
from tests.support.analytics.simulated_day import Columns, Day, rows_of

FILLED = (*STREAMED, "nodes", "ranges")


def fill(
    lake: Lake, day: Day, known_to_ms: int | None = None, late: Mapping[str, Set[int]] = MappingProxyType({})
) -> None:
    """Append the day's rows to the lake's tables; the watermark then is `known_to_ms`, the day's end by default.

    Args:
        late: table -> numbers of its rows that are not there yet.
    """
    rows = rows_of(day)
    rows["ranges"] = {"sampled_at" if name == "at_ms" else name: values for name, values in rows["ranges"].items()}
    for table in FILLED:
        there = picked(rows[table], lambda number, away=late.get(table, frozenset()): number not in away)
        lake.append(table, frame(lake.spark, there, TABLES[table].schema).coalesce(1))
    know(lake, day, known_to_ms if known_to_ms is not None else day.first_ms + 86_400_000)


def add_late(lake: Lake, day: Day, late: Mapping[str, Set[int]]) -> None:
    """Append the rows that were not there."""
    for table, numbers in late.items():
        rows = picked(rows_of(day)[table], numbers.__contains__)
        added = frame(lake.spark, rows, TABLES[table].schema).coalesce(1)
        lake.append(table, added, late_before_ms=lake.watermark_ms((table,)))


def picked(columns: Columns, is_wanted: Callable[[int], bool]) -> Columns:
    """Some of the rows, by their number."""
    return {
        name: [value for number, value in enumerate(values) if is_wanted(number)] for name, values in columns.items()
    }


def know(lake: Lake, day: Day, to_ms: int) -> None:
    """Everything up to a moment is in the lake."""
    groups = sorted({message.broker_group for message in day.record.messages})
    for table in STREAMED:
        told = dict.fromkeys(groups, to_ms + WATERMARK_SECONDS * 1000)
        lake.commit(table, lake.snapshot(table), Change(watermarks=told))
