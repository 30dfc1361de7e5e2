"""Rows of summary tables for tests."""

from enum import StrEnum
from typing import Any

from console.analytics.tables import TABLES


def lag_row(at_ms: int, subject: str = "orders", group: str = "billing", **values: Any) -> dict[str, Any]:
    """A row of `lag`; what is not given is not known."""
    return summary_row("lag", at_ms, subject=subject, group=group, **values)


def latency_row(at_ms: int, **values: Any) -> dict[str, Any]:
    """A row of `latencies`."""
    figures = {f"{name}_ms": float(number) for number, name in enumerate(("mean", "p50", "p90", "p99", "p999", "max"))}
    key = {"subject": "orders", "group": "billing", "kind": "handling"}
    return {"at_ms": at_ms, **key, "messages": 3, **figures, **values}


def summary_row(table: str, at_ms: int, **values: Any) -> dict[str, Any]:
    """A row of a table, with choices as texts; what is not given is not known."""
    known = {name: value.value if isinstance(value, StrEnum) else value for name, value in values.items()}
    return {"at_ms": at_ms, **{column.name: None for column in TABLES[table].columns}, **known}
