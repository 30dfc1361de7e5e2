"""What a delay node derives from its log, to be compared between members, and with a replay."""

from typing import Any

from delay_node.store import DelayStore


def state_of(store: DelayStore) -> dict[str, Any]:
    """Everything that follows from the log."""
    return {
        "names": store.subjects.names[: store.subjects.placed],
        "totals": (store.pending, store.refused),
        "hours": {
            number: (
                hour.schedule.read_index(0, hour.schedule.count).tobytes(),
                hour.schedule.data.read(0, hour.schedule.data.end),
                hour.dispatch.read(0, hour.dispatch.count)[0].tobytes(),
                (hour.gone, hour.refused, hour.lost, hour.begins_at),
            )
            for number, hour in sorted(store.hours.items())
            # A rejected message may have made an hour.
            if hour.schedule.count
        },
    }


def differences(one: dict[str, Any], other: dict[str, Any]) -> str:
    """What is different in two states; "" if nothing is."""
    found = [key for key in ("names", "totals") if one[key] != other[key]]
    hours = one["hours"].keys() | other["hours"].keys()
    for number in sorted(hours):
        mine, theirs = one["hours"].get(number), other["hours"].get(number)
        if mine is None or theirs is None:
            found.append(f"hour {number} is missing: {mine is None}, {theirs is None}")
        elif mine != theirs:
            sizes = [(len(m), len(t)) if isinstance(m, bytes) else (m, t) for m, t in zip(mine, theirs, strict=True)]
            found.append(f"hour {number}: {sizes}")
    return "; ".join(found)
