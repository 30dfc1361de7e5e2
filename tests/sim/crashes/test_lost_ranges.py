"""A slave that copies the log of a damaged master, and crashes at any disk operation: it accepts what is lost, and nothing else."""

import contextlib
import random
from collections.abc import Iterator

import pytest

from qmq_node.log.copied_log import CopiedCommits, CopiedLog
from qmq_node.log.log import SegmentedLog
from qmq_node.log.opening import inspect
from qmq_node.log.record import BEGINNING, Position
from qmq_node.log.truncation import Truncation, finish_truncation
from qmq_node.replication.master.log_reader import read_batch
from tests.support.disks.memory_disk import MemoryDisk, SimulatedCrash
from tests.support.drivers.copies import FOLDER, commits_of, master_log, opened_copy
from tests.support.promises import Check, judging

STATES = 4
"""What a power cut may leave, tried for each crash."""

Range = tuple[int, int]


def batches(log: SegmentedLog, rng: random.Random, at: Position = BEGINNING) -> Iterator[CopiedCommits]:
    """What a master sends of its log from a place on."""
    while at.offset < log.written_end:
        batch = read_batch(log, at, log.written_end, rng.choice([1, 3_000, 10_000]))
        info = log.stored.segment_at(batch.offset)
        assert info is not None
        data = memoryview(b"".join(bytes(part) for part in batch.buffers))
        yield CopiedCommits(info.base, info.bytes, batch.offset, data, lost_from=batch.lost_from)
        at = batch.end


def damaged_log(seed: int) -> tuple[SegmentedLog, list[Range]]:
    """A log with up to four damaged commits, and the ranges that are lost by that."""
    rng, log = random.Random(seed), master_log(seed, commits=24)
    commits = list(commits_of(log))
    for number in rng.sample(range(len(commits) - 1), rng.randint(1, 4)):
        commit = commits[number]
        inode = log._disk.names[log.stored.files.path(commit.segment_base)]  # type: ignore[attr-defined]
        inode.content[commit.offset - commit.segment_base + rng.randrange(len(commit.data))] ^= 1
    sent = list(batches(log, random.Random(0)))
    return log, [(commit.lost_from, commit.offset) for commit in sent if commit.lost_from is not None]


def assert_equal(copy: SegmentedLog, master: SegmentedLog, lost: list[Range]) -> None:
    """The copy has the master's bytes up to its end, except where they are lost."""
    for info in master.stored.segments():
        size = min(info.end, copy.written_end) - info.base
        if size <= 0:
            break
        if any(begin <= info.base and info.base + size <= end for begin, end in lost):
            continue
        assert info in copy.stored.segments()
        here, there = (bytearray(log.stored.read(info.base, size)) for log in (copy, master))
        for begin, end in lost:
            low, high = max(begin, info.base), min(end, info.base + size)
            if low < high:
                here[low - info.base : high - info.base] = there[low - info.base : high - info.base]
        assert here == there


class Slave:
    """A copy of a damaged log, up to a crash."""

    def __init__(self, seed: int, crash_at: int | None) -> None:
        self.master, self.lost = damaged_log(seed)
        self.disk = MemoryDisk()
        self.synced = 0
        self._seed = seed
        self.disk.crash_at = crash_at
        with contextlib.suppress(SimulatedCrash):
            self._copy()
        self.disk.crash_at = None

    def _copy(self) -> None:
        rng = random.Random(self._seed)
        log, _ = opened_copy(self.disk)
        copied = CopiedLog(log, epoch=self.master.epoch, is_copying=True)
        for commits in batches(self.master, rng):
            copied.complete(copied.write(commits))
            if rng.random() < 0.2:
                copied.sync()
                self.synced = log.synced_end

    def check(self, left: MemoryDisk) -> None:
        """Open what a crash left, copy the rest, and open that."""
        rng = random.Random(self._seed)
        log, found = opened_copy(left, 0)
        with judging(Check.COPIED):
            damaged = [(damage.begin, damage.end) for damage in found.damaged]
            assert damaged == [one for one in self.lost if one[1] < log.written_end], "no other place is accepted"
            assert log.written_end >= self.synced
            assert not log.stored.own_damage
            assert_equal(log, self.master, self.lost)
        crc = log.crc_at(log.written_end) or log.stored.read_crc_at(log.written_end) or 0
        copied = CopiedLog(log, epoch=self.master.epoch, is_copying=True)
        for commits in batches(self.master, rng, Position(log.written_end, crc)):
            copied.complete(copied.write(commits))
        copied.sync()
        again, found = opened_copy(left.after_power_cut())
        with judging(Check.COPIED):
            assert again.written_end == self.master.written_end
            assert [(damage.begin, damage.end) for damage in found.damaged] == self.lost
            assert not again.stored.own_damage
            assert_equal(again, self.master, self.lost)


@pytest.mark.parametrize("seed", range(4))
def test_a_slave_that_copies_accepts_what_is_lost_and_truncates_the_rest(seed: int) -> None:
    total = Slave(seed, None).disk.steps
    for crash_at in range(total):
        slave = Slave(seed, crash_at)
        slave.check(slave.disk.after_kill())
        slave.check(slave.disk.after_power_cut())
        for state in slave.disk.crash_states(STATES, crash_at):
            slave.check(state)


@pytest.mark.parametrize("seed", range(8))
def test_not_one_byte_more_is_accepted(seed: int) -> None:
    slave = Slave(seed, None)
    lost = slave.lost[0]
    # A byte of the commit behind it, and one of the commit before it.
    for place in (lost[1] + 8, *([lost[0] - 1] if lost[0] else [])):
        left = slave.disk.after_kill()
        base = max(base for base in map(int, (n for n in left.list_dir(FOLDER) if n.isdigit())) if base <= place)
        left.names[f"{FOLDER}/{base:020}"].content[place - base] ^= 1
        found = inspect(left, FOLDER, visit=lambda _: None, copied_from=0)
        assert found.end <= lost[0], "a copy ends there"
        assert (found.walked.torn_at, found.damaged) == (found.end, ())
        following = opened_copy(left)[0]
        assert following.stored.own_damage, "what is in use has more damage than is known to be lost"


@pytest.mark.parametrize("seed", range(6))
def test_a_truncation_behind_before_and_at_a_lost_range(seed: int) -> None:
    slave = Slave(seed, None)
    for number, lost in enumerate(slave.lost):
        whole = opened_copy(slave.disk.after_kill())[0]
        header = whole.stored.next_commit(lost[1])
        assert header is not None
        behind = header.end
        for end in {behind, lost[0]} - {0}:
            total = None
            for crash_at in [None, *range(12)]:
                disk = slave.disk.after_kill()
                log = opened_copy(disk, visit_end=0)[0]
                crc = log.crc_at(end) or log.stored.read_crc_at(end)
                if crc is None:
                    # The commit before it is lost, too.
                    break
                total, disk.crash_at = disk.steps, None if crash_at is None else disk.steps + crash_at
                with contextlib.suppress(SimulatedCrash):
                    log.truncate(Truncation(end, crc, 100, "p"), high_watermark=0, checkpoint_offset=0)
                disk.crash_at = None
                left = disk.after_power_cut()
                finish_truncation(left, FOLDER)
                again, found = opened_copy(left)
                if crash_at is not None and again.written_end == whole.written_end:
                    continue
                kept = [one for one in slave.lost if one[1] < end]
                assert again.written_end == end
                assert [(damage.begin, damage.end) for damage in found.damaged] == kept
                assert list(again.stored.lost.ranges) == kept
            assert total is not None or number
