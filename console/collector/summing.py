"""Sums what nodes report to the entries of subjects, consumer groups and nodes. Pure.

`is_measured` is whether all nodes that hold an entry responded (at the time of the state); if not, every number is None and `at` is
the time of their last response (RFC 3339; None: never).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.cluster.group_numbers import GROUP_NUMBERS, GROUP_SUMS, Reports, consumers, total
from console.cluster.measured import Measured
from console.cluster.places import NodePlace
from console.cluster.subject_numbers import SUBJECT_FIELDS, SUBJECT_NUMBERS, groups_of
from console.snapshot.lag_state import WITHOUT_BACKLOG, LagState, is_draining, lag_state, not_draining
from console.snapshot.state import KIND_BROKER, Entry, State, group_key
from console.times import rfc3339
from qmq.lag import drain_seconds
from qmq.protocol.names import split_subject
from qmq.protocol.reasons import Reason


@dataclass(frozen=True, slots=True)
class _Summed:
    """The entries of a subject whose nodes all answered."""

    parts: Mapping[str, dict[str, Any]]
    """By broker group: what its master answered."""
    subject: Entry
    groups: dict[str, Entry]
    """By key; without what waits for another attempt."""


class Sums:
    """What the last call of `summed` made of each subject. A subject with the same numbers keeps its entries."""

    def __init__(self) -> None:
        self.by_subject: dict[str, _Summed] = {}


def summed(
    old: State,
    old_at_ms: int | None,
    places: Sequence[NodePlace],
    answers: Mapping[str, Measured[dict[str, Any]]],
    routes: Mapping[str, Sequence[str]],
    sums: Sums | None = None,
) -> State:
    """Subjects, groups and nodes from what the nodes answered.

    Args:
        old: the state before; it contains what unreachable nodes held.
        old_at_ms: its time; None: there was none.
        answers: `/stats` by node id. One with a `subjects_reason` does not have all subjects of its node.
        routes: the broker groups of each subject.
        sums: of the call before; updated. Entries that did not change stay the same objects.

    Only masters count: slaves hold the same messages again.
    """
    then = rfc3339(old_at_ms) if old_at_ms is not None else None
    measured, unmeasured = _answered(places, answers)
    parts: dict[str, dict[str, dict[str, Any]]] = {}
    unread = dict(unmeasured)
    for broker_group, stats in measured.items():
        if stats.get("subjects_reason"):
            unread[broker_group] = str(stats["subjects_reason"])
        for item in stats.get("subjects", ()):
            parts.setdefault(item["subject"], {})[broker_group] = item
    lacking: dict[str, set[str]] = {}
    if unread:
        held = [(name, entry["broker_groups"]) for name, entry in old["subjects"].items()]
        for name, holders in (*held, *routes.items()):
            if missing := (unread.keys() & set(holders)) - parts.get(name, {}).keys():
                lacking.setdefault(name, set()).update(missing)
    groups_before: dict[str, list[str]] = {}
    if lacking:
        for entry in old["groups"].values():
            groups_before.setdefault(entry["subject"], []).append(entry["group"])
    known, kept = sums.by_subject if sums is not None else {}, {}
    subjects: dict[str, Entry] = {}
    groups: dict[str, Entry] = {}
    for name, found in parts.items():
        if name in lacking:
            continue
        one = known.get(name)
        if one is None or one.parts != found:
            one = _measured_subject(name, found, old["groups"])
        kept[name] = one
        subjects[name] = one.subject
        groups |= one.groups
    for name, missing in lacking.items():
        reason = unread[min(missing)]
        found = parts.get(name, {})
        held_by = tuple(sorted(missing | found.keys()))
        before = old["subjects"].get(name)
        part = _incomplete(SUBJECT_FIELDS, list(found.values()), missing, before)
        if before is not None and _stays_unknown(before, reason, part) and before["broker_groups"] == held_by:
            subjects[name] = before
        else:
            subjects[name] = _dated(_subject(name, held_by, {}, reason) | part, False, before, then)
        names = dict.fromkeys(group["group"] for item in found.values() for group in item["groups"])
        for group in names | dict.fromkeys(groups_before.get(name, ())):
            key = group_key(name, group)
            before = old["groups"].get(key)
            items = [one for item in found.values() for one in item["groups"] if one["group"] == group]
            part = _incomplete(GROUP_SUMS, items, missing, before)
            if before is not None and _stays_unknown(before, reason, part) and before["retry_lag"] is None:
                groups[key] = before
                continue
            groups[key] = _dated(_group(name, group, items, None, reason, before) | part, False, before, then)
    if sums is not None:
        sums.by_subject = kept
    _add_retries(groups, old["groups"], subjects)
    nodes: dict[str, Entry] = {}
    lags = _replication_lags(places, answers)
    for place in places:
        before = old["nodes"].get(place.node_id)
        entry = _node(place, answers.get(place.node_id), before)
        if not place.is_master:
            entry |= dict(zip(_LAGS, lags.get(place.node_id, (None, None)), strict=True))
        # One missed answer can be that of a busy machine.
        entry["is_silent"] = entry["reason"] is not None and (before is None or not before["is_measured"])
        nodes[place.node_id] = _dated(entry, entry["reason"] is None, before, then)
    return {"subjects": subjects, "groups": groups, "nodes": nodes}


def _stays_unknown(before: Entry, reason: str, part: Entry) -> bool:
    is_same = not before["is_measured"] and before["reason"] == reason
    return is_same and all(before.get(name) == part.get(name) for name in INCOMPLETE)


def _incomplete(
    numbers: Mapping[str, Callable[[Reports], Any]], items: Reports, missing: Iterable[str], before: Entry | None
) -> Entry:
    """What is known of an entry while broker groups that hold it can't be reached.

    `missing` are these broker groups, `at_least` the sums of the others (of the time lag the longest), and `last` the numbers when
    all were measured, at the entry's `at`. The latter two are absent if there is nothing.
    """
    found: Entry = {"missing": sorted(missing)}
    if items:
        found["at_least"] = {name: add(items) for name, add in numbers.items()}
    return found | _last(numbers, before)


def _last(names: Iterable[str], before: Entry | None) -> Entry:
    """`last`: the numbers of the last complete measurement; empty if there was none."""
    if before is not None and before["is_measured"]:
        return {"last": {name: before.get(name) for name in names}}
    return {"last": before["last"]} if before is not None and "last" in before else {}


def _answered(
    places: Sequence[NodePlace], answers: Mapping[str, Measured[dict[str, Any]]]
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """By broker group: the answer of its master, or the reason why there is none."""
    measured: dict[str, dict[str, Any]] = {}
    unmeasured: dict[str, str] = {}
    for place in places:
        if place.kind != KIND_BROKER:
            continue
        answer = answers.get(place.node_id)
        if place.is_master and answer is not None and answer.value is not None:
            measured[place.broker_group] = answer.value
            unmeasured.pop(place.broker_group, None)
        elif place.is_master:
            unmeasured[place.broker_group] = f"node {place.node_id}: {_why(answer)}"
        elif place.broker_group not in measured:
            unmeasured.setdefault(place.broker_group, f"broker group {place.broker_group} has no master")
    return measured, unmeasured


def _measured_subject(name: str, found: dict[str, dict[str, Any]], before: Mapping[str, Entry]) -> _Summed:
    subject = _dated(_subject(name, tuple(sorted(found)), found, None), True, None, None)
    by_group: dict[str, list[dict[str, Any]]] = {}
    for item in found.values():
        for group in item["groups"]:
            by_group.setdefault(group["group"], []).append(group)
    sent = total("steady_send_rate", list(found.values()))
    groups = {}
    for group, parts in by_group.items():
        key = group_key(name, group)
        groups[key] = _dated(_group(name, group, parts, sent, None, before.get(key)), True, None, None)
    if "withheld" in subject:
        for group, parts in by_group.items():
            groups[group_key(name, group)]["withheld"] = total("withheld", parts)
    return _Summed(found, subject, groups)


def _why(answer: Measured[dict[str, Any]] | None) -> str:
    return (answer.reason if answer is not None else None) or "not queried"


def _dated(entry: Entry, is_measured: bool, before: Entry | None, then: str | None) -> Entry:
    """The entry with whether it was measured, and if not when last."""
    entry["is_measured"] = is_measured
    entry["at"] = None
    if not is_measured and before is not None:
        entry["at"] = then if before["is_measured"] else before["at"]
    return entry


def _reason_of(items: Sequence[Mapping[str, Any]], values: Iterable[Any]) -> str | None:
    """The reason of the node that does not know a value, when one of them is not known."""
    if all(value is not None for value in values):
        return None
    return next((str(item["reason"]) for item in items if item.get("reason")), "not reported by a node")


NODE_NUMBERS = (
    "disk_free_bytes", "disk_total_bytes", "connections", "send_rate", "pull_rate", "pending", "overdue", "delivered_per_second",
)  # fmt: skip
INCOMPLETE = ("missing", "at_least", "last")
"""Fields of entries that are not measured completely."""


def _subject(name: str, held_by: tuple[str, ...], found: Mapping[str, Mapping[str, Any]], reason: str | None) -> Entry:
    """A subject's entry from what each broker group's master reports of it."""
    entry: Entry = {"subject": name, "broker_groups": held_by}
    if reason is not None:
        return {**entry, **dict.fromkeys(SUBJECT_FIELDS), "reason": reason}
    items = list(found.values())
    entry |= {name: add(items) for name, add in SUBJECT_FIELDS.items()}
    if damaged := [broker_group for broker_group, item in found.items() if item.get("withheld")]:
        # Only where there are some: thousands of subjects have none.
        entry |= {"withheld": total("withheld", items), "withheld_on": sorted(damaged)}
    groups = list(groups_of(items))
    needed = [*(entry[name] for name in SUBJECT_NUMBERS), *(group["lag"] for group in groups)]
    entry["reason"] = _reason_of([*items, *groups], needed)
    return entry


_RETRIES = "%RETRY"
"""Prefix of names that `split_subject` can mistake for retry subjects."""
_GROUP_UNKNOWN = dict.fromkeys(
    (
        *GROUP_NUMBERS, "is_draining", "not_draining", "drain_seconds", "duplicate_consumers", "is_paused", "redelivered",
        "skipped_by_retention",
    )
)  # fmt: skip


_MEASURED = tuple(_GROUP_UNKNOWN.keys() - {"not_draining", "drain_seconds"})
"""Fields that are None only if a node does not know them."""


def _add_retries(groups: dict[str, Entry], before: Mapping[str, Entry], subjects: Iterable[str]) -> None:
    """What waits for another attempt is the lag of a retry subject; its group shows it as `retry_lag`.

    Entries of `groups` are replaced, not changed; by those of the state before where they are equal.
    """
    for name in subjects:
        if not name.startswith(_RETRIES):
            continue
        parts = split_subject(name)
        key = group_key(parts.subject, parts.group)
        retry, entry = groups.get(group_key(name, parts.group)), groups.get(key)
        if retry is not None and entry is not None:
            entry = {**entry, "retry_lag": retry["lag"], "reason": entry["reason"] or retry["reason"]}
            if "at_least" in entry:
                known = retry["lag"] if retry["lag"] is not None else retry.get("at_least", {}).get("lag")
                entry["at_least"] = {**entry["at_least"], "retry_lag": known}
            groups[key] = before[key] if before.get(key) == entry else entry


def _group(
    subject: str,
    group: str,
    items: Sequence[Mapping[str, Any]],
    sent: float | None,
    reason: str | None,
    before: Entry | None,
) -> Entry:
    broadcast = bool(items[0]["broadcast"]) if items else bool(before and before["broadcast"])
    entry: Entry = {"subject": subject, "group": group, "broadcast": broadcast}
    if reason is not None:
        return {**entry, **_GROUP_UNKNOWN, "state": LagState.UNKNOWN.value, "reason": reason}
    entry |= {name: add(items) for name, add in GROUP_SUMS.items()}
    entry |= {
        "is_draining": None,
        "not_draining": None,
        "drain_seconds": None,
        "duplicate_consumers": consumers("duplicate", items),
        "is_paused": any(item["paused"] for item in items),
        "redelivered": total("redelivered", items),
        "skipped_by_retention": total("skipped_by_retention", items),
    }
    acked = total("steady_ack_rate", items)
    if acked is not None and sent is not None:
        # Of a group that kept up, rates said nothing.
        past = before if before is not None and before["state"] not in WITHOUT_BACKLOG else None
        entry["is_draining"] = entry["lag"] == 0 or is_draining(acked, sent, past["is_draining"] if past else None)
    entry["state"] = lag_state(entry, acked, before["state"] if before else None).value
    if why := not_draining(entry):
        # The smoothed rate of a group that stopped decreases over minutes: it says nothing of what is acknowledged now.
        entry |= {"is_draining": False, "not_draining": why.value}
    elif entry["state"] in WITHOUT_BACKLOG:
        entry |= {"is_draining": None if entry["is_draining"] is None else True, "drain_seconds": 0.0}
    elif entry["is_draining"] and sent is not None:
        drain = drain_seconds(entry["lag"], acked, sent)
        entry["drain_seconds"] = None if drain is None else round(drain, 1)
    entry["reason"] = _reason_of(items, (entry[name] for name in _MEASURED))
    return entry


_NODE_FIELDS = ("state", "state_reason", "state_why", "version", "disk_free_bytes", "connections")
_BROKER_NUMBERS = ("send_rate", "send_bytes_rate", "pull_rate", "withheld")
_DELAY_FIELDS = ("pending", "overdue", "put_aside", "delivered_per_second")


_OPTIONAL_STATS = (
    "disk_total_bytes", "lateness_p99_seconds", "unreadable_messages", "deferred_settlements", "subjects_reason",
    "are_subjects_overdue", "disk_stuck_seconds",
)  # fmt: skip
"""Fields that an entry has only when its node names them."""


_REPAIR = ("damaged_ranges", "repaired_ranges", "scrub_seconds", "scrub_share")


def _repair(replication: Mapping[str, Any]) -> Entry:
    """What is damaged on a node's disk now, what was repaired since its start, and how far it has read its stored data again.

    The last two are null if it does not. They are rounded, so that they do not change once a second."""
    scrub = replication["scrub"]
    values = (
        replication["damaged_ranges"],
        replication["repaired_ranges"],
        None if scrub is None else int(scrub["pass_seconds"]) // 60 * 60,
        None if scrub is None else round(scrub["done_share"], 2),
    )
    return dict(zip(_REPAIR, values, strict=True))


_LAGS = ("replication_lag_bytes", "replication_lag_seconds")


def _replication_lags(
    places: Sequence[NodePlace], answers: Mapping[str, Measured[dict[str, Any]]]
) -> dict[str, tuple[int, float | None]]:
    """By node ID of each slave that follows: how far it is behind its master, which knows it. Seconds: None if far behind."""
    masters = (answers.get(place.node_id) for place in places if place.is_master)
    return {
        slave["node_id"]: (
            slave["lag_bytes"],
            None if slave["lag_seconds"] is None else round(slave["lag_seconds"], 1),
        )
        for answer in masters
        if answer is not None and answer.value is not None
        for slave in answer.value["replication"].get("slaves", ())
    }


def _node(place: NodePlace, answer: Measured[dict[str, Any]] | None, before: Entry | None) -> Entry:
    entry: Entry = {
        "node_id": place.node_id,
        "broker_group": place.broker_group,
        "kind": place.kind,
        "is_master": place.is_master,
        "address": place.address,
        "admin_address": place.admin_address,
        "boot_id": place.boot_id,
    }
    is_broker = place.kind == KIND_BROKER
    fields = _NODE_FIELDS if is_broker else (*_NODE_FIELDS, *_DELAY_FIELDS)
    numbers = _BROKER_NUMBERS if is_broker else ("clock_ahead_ms", "clock_behind_ms")
    stats = answer.value if answer is not None else None
    if stats is None:
        unknown = (*fields, *numbers, "uptime_seconds", "log_begin", "log_end", "synced_end", *_REPAIR)
        reason = _why(answer)
        why = reason.as_json() if isinstance(reason, Reason) and reason.code else None
        return {**entry, **dict.fromkeys(unknown), "reason": reason, "why": why, **_last(NODE_NUMBERS, before)}
    log = stats["log"]
    if is_broker and stats.get("subjects_reason"):
        entry |= dict.fromkeys(_BROKER_NUMBERS)
    elif is_broker:
        subjects = stats.get("subjects", ())
        entry["send_rate"] = total("send_rate", subjects, 2)
        entry["send_bytes_rate"] = total("send_bytes_rate", subjects, 0)
        entry["pull_rate"] = total("pull_rate", [group for item in subjects for group in item["groups"]], 2)
        entry["withheld"] = total("withheld", subjects)
    else:
        # How far the wall clock is ahead of the group's time, by which messages are delivered, or behind it; 0: they agree.
        clock = stats.get("clock", {})
        entry["clock_ahead_ms"], entry["clock_behind_ms"] = clock.get("ahead_ms", 0), clock.get("behind_ms", 0)
    return {
        **entry,
        **{name: stats.get(name) for name in fields},
        **{name: stats[name] for name in _OPTIONAL_STATS if stats.get(name) is not None},
        "uptime_seconds": int(stats["uptime_seconds"]),
        "log_begin": str(log["begin"]),
        "log_end": str(log["end"]),
        "synced_end": str(log["synced_end"]),
        **_repair(stats["replication"]),
        "reason": None,
        "why": None,
    }
