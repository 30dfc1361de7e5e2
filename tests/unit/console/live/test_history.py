"""Slots and frames of recent history, without Redis."""

import struct
from math import isnan

from console.snapshot.history import BYTES_MAX, SECTIONS, SERIES_MAX, STEPS, Slots, entries_of
from console.snapshot.state import empty

FIELDS = ("one", "two")


def numbers(frame: bytes) -> list[float | None]:
    return [None if isnan(value) else value for value in struct.unpack(f"<{len(frame) // 4}f", frame)]


def slots(known: dict[str, int] | None = None, step: int = 0, most: int = 10) -> Slots:
    return Slots(known or {}, "x", step, most)


def test_a_series_keeps_its_slot_and_what_is_unknown_is_no_number() -> None:
    found = slots()
    assert found.place(["a", "b"], 1) == ({"a": 0, "b": 1}, [])
    assert found.place(["b", "c"], 2) == ({"c": 2}, [])
    frame = found.frame({"b": {"one": 1.5, "two": None}, "c": {"one": 0, "two": 1e39}, "d": {"one": 9}}, FIELDS)
    assert numbers(frame) == [None, None, 1.5, None, 0, None]


def test_a_slot_is_given_away_when_no_frame_has_it_any_more() -> None:
    found = slots()
    found.place(["a", "b"], 0)
    assert found.place(["b", "c"], STEPS) == ({"c": 2}, [])
    assert found.place(["b", "d"], STEPS + 1) == ({"d": 0}, ["a"])
    assert found.slots == {"b": 1, "c": 2, "d": 0}


def test_past_the_limit_series_are_left_out_and_counted() -> None:
    found = slots(most=2)
    assert found.place(["a", "b", "c", "d"], 1) == ({"a": 0, "b": 1}, [])
    assert found.left_out == 2
    found.place(["a"], 2)
    assert found.left_out == 0


def test_gaps_of_stored_slots_are_filled_first() -> None:
    found = slots({"a": 2}, step=5)
    new, _ = found.place(["a", "b", "c", "d"], 6)
    assert sorted(new.values()) == [0, 1, 3]
    assert found.slots["a"] == 2


def test_sums_of_the_system_are_unknown_where_a_part_is() -> None:
    group = {"pull_rate": 1.0, "ack_rate": 1.0, "backlog": 3, "in_flight": 1, "time_lag_seconds": 2.0}
    state = empty() | {"subjects": {"s": {"send_rate": 2.0}}, "groups": {"s\na": group, "s\nb": group}}
    found = entries_of(state)["system"]["system"]
    assert (found["send_rate"], found["backlog"], found["time_lag_seconds"]) == (2.0, 6, 2.0)
    state["groups"]["s\nc"] = {**group, "backlog": None}
    found = entries_of(state)["system"]["system"]
    assert (found["backlog"], found["in_flight"]) == (None, 3)


def test_a_broker_group_has_its_masters_numbers_and_disk_used_is_total_less_free() -> None:
    node = {"broker_group": "g", "kind": "broker", "disk_free_bytes": 4, "disk_total_bytes": 10, "pending": None}
    state = empty() | {
        "nodes": {"g-a": {**node, "is_master": True}, "g-b": {**node, "is_master": False, "disk_free_bytes": None}}
    }
    found = entries_of(state)
    assert found["broker_groups"]["g"]["disk_used_bytes"] == 6
    assert found["nodes"]["g-b"]["disk_used_bytes"] is None


def test_all_frames_have_a_largest_size() -> None:
    assert set(SERIES_MAX) == set(SECTIONS)
    assert BYTES_MAX < 236e6
