"""The high watermark of a log, its synced end, and where its checkpoints stand."""

import random

import pytest

from qmq_node.log.commit import SealedCommit
from qmq_node.log.commit_ends import RECENT_COMMITS_MAX, CommitEnds
from qmq_node.log.record import HEADER_BYTES, Position, commit_crc, decode_header
from tests.support.disks.memory_disk import MemoryDisk
from tests.unit.qmq_node.log.logs import commit, opened, seal, written


def test_a_log_with_one_copy_confirms_each_commit_by_itself() -> None:
    log, _ = opened(MemoryDisk())
    for _ in range(3):
        end = written(log, is_confirmed=True)
        assert (
            log.high_watermark,
            log.synced_end,
            log.watermark.position.offset,
            log.watermark.unconfirmed_commits,
        ) == (end, end, end, 0)


def test_a_commit_that_others_must_store_is_confirmed_later() -> None:
    log, _ = opened(MemoryDisk())
    ends = [written(log) for _ in range(3)]
    assert (log.high_watermark, log.synced_end, log.watermark.position, log.watermark.unconfirmed_commits) == (
        0,
        ends[2],
        Position(0, 0),
        3,
    )
    log.watermark.confirm(ends[1])
    assert (log.high_watermark, log.watermark.position.offset, log.watermark.unconfirmed_commits) == (
        ends[1],
        ends[1],
        1,
    )
    log.watermark.confirm(ends[1])
    log.watermark.confirm(ends[2])
    assert (log.high_watermark, log.watermark.position.offset, log.watermark.unconfirmed_commits) == (
        ends[2],
        ends[2],
        0,
    )


def test_segments_are_known_again_by_commits_that_can_not_be_truncated() -> None:
    """A checkpoint that held a segment to a later commit would find damage after a truncation."""
    disk = MemoryDisk()
    log, _ = opened(disk)
    ends = [written(log) for _ in range(3)]
    assert log.watermark.tails == {}
    log.watermark.confirm(ends[1])
    assert log.watermark.tails == {0: Position(ends[0], log.watermark.position.chain)}
    log.watermark.confirm(ends[2])
    assert log.watermark.tails == {0: Position(ends[1], log.watermark.position.chain)}


def test_the_high_watermark_does_not_fall_pass_what_is_synced_or_split_a_commit() -> None:
    log, _ = opened(MemoryDisk())
    first, second = written(log), written(log)
    log.watermark.confirm(first)
    for wrong, why in (
        (first - 1, f"is {first} and can't fall to {first - 1}"),
        (second + 1, f"can't be {second + 1}: the log is synced to {second}"),
        (second - 1, f"can't be {second - 1}: no commit ends there"),
    ):
        with pytest.raises(ValueError, match=why):
            log.watermark.confirm(wrong)
        assert (log.high_watermark, log.watermark.position.offset) == (first, first)


def test_a_seal_is_neither_synced_nor_confirmed_nor_waited_for() -> None:
    log, _ = opened(MemoryDisk())
    end = written(log)
    log.watermark.confirm(end)
    sealed_end = seal(log)
    assert (log.written_end, log.gather.appended_end) == (sealed_end, sealed_end)
    assert (log.synced_end, log.high_watermark, log.watermark.position.offset, log.gather.records_end) == (
        end,
        end,
        end,
        end,
    )
    with pytest.raises(ValueError, match="the log is synced to"):
        log.watermark.confirm(sealed_end)
    log.gather.append(1, b"next")
    assert log.gather.records_end == log.gather.appended_end > sealed_end
    end = written(log)
    log.watermark.confirm(end)
    assert log.high_watermark == log.gather.records_end == end


def test_a_power_cut_never_leaves_less_than_the_synced_end_that_was_reported() -> None:
    """A node that reported more than it finds at its next start is taken for an older copy of its data."""
    for seed in range(200):
        rng, disk = random.Random(seed), MemoryDisk()
        log, _ = opened(disk)
        reported = 0
        for _ in range(rng.randint(1, 30)):
            choice = rng.random()
            if choice < 0.3 and log.gather.needs_seal:
                seal(log)
            elif choice < 0.6:
                written(log, is_confirmed=True)
            elif choice < 0.8:
                log.gather.append(1, rng.randbytes(rng.randint(1, 5000)))
                taken = log.gather.take()
                assert taken is not None
                log.writer.write(taken, sync=False)
                log.complete(taken)
            else:
                log.writer.sync()
            assert log.synced_end >= reported
            reported = log.synced_end
        for left in (disk.after_power_cut(), disk.after_kill(), *disk.crash_states(3, seed)):
            again, _ = opened(left)
            assert again.synced_end >= reported, seed


def test_a_power_cut_that_takes_a_seal_takes_no_checkpoint() -> None:
    """A checkpoint that stood behind a seal would stand where other bytes are written next."""
    disk = MemoryDisk()
    log, _ = opened(disk)
    end = written(log, is_confirmed=True)
    seal(log)
    assert log.watermark.position.offset == end
    again, found = opened(disk.after_power_cut(), start=log.watermark.position, synced_to=log.synced_end)
    assert (again.written_end, again.stored.damaged, found) == (end, (), [])


def test_commits_and_their_headers_are_passed_on_before_they_are_written() -> None:
    disk = MemoryDisk()
    log, _ = opened(disk)
    passed: list[tuple[int, bytes]] = []

    def before_write(taken: SealedCommit, header: bytes) -> None:
        assert log.written_end == taken.offset
        assert not any(disk.names[f"log/{0:020d}"].content[taken.offset : taken.end]), "nothing is written yet"
        head = decode_header(header, taken.offset, taken.segment_base)
        assert head is not None
        assert head.crc == commit_crc(header[: HEADER_BYTES - 4], *taken.parts)
        passed.append((taken.offset, b"".join((header, *taken.parts))))

    log.writer.before_write = before_write
    for _ in range(3):
        written(log)
    seal(log)
    assert len(passed) == 4
    for offset, data in passed:
        assert log.stored.read(offset, len(data)) == data


def test_an_error_of_what_takes_commits_before_they_are_written_fails_the_log() -> None:
    log, _ = opened(MemoryDisk())

    def broken(taken: SealedCommit, header: bytes) -> None:
        raise ValueError("odd")

    log.writer.before_write = broken
    log.gather.append(1, b"x")
    with pytest.raises(ValueError, match="odd"):
        commit(log)
    assert isinstance(log.failed, ValueError)


def test_the_ends_of_the_newest_commits_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert RECENT_COMMITS_MAX == 16_384
    monkeypatch.setattr("qmq_node.log.commit_ends.RECENT_COMMITS_MAX", 4)
    ends = CommitEnds()
    assert (ends.crc_at(0), ends.at_or_below(100), ends.count_above(0)) == (None, None, 0)
    for number in range(1, 20):
        ends.add(10 * number, number)
        assert ends.count_above(0) < 8
        assert ends.count_above(0) >= min(number, 4)
        assert [ends.crc_at(10 * n) for n in range(max(1, number - 3), number + 1)] == list(
            range(max(1, number - 3), number + 1)
        )
    assert ends.crc_at(185) is None
    assert ends.at_or_below(189) == Position(180, 18)
    assert ends.at_or_below(10) is None
    assert ends.count_above(175) == 2
