"""What jobs have published: in the database, and in gold."""

from typing import Any

import pytest

from console.analytics.rows import Window
from console.analytics.tables import TABLES
from spark_analytics.lake import Lake
from spark_analytics.lake.tables import TABLES as TABLES_OF_LAKE


def published(*tables: str) -> dict[str, list[dict[str, Any]]]:
    """All rows of summary tables, without who made them."""
    found = {}
    for name in tables or tuple(TABLES):
        columns = [column.name for column in TABLES[name].columns]
        rows = TABLES[name].model._default_manager.order_by("step_seconds", "at_ms", *TABLES[name].model.key)
        found[name] = [
            {key: bytes(value) if isinstance(value, memoryview) else value for key, value in row.items()}
            for row in rows.values("step_seconds", "at_ms", *columns)
        ]
    return found


def gold(lake: Lake, table: str, window: Window) -> list[dict[str, Any]]:
    """What gold has of a window, as `published` tells it."""
    names = (name for name in (f"gold_{table}", f"gold_{table}_minutes") if name in TABLES_OF_LAKE)
    rows = [row for name in names for row in lake.arrow(name, window.from_ms, window.to_ms).to_pylist()]
    moments = [round(row.pop("at").timestamp() * 1000) for row in rows]
    found = [
        {"step_seconds": row.pop("step_ms") // 1000, "at_ms": at_ms, **row}
        for row, at_ms in zip(rows, moments, strict=True)
        if window.from_ms <= at_ms < window.to_ms
    ]
    return sorted(found, key=lambda row: [row[name] for name in ("step_seconds", "at_ms", *TABLES[table].model.key)])


def close(one: Any, other: Any) -> bool:
    """The same, but for the order in which sums of fractions were made."""
    return one == other or (isinstance(one, float) and one == pytest.approx(other, rel=1e-9))


def assert_same(one: dict[str, list[dict[str, Any]]], other: dict[str, list[dict[str, Any]]]) -> None:
    for table, rows in one.items():
        assert len(rows) == len(other[table]), table
        for row, expected in zip(rows, other[table], strict=True):
            assert all(close(row[name], expected[name]) for name in expected), (table, row, expected)
