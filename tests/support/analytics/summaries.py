"""Rows of summary tables for tests."""

from typing import Any

from console.analytics.tables import TABLES


def lag_row(at_ms: int, subject: str = "orders", group: str = "billing", **values: Any) -> dict[str, Any]:
    """A row of `lag`; what is not given is not known."""
    unknown = {column.name: None for column in TABLES["lag"].columns}
    return {"at_ms": at_ms, **unknown, "subject": subject, "group": group, **values}


def latency_row(at_ms: int, **values: Any) -> dict[str, Any]:
    """A row of `latencies`."""
    figures = {f"{name}_ms": float(number) for number, name in enumerate(("mean", "p50", "p90", "p99", "p999", "max"))}
    key = {"subject": "orders", "group": "billing", "kind": "handling"}
    return {"at_ms": at_ms, **key, "messages": 3, **figures, **values}
