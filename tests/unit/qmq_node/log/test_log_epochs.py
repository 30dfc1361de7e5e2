"""The epochs of a log: derived from its commits, kept by checkpoints, never falling."""

import json

import pytest

from qmq_node.log.commit_ends import CommitEnds
from qmq_node.log.epochs import EpochBegin, EpochChain
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import HEADER_BYTES, commit_crc, decode_header, encode_crc, encode_header
from qmq_node.log.replay import LogMemory
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.logs import drop_before
from tests.unit.qmq_node.log.logs import commit, inspected, opened, seal, without_seal, written


def in_epochs(disk: MemoryDisk, *epochs: int) -> tuple[SegmentedLog, list[int]]:
    """A log with two commits of each epoch; the end before each epoch's first commit."""
    log, _ = opened(disk)
    begins = []
    for epoch in epochs:
        log.begin_epoch(epoch)
        begins.append(log.written_end)
        written(log, is_confirmed=True)
        written(log, is_confirmed=True)
    return log, begins


def test_the_epochs_of_a_log_follow_from_its_commits() -> None:
    disk = MemoryDisk()
    log, begins = in_epochs(disk, 1, 3, 4, 9)
    assert (log.epochs, log.epoch) == (EpochChain.of(zip((1, 3, 4, 9), begins, strict=True)), 9)
    again, _ = opened(disk.after_kill())
    assert (again.epochs, again.epoch) == (log.epochs, 9)
    assert opened(MemoryDisk())[0].epochs == EpochChain()


def test_an_epoch_that_begins_in_the_next_segment_begins_behind_the_commit_before() -> None:
    disk = MemoryDisk()
    log, _ = in_epochs(disk, 1)
    end = log.written_end
    log.begin_epoch(2)
    log.gather.append(1, bytes(log.gather.record_bytes_max))
    commit(log)
    assert log.stored.segments()[-1].base > end
    assert log.epochs == opened(disk)[0].epochs == EpochChain.of([(1, 0), (2, end)])


def test_an_epoch_does_not_fall_and_begins_between_commits_only() -> None:
    log, _ = in_epochs(MemoryDisk(), 1, 3)
    with pytest.raises(ValueError, match="the epoch is 3 and can't fall to 2"):
        log.begin_epoch(2)
    log.begin_epoch(3)
    log.gather.append(1, b"pending")
    with pytest.raises(ValueError, match="epoch 4 can't begin: records behind log offset"):
        log.begin_epoch(4)
    taken = log.gather.take()
    assert taken is not None
    for keeps_records in (False, True):
        with pytest.raises(ValueError, match="epoch 4 can't begin"):
            log.begin_epoch(4, keeps_records=keeps_records)
    log.writer.write(taken)
    log.complete(taken)
    log.begin_epoch(4)
    assert log.epoch == 4


def rewritten(disk: MemoryDisk, at: int, epoch: int) -> None:
    """Give the commit at a log offset another epoch, and what is behind it no more than its own chain."""
    data = disk.names[f"log/{0:020d}"].content
    head = decode_header(bytes(data[at : at + HEADER_BYTES]), at, 0)
    assert head is not None
    new = encode_header(
        segment_base=0, epoch=epoch, offset=at, body_bytes=head.body_bytes, record_count=head.record_count,
        previous_crc=head.previous_crc, synced_to=head.synced_to,
    )  # fmt: skip
    crc = commit_crc(new, bytes(data[at + HEADER_BYTES : head.end]))
    data[at : at + HEADER_BYTES] = new + encode_crc(crc)


def test_an_epoch_that_falls_is_damage() -> None:
    disk = MemoryDisk()
    log, begins = in_epochs(disk, 1, 3)
    last = log.watermark.tails[0].offset
    rewritten(disk, last, 2)
    found, visited = inspected(disk)
    assert [(damage.begin, damage.end, damage.why) for damage in found.damaged] == [
        (last, last, "the epoch falls from one commit to the next")
    ]
    assert (visited[-1], found.walked.epochs) == (log.written_end, EpochChain.of([(1, 0), (3, begins[1])]))


def test_a_checkpoint_keeps_epochs_that_retention_removes_from_the_log() -> None:
    disk = MemoryDisk()
    log, _ = in_epochs(disk, 1, 2)
    for epoch in (3, 4, 5):
        log.begin_epoch(epoch)
        log.gather.append(1, bytes(log.gather.record_bytes_max))
        commit(log)
    position = log.watermark.position
    memory = LogMemory.decode(json.loads(json.dumps(LogMemory.encode(log))))
    assert memory.epochs == log.epochs
    drop_before(log, log.stored.segments()[-1].base)
    log.begin_epoch(6)
    written(log)
    start = {"start": position, "synced_to": position.offset, "tails": memory.tails}
    again, _ = opened(disk.after_kill(), epochs=memory.epochs, **start)
    assert again.epochs == log.epochs
    # What a checkpoint mentions behind its position is derived again.
    more = EpochChain((*memory.epochs.entries, EpochBegin(7, position.offset)))
    again, _ = opened(disk.after_kill(), epochs=more, **start)
    assert again.epochs == log.epochs
    # Without a checkpoint, the first entry begins where the log does.
    again, _ = opened(disk.after_kill())
    assert [entry.epoch for entry in again.epochs] == [5, 6]


@pytest.mark.parametrize("is_after", [False, True], ids=["before the promotion", "after it"])
def test_a_lost_seal_beside_a_promotion_is_recognized(is_after: bool) -> None:
    disk = MemoryDisk()
    log, _ = in_epochs(disk, 1)
    if is_after:
        log.begin_epoch(2)
    at = log.written_end
    end = seal(log)
    data = log.stored.read(at, end - at)
    log.begin_epoch(2)
    log.gather.append(1, bytes(log.gather.record_bytes_max))
    commit(log)
    found, _ = inspected(without_seal(disk, at, end))
    assert (found.damaged, [lost.data for lost in found.walked.lost_seals]) == ((), [data])


def test_the_crc_at_the_end_of_a_commit_is_known_or_read() -> None:
    disk = MemoryDisk()
    log, _ = in_epochs(disk, 1, 2)
    seal(log)
    log.gather.append(1, bytes(log.gather.record_bytes_max))
    commit(log)
    ends = [0, *(end for end in range(log.written_end + 1) if log.crc_at(end) is not None)]
    assert len(ends) == 7
    assert ends[-1] == log.written_end
    again, _ = opened(disk.after_kill(), start=log.watermark.position, synced_to=log.synced_end)
    assert all(again.crc_at(end) is None for end in ends)
    for end in range(ends[-2] + 100):
        assert again.stored.read_crc_at(end) == log.crc_at(end), end
    assert again.stored.read_crc_at(ends[-1]) == log.crc_at(ends[-1]) == log.watermark.position.chain
    assert again.stored.read_crc_at(ends[-1] + 1) is None
    disk.names[f"log/{0:020d}"].content[ends[2] - 1] ^= 1
    log.watermark._ends = CommitEnds()
    assert log.stored.read_crc_at(ends[2]) is None
    assert log.stored.read_crc_at(ends[3]) == again.stored.read_crc_at(ends[3]) is not None


def test_records_that_wait_may_be_written_in_the_new_epoch() -> None:
    disk = MemoryDisk()
    log, _ = in_epochs(disk, 1)
    end = log.written_end
    log.gather.append(1, b"waits")
    log.begin_epoch(2, keeps_records=True)
    commit(log)
    assert log.epochs == opened(disk)[0].epochs == EpochChain.of([(1, 0), (2, end)])
