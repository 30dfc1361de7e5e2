"""The values that rules evaluate, from the collector's snapshot (console/snapshot/state.py), whose fields only this module knows.
Pure.

An entry of the snapshot is measured when its `reason` is None; a field that could not be measured is None.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from console.alerts.arrivals import Arrivals, within
from console.alerts.rules import Kind
from console.outbox.models import OutboxDatabase
from console.outbox.numbers import Numbers, Unknown
from metaserver.choices import GroupState
from metaserver.memory.members import Member, Members
from qmq.protocol.names import retry_subject, split_subject
from qmq.protocol.reasons import NO_REASON, Code, Reason, joined

READINGS_MAX = 100_000
"""Maximum number of readings of one evaluation, and of those from analytics; others are ignored and counted in the result."""
STATE_LEVELS = {"read_write": 0.0, "read_only": 1.0, "write_only": 1.0, "offline": 2.0}
SILENT_SECONDS = 5.0
"""A broker group counts as offline when none of its nodes has responded to the collector for so long, and no heartbeat of them
that is newer was stored: one witness that is slow or cut off raises no alert. Heartbeats of running nodes are stored within
STORED_LEASE_SECONDS."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One number of one target; None with the reason when it could not be measured."""

    kind: Kind
    target: str
    value: float | None
    reason: str = ""
    subject: str = ""
    """The subject it is about, whose owner is the alert's; "" for nodes, broker groups, jobs."""
    retries: int | None = None
    """Of a consumer group: the pending retries that its lag contains."""
    is_consequence: bool = False
    """Not measured because a node is unavailable; the alert is raised for the node."""
    owner: str = ""
    """The alert's owner, where it is not that of a subject."""
    why: Reason = NO_REASON
    """What has led to the value; "" if that is not known."""


@dataclass(frozen=True, slots=True)
class JobRun:
    """A background job: how often it should run, and seconds since it last succeeded (None: it never did)."""

    name: str
    interval_seconds: float
    succeeded_before_seconds: float | None
    is_new: bool = False
    """It has not been due yet, or runs for the first time."""


def _read(kind: Kind, target: str, value: float | None, reason: str, *others: Any) -> Reading:
    """A reading whose reason is that of a value that could not be measured."""
    return Reading(kind, target, value, reason if value is None else "", *others)


COLLECTOR = "collector"
"""The target that is unknown while there is no snapshot at all."""


def of_snapshot(snapshot: Mapping[str, Any] | None) -> Iterator[Reading]:
    """What is read of consumer groups and nodes, and for each of them if it could be measured."""
    if snapshot is None:
        yield Reading(Kind.UNKNOWN, COLLECTOR, 1.0, "no live data")
        return
    yield Reading(Kind.UNKNOWN, COLLECTOR, 0.0)
    is_all, groups = is_complete(snapshot), snapshot.get("groups", {})
    for key, entry in groups.items():
        # Keys are "subject<line end>group"; neither name holds a line end or '/'.
        subject, _, group = str(key).partition("\n")
        parts = split_subject(subject)
        if parts.kind == "retry" and parts.group == group:
            if f"{parts.subject}\n{group}" not in groups:
                yield from _of_group(parts.subject, group, {"lag": 0, "time_lag_seconds": 0.0}, entry, is_all)
        elif parts.kind == "dead":
            yield from _of_group(subject, group, entry, None, is_all)
        else:
            retries = groups.get(f"{retry_subject(subject, group)}\n{group}")
            yield from _of_group(subject, group, entry, retries, is_all)
    yield from of_nodes(snapshot)


def of_nodes(snapshot: Mapping[str, Any] | None) -> Iterator[Reading]:
    """What is read of nodes, and for each of them if it could be measured."""
    for node_id, entry in (snapshot or {}).get("nodes", {}).items():
        yield from _of_node(storable(node_id), entry)


def dead_letter_counts(snapshot: Mapping[str, Any]) -> dict[str, int | None]:
    """Dead letters ever stored, by `subject/group`; None: not measured."""
    counts: dict[str, int | None] = {}
    for name, entry in snapshot.get("subjects", {}).items():
        parts = split_subject(str(name))
        if parts.kind != "dead" or not parts.group:
            continue
        count = _number(entry.get("sent_messages"))
        counts[storable(f"{parts.subject}/{parts.group}")] = None if count is None else int(count)
    return counts


def of_dead_letters(counted: Mapping[str, Arrivals | None], window_seconds: float, now: float) -> list[Reading]:
    """Dead letters that came in the window before now (seconds since the epoch), from arrivals by `subject/group`."""
    found = []
    for target, arrivals in counted.items():
        count = None if arrivals is None else float(within(arrivals, window_seconds, now))
        reason = "not measured" if arrivals is None else ""
        found.append(Reading(Kind.DEAD_LETTERS, target, count, reason, target.partition("/")[0]))
    return found


def is_complete(snapshot: Mapping[str, Any]) -> bool:
    """Whether every node answered with all its subjects."""
    nodes = snapshot.get("nodes", {})
    return bool(nodes) and all(
        entry.get("reason") is None and entry.get("subjects_reason") is None for entry in nodes.values()
    )


def of_broker_groups(groups: Iterable[Members], snapshot: Mapping[str, Any] | None, now: float) -> Iterator[Reading]:
    """From the states that metaservers stored, and from which nodes respond, at a time in seconds since the epoch."""
    nodes = (snapshot or {}).get("nodes", {})
    for members in groups:
        group = members.group
        found = [(one, nodes.get(one.node_id, {})) for one in members.nodes if one.is_member and one.node is not None]
        value = STATE_LEVELS[group.state]
        if found and all(_is_silent(member, entry, now) for member, entry in found):
            value = STATE_LEVELS[GroupState.OFFLINE]
        if value < STATE_LEVELS[GroupState.OFFLINE]:
            # The states of slaves do not say why the group accepts no messages.
            found = [one for one in found if value and one[0].is_master]
        causes = [cause for member, entry in found if (cause := _cause(member, entry, now))]
        yield Reading(Kind.GROUP_STATE, group.name, value, why=joined(causes))


def silence(entry: Mapping[str, Any], now: float) -> float | None:
    """Return for how many seconds a node has not responded to the collector; 0.0 if it did, None if it never has."""
    if entry.get("reason") is None:
        return 0.0 if entry else None
    at = entry.get("at")
    return None if at is None else max(0.0, now - datetime.fromisoformat(at).timestamp())


def _is_silent(member: Member, entry: Mapping[str, Any], now: float) -> bool:
    assert member.node is not None
    seconds, since_heartbeat = silence(entry, now), now - member.node.reported_at_ms / 1000
    return seconds is not None and min(seconds, since_heartbeat) >= SILENT_SECONDS


def _cause(member: Member, entry: Mapping[str, Any], now: float) -> Reason:
    """Why a member does not serve, as far as that is known."""
    node_id = member.node_id
    if seconds := silence(entry, now):
        why = Reason.from_json(entry["why"]) if entry.get("why") else _reason(entry)
        return Reason.of(Code.NODE_SILENT, node=node_id, seconds=round(seconds, 1), why=why)
    if not member.is_live:
        return Reason.of(Code.NODE_WITH, node=node_id, why=Reason.of(Code.NO_HEARTBEATS))
    if state_why := entry.get("state_why"):
        return Reason.of(Code.NODE_WITH, node=node_id, why=Reason.from_json(state_why))
    return NO_REASON


def of_members(groups: Iterable[Members], role_changes: Mapping[str, int]) -> Iterator[Reading]:
    """From the members of broker groups, as they last reported. Groups without a master are left out.

    Args:
        role_changes: by broker group, how often it got another master recently.
    """
    for members in groups:
        group, in_sync = members.group, len(members.group.membership.in_sync)
        if not group.membership.master:
            continue
        yield Reading(Kind.COPIES, group.name, float(max(0, group.membership.copies - in_sync)))
        yield Reading(Kind.BELOW_MINIMUM, group.name, float(max(0, group.membership.in_sync_min_in_force - in_sync)))
        if len(group.membership.members) > 1:
            is_blocked = bool(members.candidate_problem or members.hand_over_problem)
            yield Reading(Kind.NO_CANDIDATE, group.name, float(is_blocked))
            yield Reading(Kind.ONE_RACK, group.name, float(bool(members.shared_rack)))
        yield Reading(Kind.ROLE_CHANGES, group.name, float(role_changes.get(group.name, 0)))
        for member in members.nodes:
            if member.report is not None:
                yield Reading(Kind.REPLICATION, member.node_id, 1.0 if member.role == "failed" else 0.0)


def of_jobs(jobs: Iterable[JobRun]) -> Iterator[Reading]:
    """How many intervals ago each job succeeded."""
    for job in jobs:
        if job.succeeded_before_seconds is None:
            why = "not run successfully yet"
            yield Reading(Kind.JOB_LATE, job.name, None, why)
            yield Reading(Kind.UNKNOWN, job.name, 0.0 if job.is_new else 1.0, why)
        else:
            late = max(0.0, job.succeeded_before_seconds) / job.interval_seconds
            yield Reading(Kind.JOB_LATE, job.name, late)
            yield Reading(Kind.UNKNOWN, job.name, 0.0)


def of_outboxes(databases: Iterable[tuple[OutboxDatabase, Numbers]]) -> Iterator[Reading]:
    """From registered databases that are enabled."""
    for row, numbers in databases:
        reason = {None: "", Unknown.FAILED: row.error_code}.get(numbers.unknown, "not measured recently")
        is_unusable = {None: 0.0, Unknown.FAILED: 1.0}.get(numbers.unknown)
        failed = None if numbers.failed is None else float(numbers.failed)
        yield Reading(Kind.OUTBOX_AGE, row.name, numbers.oldest_seconds, reason, owner=row.owner)
        yield Reading(Kind.OUTBOX_FAILED, row.name, failed, reason, owner=row.owner)
        yield Reading(Kind.OUTBOX_UNREACHABLE, row.name, is_unusable, reason, owner=row.owner)


def _of_group(
    name: str, group: str, entry: Mapping[str, Any], retry_entry: Mapping[str, Any] | None, is_all: bool
) -> Iterator[Reading]:
    """The readings of a group on a subject, together with those of its retry subject: one problem is one alert."""
    target, subject = storable(f"{name}/{group}"), split_subject(name).subject
    entries = [entry] if retry_entry is None else [entry, retry_entry]
    reason = next((_reason(one) for one in entries if one.get("reason")), _reason(entry))
    lag, time_lag = _together(sum, entries, "lag"), _together(max, entries, "time_lag_seconds")
    retry_lag = 0.0 if retry_entry is None else _number(retry_entry.get("lag"))
    retries = None if retry_lag is None else int(retry_lag)
    yield _read(Kind.LAG, target, lag, reason, subject, retries)
    yield _read(Kind.TIME_LAG, target, time_lag, reason, subject, retries)
    if "duplicate_consumers" in entry:
        yield _read(Kind.DUPLICATE_IDS, target, _number(entry["duplicate_consumers"]), reason, subject)
    # Time lag alone is missing for a damaged commit; rates are missing in a node's first second. Lag is what counts.
    if lag is None:
        yield Reading(Kind.UNKNOWN, target, 1.0, reason, subject, retries, is_consequence=not is_all)
    else:
        yield Reading(Kind.UNKNOWN, target, 0.0, "", subject)


def _together(of: Callable[[Iterable[float]], float], entries: Iterable[Mapping[str, Any]], field: str) -> float | None:
    """The sum or the greatest of a field; None where one of them is unknown."""
    values = [_number(entry.get(field)) for entry in entries]
    known = [value for value in values if value is not None]
    return of(known) if len(known) == len(values) else None


def _of_node(node_id: str, entry: Mapping[str, Any]) -> Iterator[Reading]:
    is_measured, reason = entry.get("reason") is None, _reason(entry)
    if is_measured and entry.get("are_subjects_overdue"):
        yield Reading(Kind.UNKNOWN, node_id, 1.0, storable(entry.get("subjects_reason"))[:300])
    else:
        yield Reading(Kind.UNKNOWN, node_id, 0.0 if is_measured else 1.0, "" if is_measured else reason)
    numbers = {
        Kind.DISK: _used_percent(entry),
        Kind.DISK_STUCK: _number(entry.get("disk_stuck_seconds")),
        Kind.DAMAGE: _damaged_places(entry),
        Kind.SCRUB: _number(entry.get("scrub_seconds")),
        Kind.LATENESS: _number(entry.get("lateness_p99_seconds")),
        Kind.CLOCK: _clock_seconds(entry),
    }
    for kind, value in numbers.items():
        # A node that was asked and has no such number (a broker has no lateness) is no target of the kind.
        if value is not None or not is_measured:
            stuck = Reason.of(Code.WRITE_WAITS, seconds=value) if kind is Kind.DISK_STUCK and value else NO_REASON
            yield Reading(kind, node_id, value, reason if value is None else "", why=stuck)


def _used_percent(entry: Mapping[str, Any]) -> float | None:
    free, total = _number(entry.get("disk_free_bytes")), _number(entry.get("disk_total_bytes"))
    if free is None or total is None or total <= 0:
        return None
    return 100.0 * (1.0 - min(free, total) / total)


def _damaged_places(entry: Mapping[str, Any]) -> float | None:
    ranges = _number(entry.get("damaged_ranges"))
    return None if ranges is None else ranges + (_number(entry.get("unreadable_messages")) or 0.0)


def _clock_seconds(entry: Mapping[str, Any]) -> float | None:
    ahead, behind = _number(entry.get("clock_ahead_ms")), _number(entry.get("clock_behind_ms"))
    return None if ahead is None else max(ahead, behind or 0.0) / 1000


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    return float(value)


def _reason(entry: Mapping[str, Any]) -> str:
    return storable(entry.get("reason") or "not measured")[:300]


def storable(text: Any) -> str:
    """Return text that any database accepts: one unusual name must not stop the evaluation of the others."""
    return str(text).replace("\x00", "\ufffd").encode(errors="replace").decode()[:600]
