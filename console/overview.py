"""The system at a glance, and consumer groups' live lag, from the collector's newest numbers and the database."""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from redis.exceptions import RedisError

from console import tasks  # noqa: F401 - importing it makes the loops known
from console.alerts import queries as alert_queries
from console.alerts.models import AlertState
from console.live.bus import SNAPSHOT_MS, read_stored
from console.live.lag_state import LagState
from console.live.state import group_key, rfc3339
from console.tasks import loops
from metaserver import queries
from metaserver.choices import GroupState, OperatorState
from metaserver.services.changes import text_problem
from qmq.protocol.names import split_subject

WORST = 5
LAG_FIELDS = (
    "subject", "group", "backlog", "in_flight", "lag", "time_lag_seconds", "pull_rate", "ack_rate", "drain_seconds", "is_draining",
    "consumers_online", "is_paused", "retry_lag", "withheld", "state", "reason",
)  # fmt: skip


NODE_NUMBERS = (
    "disk_used_bytes", "disk_free_bytes", "disk_total_bytes", "connections", "uptime_seconds", "pending", "overdue",
    "lateness_p99_seconds",
)  # fmt: skip
"""What the collector measures of a node; the last three of delay nodes only."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The live state, and when it was measured; None with the reason when there is none."""

    state: Mapping[str, Any] | None
    at: str | None
    reason: str | None


def numbers() -> Numbers:
    """The collector's newest numbers; old ones are none."""
    try:
        snapshot, _ = read_stored(settings.REDIS_URL)
    except RedisError as error:
        return Numbers(None, None, f"Redis does not answer: {error}")
    if snapshot is None:
        return Numbers(None, None, "the collector has measured nothing in the last seconds; does it run?")
    at_ms = int(snapshot["at_ms"])
    if time.time() * 1000 - at_ms > SNAPSHOT_MS:
        return Numbers(None, rfc3339(at_ms), "the newest numbers are old; does the collector run?")
    return Numbers(snapshot["state"], rfc3339(at_ms), None)


def lag_rows(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every consumer group's lag, those that read retries too."""
    return [_lag_row(entry) for entry in state["groups"].values()]


def _lag_row(entry: Mapping[str, Any]) -> dict[str, Any]:
    row = {name: entry.get(name) for name in LAG_FIELDS}
    if row["withheld"] is None and row["lag"] is not None:
        # Live entries have the number only where it is not 0.
        row["withheld"] = 0
    return row


def lag_of_all(live: Numbers, subject: str | None = None, group: str | None = None) -> list[dict[str, Any]]:
    """The lag of each consumer group that is known: measured, or in the database. Retries count at their group, and are no row.

    Args:
        subject, group: only these; with both, the cost is that of one group.
    """
    rows: list[dict[str, Any]] = []
    if text_problem(subject or "") or text_problem(group or ""):
        return rows
    if live.state is not None:
        rows = [
            _lag_row(entry) for entry in _lag_entries(live.state, subject, group) if not is_internal(entry["subject"])
        ]
    measured = {(row["subject"], row["group"]) for row in rows}
    reason = live.reason or "no broker has a position of it yet: nobody has pulled as this group"
    known = queries.consumer_groups()
    if subject is not None:
        known = known.filter(subject__name=subject)
    if group is not None:
        known = known.filter(name=group)
    for subject, group in known.values_list("subject__name", "name"):
        if (subject, group) not in measured:
            unknown = dict.fromkeys(LAG_FIELDS, None)
            rows.append(
                unknown | {"subject": subject, "group": group, "state": LagState.UNKNOWN.value, "reason": reason}
            )
    return rows


def _lag_entries(state: Mapping[str, Any], subject: str | None, group: str | None) -> list[Mapping[str, Any]]:
    entries = state["groups"]
    if subject is not None and group is not None:
        entry = entries.get(group_key(subject, group))
        return [] if entry is None else [entry]
    return [
        entry
        for entry in entries.values()
        if (subject is None or entry["subject"] == subject) and (group is None or entry["group"] == group)
    ]


def is_internal(subject: str) -> bool:
    """Whether it holds some group's retries or dead letters."""
    return split_subject(subject).kind != "real"


def lag_value(row: Mapping[str, Any], field: str) -> Any:
    """What a row is ordered by: a lag that never drains takes longer than any; None: unknown."""
    if field == "drain_seconds" and row["is_draining"] is False:
        return float("inf")
    return row[field]


def node_numbers(live: Numbers) -> dict[str, dict[str, Any]]:
    """By node id: NODE_NUMBERS, each None where it was not measured, and `unmeasured_reason`."""
    found = {}
    for name, entry in (live.state or {}).get("nodes", {}).items():
        numbers = {field: entry.get(field) for field in NODE_NUMBERS} | {"unmeasured_reason": entry["reason"]}
        free, total = numbers["disk_free_bytes"], numbers["disk_total_bytes"]
        numbers["disk_used_bytes"] = None if free is None or total is None else total - free
        found[name] = numbers
    return found


def by_lag(row: Mapping[str, Any], field: str) -> float:
    """A key that sorts the largest first, and what is unknown before all: somebody should look at it."""
    value = row[field]
    return float("-inf") if value is None else -float(value)


def overview() -> dict[str, Any]:
    """Everything of the start page."""
    live = numbers()
    groups = list(queries.approved_broker_groups().prefetch_related("nodes"))
    states = Counter(
        str(GroupState.READ_ONLY)
        if group.operator_state != OperatorState.NORMAL and group.state == GroupState.READ_WRITE
        else group.state
        for group in groups
    )
    firing = alert_queries.alerts().filter(state=AlertState.FIRING).values_list("rule__severity", flat=True)
    found: dict[str, Any] = {
        "subjects": queries.subjects().count(),
        "consumer_groups": queries.consumer_groups().count(),
        "broker_groups": {str(state): states.get(str(state), 0) for state in GroupState},
        "nodes": sum(len(group.nodes.all()) for group in groups),
        "subjects_moving": queries.routes().filter(has_phases=True).count(),
        "alerts_firing": dict(Counter(firing)),
        "tasks_late": [state.loop.name for state in loops.states() if state.is_late],
        "measured_at": live.at,
        "unmeasured_reason": live.reason,
        "send_rate": None,
        "ack_rate": None,
        "lag": None,
        "worst": [],
    }
    if live.state is not None:
        rows = lag_rows(live.state)
        found |= {
            "send_rate": _sum(entry.get("send_rate") for entry in live.state["subjects"].values()),
            "ack_rate": _sum(row["ack_rate"] for row in rows),
            "lag": _sum(row["lag"] for row in rows),
            "worst": [
                row
                for row in sorted(rows, key=lambda row: by_lag(row, "time_lag_seconds"))
                if row["time_lag_seconds"] != 0
            ][:WORST],
        }
    return found


def _sum(values: Any) -> Any:
    """The sum; None where a part is unknown."""
    found = list(values)
    return None if any(value is None for value in found) else round(sum(found), 2)
