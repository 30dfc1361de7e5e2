"""The durable state of a replica: what is refused, and what a damaged file leads to."""

from dataclasses import replace

import pytest

from qmq.errors import SettingError
from qmq_node.replication.replica_state import (
    FILE_BYTES_MAX,
    PROMOTION_ID_CHARS_MAX,
    Copying,
    ReplicaState,
    ReplicaStateFile,
    encode_state,
)
from tests.support.disks.memory_disk import MemoryDisk
from tests.unit.qmq_node.log.logs import opened


def stored(disk: MemoryDisk) -> ReplicaStateFile:
    file = ReplicaStateFile(disk, "data")
    file.load()
    return file


def test_a_node_without_a_file_is_the_only_member_of_its_group() -> None:
    file = stored(MemoryDisk())
    assert (file.state, file.is_stored) == (ReplicaState(1, "", True, None), False)
    for epoch in (0, 1):
        file.check_log(epoch)


def test_a_state_is_read_back() -> None:
    disk = MemoryDisk()
    for state in (
        ReplicaState(1, "", False, None, is_new=True),
        ReplicaState(2, "p-1", False, None),
        ReplicaState(2, "p-1", False, Copying(100, 2000)),
        ReplicaState(2, "p-1", False, None, version=7, in_sync=("g1-a", "g1-b")),
        ReplicaState(9, "p-2", True, None, loss_id="older folder", older_end=0),
        ReplicaState(9, "p-2", True, None),
    ):
        stored(disk).save(state)
        assert stored(disk.after_power_cut()).state == state
    file = stored(disk)
    file.set_copying(Copying(5, 70))
    assert stored(disk.after_power_cut()).state == ReplicaState(9, "p-2", True, Copying(5, 70))
    log, _ = opened(disk)
    log.gather.append(1, b"x")
    taken = log.gather.take()
    assert taken is not None
    log.writer.write(taken, sync=False)
    log.complete(taken, is_confirmed=False)
    with pytest.raises(ValueError, match=f"the copy ends at {taken.end} and is synced to 0: sync it first"):
        file.end_copying(log)
    log.writer.sync()
    file.end_copying(log)
    assert stored(disk.after_power_cut()).state == ReplicaState(9, "p-2", True, None)


def test_an_epoch_never_falls_and_belongs_to_one_promotion() -> None:
    disk = MemoryDisk()
    file = stored(disk)
    # A one-member group has had no promotion.
    file.save(ReplicaState(1, "p-0", False))
    file.save(ReplicaState(3, "p-1", False))
    for wrong, why in (
        (ReplicaState(2, "p-1", False), "the epoch on disk is 3 and can't fall to 2"),
        (ReplicaState(3, "p-2", False), "epoch 3 began with promotion 'p-1', and not with 'p-2'"),
        (ReplicaState(3, "", False), "epoch 3 began with promotion 'p-1', and not with ''"),
        (ReplicaState(4, "x" * (PROMOTION_ID_CHARS_MAX + 1), False), "201 characters, the limit is 200"),
    ):
        steps = disk.steps
        with pytest.raises(ValueError, match=why):
            file.save(wrong)
        assert (file.state, disk.steps) == (ReplicaState(3, "p-1", False), steps)
    file.save(replace(file.state, epoch=4, promotion_id="x" * PROMOTION_ID_CHARS_MAX))
    assert len(encode_state(file.state)) < FILE_BYTES_MAX


def test_an_older_membership_of_the_epoch_does_not_replace_a_newer_one() -> None:
    disk = MemoryDisk()
    file, newer = stored(disk), ReplicaState(2, "p-1", False, version=7, in_sync=("a",))
    file.save_role(newer)
    file.save_role(ReplicaState(2, "p-1", False, version=6, in_sync=("a", "b")))
    assert stored(disk.after_power_cut()).state == newer
    file.save_role(later := ReplicaState(3, "p-2", False, version=5, in_sync=("b",)))
    assert stored(disk.after_power_cut()).state == later


def test_that_the_folder_is_older_stays_until_the_loss_is_accepted() -> None:
    disk = MemoryDisk()
    file, led = stored(disk), ReplicaState(1, "", True, None, loss_id="one", groups_loss_id="one")
    file.save(led)
    file.note_older(5)
    older = stored(disk.after_power_cut()).state
    assert (older.older_end, older.lacks_groups) == (5, True)
    file.save_role(led)
    assert stored(disk.after_power_cut()).state == older
    file.note_older(-1)
    accepted = stored(disk.after_power_cut()).state
    assert (accepted.older_end, accepted.lacks_groups) == (-1, True)
    file.groups_created(accepted.loss_id)
    file.note_older(7)
    assert stored(disk.after_power_cut()).state.lacks_groups, "for the second time"


def test_a_file_that_is_missing_stops_a_node_that_had_one() -> None:
    disk, called = MemoryDisk(), list[int]()
    file = stored(disk)
    file.on_first = lambda: called.append(len(disk.names))
    for epoch in (1, 2):
        file.save(ReplicaState(epoch, f"p-{epoch}", False))
    assert called == [1], "once, when the file is there"
    ReplicaStateFile(disk, "data").load(is_expected=True)
    disk.remove("data/replica")
    with pytest.raises(SettingError, match=r"data/replica is missing\. Without it .* restore the newest file, or move"):
        ReplicaStateFile(disk, "data").load(is_expected=True)


def test_a_state_that_could_not_be_stored_is_not_used() -> None:
    disk = MemoryDisk()
    file = stored(disk)
    file.save(ReplicaState(2, "p-1", False))
    for what in ("create", "write", "sync", "rename", "sync_dir"):
        disk.fail = lambda step, path, what=what: OSError(5, "injected") if step == what else None
        with pytest.raises(OSError, match="injected"):
            file.save(ReplicaState(3, "p-2", False))
        disk.fail = None
        assert file.state.epoch == 2
        # It may be on the disk nevertheless.
        with pytest.raises(ValueError, match="the epoch on disk is 3 and can't fall to 2"):
            file.save(ReplicaState(2, "p-1", False, Copying(0, 1)))
        file = stored(disk)
        if what == "sync_dir":
            assert file.state.epoch == 3
            file.state = file._newest = ReplicaState(2, "p-1", False)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        b"x" * (FILE_BYTES_MAX + 100),
        *(
            encode_state(ReplicaState(2, "p", False, Copying(1, 2))).replace(old, new)
            for old, new in (
                (b'"epoch": 2', b'"epoch": 0'),
                (b'"epoch": 2', b'"epoch": "2"'),
                (b'"promotion_id": "p"', b'"promotion_id": 7'),
                (b"false", b"0"),
                (b'"begin": 1', b'"begin": -1'),
                (b'"copying"', b'"copied"'),
                (b'"version": 0', b'"version": -1'),
                (b'"in_sync": []', b'"in_sync": "a"'),
                (b'"in_sync": []', b'"in_sync": [1]'),
            )
        ),
    ],
)
def test_a_file_that_can_not_be_read_stops_the_node_and_says_what_to_do(content: bytes) -> None:
    disk = MemoryDisk()
    file = stored(disk)
    if content.startswith(b"{"):
        file._file.save(content)
    else:
        disk.create("data/replica", 0).pwritev([content], 0)
    with pytest.raises(SettingError, match=r"data/replica can't be read: .* restore the file, or move"):
        stored(disk)


def test_any_flipped_bit_is_noticed() -> None:
    disk = MemoryDisk()
    stored(disk).save(ReplicaState(2, "p-1", False))
    content = disk.names["data/replica"].content
    for place in range(len(content)):
        content[place] ^= 4
        with pytest.raises(SettingError):
            stored(disk)
        content[place] ^= 4


def test_a_log_with_a_later_epoch_than_the_state_is_not_used() -> None:
    disk = MemoryDisk()
    with pytest.raises(SettingError, match="data/replica is missing, but the log has commits of epoch 2: restore"):
        stored(disk).check_log(2)
    file = stored(disk)
    file.save(ReplicaState(2, "p-1", False))
    file.check_log(2)
    with pytest.raises(SettingError, match="data/replica has epoch 2, but the log has commits of epoch 3: restore"):
        file.check_log(3)


def test_commits_get_the_epoch_that_is_on_disk() -> None:
    disk = MemoryDisk()
    log, _ = opened(disk)
    file = stored(disk)
    file.save(ReplicaState(7, "p-1", False))
    file.begin_epoch(log)
    assert log.epoch == 7
