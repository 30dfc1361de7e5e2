"""Snapshots in the collector's form."""

from datetime import UTC, datetime, timedelta
from typing import Any

BEGIN = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """So many seconds after the tests' beginning of time."""
    return BEGIN + timedelta(seconds=seconds)


def node(reason: str | None = None, **fields: Any) -> dict[str, Any]:
    """A node's entry."""
    known = {"state": "read_write", "disk_free_bytes": 50, **fields}
    return {"reason": reason, **(known if reason is None else dict.fromkeys(known))}


def group(lag: int | None = 0, time_lag_seconds: float | None = 0.0, reason: str | None = None) -> dict[str, Any]:
    """A consumer group's entry."""
    return {"lag": lag, "time_lag_seconds": time_lag_seconds, "reason": reason if lag is None else None}


def snapshot(
    groups: dict[str, dict[str, Any]] | None = None,
    nodes: dict[str, dict[str, Any]] | None = None,
    sent: dict[str, int | None] | None = None,
) -> dict[str, Any]:
    """Groups by subject/group, nodes, and how many messages subjects have had."""
    return {
        "groups": {key.replace("/", "\n"): entry for key, entry in (groups or {}).items()},
        "nodes": {"node-1": node()} if nodes is None else nodes,
        "subjects": {
            name: {"sent_messages": count, "reason": None if count is not None else "away"}
            for name, count in (sent or {}).items()
        },
    }


def lagging(lag: int | None, target: str = "orders/billing") -> dict[str, Any]:
    """A snapshot with one group's lag."""
    return snapshot({target: group(lag, reason="node-1 is away")})
