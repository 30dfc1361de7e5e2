"""The system at a glance, and consumer groups' live lag, from the collector's newest numbers and the database."""

import heapq
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from redis.exceptions import RedisError

from console.alerts import queries as alert_queries
from console.cluster.group_numbers import total
from console.jobs import jobs
from console.reports.lag_table import TABLES, LagTable, is_internal, lag_row, lag_value, table_keys
from console.reports.subject_table import TABLES as SUBJECT_TABLES
from console.reports.subject_table import SubjectTable
from console.snapshot.bus import SNAPSHOT_MS, read_stored
from console.snapshot.state import group_key
from console.times import rfc3339
from metaserver import queries
from metaserver.choices import GroupState, effective_state

WORST = 5

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
        return Numbers(None, None, f"Redis is not responding: {error}")
    if snapshot is None:
        return Numbers(None, None, "The collector has not reported recently. Check that it is running.")
    at_ms = int(snapshot["at_ms"])
    if time.time() * 1000 - at_ms > SNAPSHOT_MS:
        reason = "The latest measurements are outdated. Check that the collector is running."
        return Numbers(None, rfc3339(at_ms), reason)
    return Numbers(snapshot["state"], rfc3339(at_ms), None)


def lag_table(live: Numbers, subject: str | None = None) -> LagTable:
    """The lag of each consumer group that is known: measured, or in the database. Retries count at their group, and are no row.

    Args:
        subject: only of this; not one that the database can't hold.
    """
    groups: Mapping[str, Any] = live.state["groups"] if live.state is not None else {}
    reason = live.reason or "no consumer of this group has pulled yet"
    if subject is None:
        return TABLES.newest(groups, reason)
    prefix = group_key(subject, "")
    measured = {key: groups[key] for key in groups if key.startswith(prefix)}
    names = queries.consumer_groups().filter(subject__name=subject).values_list("name", flat=True)
    return LagTable(measured, table_keys(measured, {prefix + name for name in names}), reason)


def subject_table(live: Numbers) -> SubjectTable:
    """All subjects with what is measured of them."""
    return SUBJECT_TABLES.newest(live.state["subjects"] if live.state is not None else {})


def node_numbers(live: Numbers) -> dict[str, dict[str, Any]]:
    """By node id: NODE_NUMBERS, each None where it was not measured, and `unmeasured_reason`."""
    found = {}
    for name, entry in (live.state or {}).get("nodes", {}).items():
        numbers = {field: entry.get(field) for field in NODE_NUMBERS} | {"unmeasured_reason": entry["reason"]}
        free, total = numbers["disk_free_bytes"], numbers["disk_total_bytes"]
        numbers["disk_used_bytes"] = None if free is None or total is None else total - free
        found[name] = numbers
    return found


def overview() -> dict[str, Any]:
    """Everything of the start page."""
    live = numbers()
    groups = list(queries.approved_broker_groups().prefetch_related("nodes"))
    states = Counter(effective_state(group.state, group.operator_state) for group in groups)
    return {
        "subjects": queries.subjects().count(),
        "consumer_groups": queries.consumer_groups().count(),
        "broker_groups": {str(state): states[state] for state in GroupState},
        "nodes": sum(len(group.nodes.all()) for group in groups),
        "subjects_moving": queries.routes().filter(has_phases=True).count(),
        "alerts_firing": alert_queries.firing_counts(),
        "jobs_late": [state.job.name for state in jobs.states() if state.is_late],
        "measured_at": live.at,
        "unmeasured_reason": live.reason,
        **(_totals(live.state) if live.state is not None else _UNKNOWN),
    }


def _summary(state: Mapping[str, Any]) -> dict[str, Any]:
    """The rates and the lag of all groups, and the WORST of them by known lag. Retries count at their group."""
    entries, subjects = list(state["groups"].values()), list(state["subjects"].values())
    missing = sorted({name for entry in subjects for name in entry.get("missing", ())})
    behind = (entry for entry in entries if entry["lag"] != 0 and not is_internal(entry["subject"]))
    return {
        "send_rate": total("send_rate", subjects, 2),
        "ack_rate": total("ack_rate", entries, 2),
        "lag": total("lag", entries),
        "known": {
            "send_rate": _known_sum(subjects, "send_rate"),
            "ack_rate": _known_sum(entries, "ack_rate"),
            "lag": _known_sum(entries, "lag"),
            "missing": missing,
            "reason": None if missing else _reason(subjects, "send_rate") or _reason(entries, "ack_rate", "lag"),
        },
        "worst": [lag_row(entry) for entry in heapq.nsmallest(WORST, behind, key=_highest_first)],
    }


class _Totals:
    """The summary of the latest snapshot, shared by requests between two cycles."""

    def __init__(self) -> None:
        self._newest: tuple[Mapping[str, Any], dict[str, Any]] | None = None

    def __call__(self, state: Mapping[str, Any]) -> dict[str, Any]:
        newest = self._newest
        if newest is None or newest[0] is not state:
            newest = self._newest = (state, _summary(state))
        return newest[1]


_totals = _Totals()
_UNKNOWN: dict[str, Any] = {"send_rate": None, "ack_rate": None, "lag": None, "known": None, "worst": []}


def _highest_first(entry: Mapping[str, Any]) -> float:
    """Orders by lag, by the last known one where it can't be measured; those without any come last."""
    lag = lag_value(entry, "lag")
    return float("inf") if lag is None else -float(lag)


def _known_sum(entries: Iterable[Mapping[str, Any]], field: str) -> float:
    """The sum of what is known: of entries that are not measured completely, what the reachable broker groups report."""
    total = 0.0
    for entry in entries:
        value = entry.get(field)
        if value is None:
            value = (entry.get("at_least") or {}).get(field)
        total += value or 0
    return round(total, 2)


def _reason(entries: Iterable[Mapping[str, Any]], *fields: str) -> str | None:
    """Why one of these fields is unknown; None: all entries have them."""
    return next((entry["reason"] for entry in entries if any(entry.get(field) is None for field in fields)), None)
