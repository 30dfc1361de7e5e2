"""The live state of a system: its sections, how two states are compared, and what happened between them. Pure.

A state is sections of entries: `{"subjects": {key: {field: value}}, ...}`. Entries are flat and fit for JSON; the broker groups
of a subject are a tuple. A field that could not be measured is None, and then the entry's `reason` says why.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

K = TypeVar("K")
Entry = dict[str, Any]
State = dict[str, dict[str, Entry]]
"""section -> key -> entry."""
Delta = dict[str, dict[str, Any]]
"""section -> {"gone": [key], "set": {key: fields that changed}}; `gone` is applied first."""

SECTIONS = ("subjects", "groups", "nodes", "broker_groups", "metaservers", "jobs", "alerts", "events", "audit")
RECENT_MAX = 100
"""Events, and audit entries, that a state holds."""
KIND_BROKER = "broker"


def empty() -> State:
    """A state of which nothing is known."""
    return {section: {} for section in SECTIONS}


def encode(value: Any) -> str:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def group_key(subject: str, group: str) -> str:
    """The key of a consumer group; no name holds a line end."""
    return f"{subject}\n{group}"


# --- comparing --------------------------------------------------------------------------------------------------------


def delta(old: State, new: State) -> Delta:
    """What makes `new` of `old`; both have the same sections."""
    found: Delta = {}
    for section, entries in new.items():
        before = old[section]
        if entries is before:
            continue
        gone = [key for key in before if key not in entries]
        changed: dict[str, Entry] = {}
        for key, entry in entries.items():
            known = before.get(key)
            if known is entry:
                continue
            if known is None:
                changed[key] = entry
            elif known != entry:
                if known.keys() <= entry.keys():
                    changed[key] = {
                        name: value for name, value in entry.items() if name not in known or known[name] != value
                    }
                else:
                    gone.append(key)
                    changed[key] = entry
        if gone or changed:
            found[section] = {"gone": gone, "set": changed}
    return found


def apply(old: State, change: Delta) -> State:
    """The state behind a delta. `old` stays as it was."""
    new = dict(old)
    for section, parts in change.items():
        entries = dict(old[section])
        for key in parts["gone"]:
            entries.pop(key, None)
        for key, fields in parts["set"].items():
            entries[key] = {**entries[key], **fields} if key in entries else fields
        new[section] = entries
    return new


def divided(change: Delta, part_of: Callable[[str, str], K]) -> dict[K, Delta]:
    """The parts of a delta by what `part_of` returns for each of its sections and keys."""
    found: dict[K, Delta] = {}

    def parts(section: str, key: str) -> dict[str, Any]:
        return found.setdefault(part_of(section, key), {}).setdefault(section, {"gone": [], "set": {}})

    for section, both in change.items():
        for key in both["gone"]:
            parts(section, key)["gone"].append(key)
        for key, fields in both["set"].items():
            parts(section, key)["set"][key] = fields
    return found


# --- events -----------------------------------------------------------------------------------------------------------


def events_between(old: State, new: State) -> list[Entry]:
    """What happened from one state to the next, without ids and times. What is seen for the first time is no event."""
    found: list[Entry] = []

    def changed(section: str, field: str, kind: str) -> None:
        for key, entry in new[section].items():
            before = old[section].get(key)
            if before is not None and None not in (before[field], entry[field]) and before[field] != entry[field]:
                found.append({"kind": kind, "target": key, "before": before[field], "after": entry[field]})

    changed("broker_groups", "state", "broker_group.state")
    changed("broker_groups", "operator_state", "broker_group.operator_state")
    changed("broker_groups", "master", "broker_group.master")
    changed("nodes", "state", "node.state")
    for key, entry in new["nodes"].items():
        before = old["nodes"].get(key)
        if before is None:
            continue
        # The state that an older collector stored has neither of the two.
        was, now = before.get("boot_id"), entry["boot_id"]
        if was and now and was != now:
            found.append({"kind": "node.restarted", "target": key, "before": was, "after": now})
        if before.get("is_silent") not in (None, entry["is_silent"]):
            kind = "node.unreachable" if entry["is_silent"] else "node.reachable"
            found.append({"kind": kind, "target": key, "before": before["reason"], "after": entry["reason"]})
    changed("jobs", "is_late", "job.late")
    return found


def recent(before: dict[str, Entry], added: Iterable[Entry]) -> dict[str, Entry]:
    """The newest RECENT_MAX of a section whose keys are rising numbers; `added` is in order and has `id`."""
    entries = {**before, **{entry["id"]: entry for entry in added}}
    kept = sorted(entries, key=int)[-RECENT_MAX:]
    return before if kept == list(before) else {key: entries[key] for key in kept}
