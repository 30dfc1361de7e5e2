"""Reading commits of a log for a slave: all of them, in batches of any size, and nothing that is not a commit."""

import random

import pytest

from qmq.errors import LogError, ReadFailed
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import BEGINNING, Position
from qmq_node.replication.master.commit_batch import CommitBatch
from qmq_node.replication.master.log_reader import read_batch
from tests.support.drivers.copies import commits_of, master_log
from tests.support.drivers.logs import drop_before


def batches(log: SegmentedLog, bytes_max: int) -> list[CommitBatch]:
    found: list[CommitBatch] = []
    at = BEGINNING
    while at.offset < log.written_end:
        found.append(read_batch(log, at, log.written_end, bytes_max))
        at = found[-1].end
    return found


@pytest.mark.parametrize("bytes_max", [1, 64, 700, 5_000, 1 << 20])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_batches_are_the_log_with_seals_and_without_the_rests_of_segments(seed: int, bytes_max: int) -> None:
    log = master_log(seed)
    commits, found = list(commits_of(log)), batches(log, bytes_max)
    assert b"".join(bytes(part) for batch in found for part in batch.buffers) == b"".join(c.data for c in commits)
    ends = [end.offset for batch in found for end in batch.ends]
    assert ends == [commit.offset + len(commit.data) for commit in commits]
    with_records = [end for commit, end in zip(commits, ends, strict=True) if len(commit.data) > 64]
    assert [batch.records_end for batch in found if batch.records_end] == [
        max(end for end in with_records if batch.offset < end <= batch.end.offset)
        for batch in found
        if batch.records_end
    ]
    for batch in found:
        assert batch.bytes <= bytes_max or len(batch.ends) == 1
        assert sum(map(len, batch.buffers)) == batch.bytes
        info = log.stored.segment_at(batch.offset)
        assert info is not None
        assert batch.segment_base == info.base
        assert batch.segment_bytes == (info.bytes if batch.offset == info.base else 0)
    assert len([batch for batch in found if batch.segment_bytes]) == len({batch.segment_base for batch in found})


def test_reading_ends_where_the_log_is_written() -> None:
    log = master_log()
    ends = [end for batch in batches(log, 1) for end in batch.ends]
    assert read_batch(log, BEGINNING, ends[2].offset, 1 << 20).ends == tuple(ends[:3])


def damaged(log: SegmentedLog, offset: int, data: bytes) -> None:
    info = log.stored.segment_at(offset)
    assert info is not None
    log._disk.open(log.stored.files.path(info.base), writable=True).pwritev([data], offset - info.base)


@pytest.mark.parametrize("seed", range(10))
def test_a_changed_byte_is_never_sent(seed: int) -> None:
    rng, log = random.Random(seed), master_log()
    commits = list(commits_of(log))
    number = rng.randrange(len(commits) - 1)
    place, following = commits[number : number + 2]
    at = place.offset + rng.randrange(len(place.data))
    damaged(log, at, bytes([log.stored.read(at, 1)[0] ^ rng.randrange(1, 256)]))
    found = batches(log, 2_000)
    assert b"".join(bytes(part) for batch in found for part in batch.buffers) == b"".join(
        commit.data for commit in commits if commit is not place
    )
    (behind,) = (batch for batch in found if batch.lost_from is not None)
    before = commits[number - 1].offset + len(commits[number - 1].data) if number else 0
    assert (behind.lost_from, behind.offset) == (before, following.offset)
    info = log.stored.segment_at(behind.offset)
    assert info is not None
    assert (behind.segment_base, behind.segment_bytes) == (info.base, info.bytes)


def test_a_damaged_end_is_not_left_out_before_something_follows() -> None:
    log = master_log()
    last = list(commits_of(log))[-1]
    damaged(log, last.offset, b"X")
    with pytest.raises(LogError) as raised:
        batches(log, 2_000)
    assert raised.value.code == "log.unreadable"


def test_a_commit_that_does_not_follow_the_one_before_is_behind_an_empty_range() -> None:
    log = master_log()
    end = batches(log, 1)[3].end
    batch = read_batch(log, Position(end.offset, 1), log.written_end, 1_000)
    assert batch.lost_from == batch.offset == end.offset


def test_a_place_that_is_no_commit_is_named() -> None:
    log = master_log()
    end = batches(log, 1)[3].end
    with pytest.raises(
        LogError, match=f"no readable commit at log offset {end.offset + 1}: it was removed, or is damaged"
    ):
        read_batch(log, Position(end.offset + 1, end.chain), end.offset + 2, 1_000)


def test_a_segment_that_retention_removed_is_not_skipped() -> None:
    log = master_log()
    drop_before(log, log.stored.segments()[1].base)
    with pytest.raises(LogError, match="no readable commit at log offset 0: "):
        read_batch(log, BEGINNING, log.written_end, 1_000)


def test_a_disk_that_can_not_read_says_where() -> None:
    log = master_log()
    log._disk.break_pages(log.stored.files.path(0), 0, 4096)  # type: ignore[attr-defined]
    with pytest.raises(ReadFailed, match="log offset 0: "):
        read_batch(log, BEGINNING, log.written_end, 1_000)
