"""Checkpoints of a delay store: how they are encoded, what they remove, and those of other members."""

import json
from struct import Struct
from types import SimpleNamespace

import pytest

from delay_node.checkpoint import (
    CHECKPOINT_NAME,
    SLICE_NAMES,
    DelayCheckpoints,
    HourRow,
    StateEncoder,
    decode_state,
    state_of_copy,
)
from delay_node.schedule_log import hour_name
from delay_node.store import Subjects
from qmq.errors import LogError
from qmq_node.log.checkpoint import CheckpointStore, save_copied
from qmq_node.log.record import Position
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.delay_driver import ROOT, DelayDriver


def test_new_names_are_encoded_a_limited_number_at_a_time() -> None:
    subjects = Subjects([f'"subject" {number}' for number in range(2 * SLICE_NAMES)])
    encoder = StateEncoder(SimpleNamespace(subjects=subjects, hours={}))  # type: ignore[arg-type]
    assert encoder.encode_names()
    assert json.loads(f"[{encoder._names.decode()}]") == subjects.names[:SLICE_NAMES]
    subjects.number("one more")
    subjects.placed += 1
    assert encoder.encode_names()
    assert not encoder.encode_names()
    assert json.loads(f"[{encoder._names.decode()}]") == subjects.names


def test_no_files_are_removed_while_a_slave_copies_them() -> None:
    driver = DelayDriver(MemoryDisk(), 3)
    is_held = True
    driver.checkpoints = DelayCheckpoints(driver.store, lambda: is_held)
    driver.run(40)
    while not driver.ended:
        driver.end_hour()
    driver.commit()
    (gone,) = {ref >> 32 for ref in driver.ended} - set(driver.store.hours)
    path = f"{ROOT}/schedule/{hour_name(gone)}.data"
    for _ in range(3):
        driver.checkpoint()
        assert path in driver.disk.names
        # Nothing but the removal is left to be done.
        assert not driver.checkpoints.has_removals
    is_held = False
    assert driver.checkpoints.has_removals
    driver.checkpoint()
    assert path not in driver.disk.names or gone in driver.store.hours


def test_a_checkpoint_of_the_version_before_can_be_copied() -> None:
    """A group's only member that was upgraded may have no newer one."""
    disk = MemoryDisk()
    head = {"format": 1, "hours": 1, "damaged": [], "segment_tails": [], "epochs": [[1, 0]], "subjects": ["orders"]}
    row = Struct(">IIQIIII").pack(472_222, 5, 1_000, 3, 2, 1, 1)
    for folder in ("old", "new"):
        disk.make_dir(folder)
    old, new = (CheckpointStore(disk, folder, CHECKPOINT_NAME) for folder in ("old", "new"))
    old.save([json.dumps(head).encode(), b"\n", row], Position(4_096, 7), 4_096)
    newest = old.open_newest()
    assert newest is not None
    assert save_copied(new, newest.read(0, newest.size), state_of_copy) == (4_096, 4_096)
    copied = new.load()
    assert copied is not None
    state = decode_state(copied)
    assert (state.head["format"], state.subjects, state.memory.records_end) == (2, ["orders"], 4_096)
    assert state.hours == [HourRow(472_222, 5, 1_000, 3, 2, 1, 0, 0)]


@pytest.mark.parametrize("damage", ["cut", "flipped", "unknown format"])
def test_a_checkpoint_that_is_damaged_is_not_copied(damage: str) -> None:
    disk = MemoryDisk()
    files = CheckpointStore(disk, "checkpoint", CHECKPOINT_NAME)
    files.save([json.dumps({"format": 3 if damage == "unknown format" else 2}).encode(), b"\n"], Position(64, 7), 64)
    newest = files.open_newest()
    assert newest is not None
    data = bytearray(newest.read(0, newest.size))
    if damage == "cut":
        del data[-1]
    elif damage == "flipped":
        data[-2] ^= 1
    own = CheckpointStore(disk, "own", CHECKPOINT_NAME)
    with pytest.raises(LogError, match="checkpoint"):
        save_copied(own, bytes(data), state_of_copy)
    assert own.load() is None
