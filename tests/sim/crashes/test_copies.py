"""A slave that crashes at any disk operation while it follows or copies a master's log."""

import contextlib
import random
from collections.abc import Iterator
from enum import Enum, auto

import pytest

from qmq_node.log.copied_log import CopiedCommits, CopiedLog
from qmq_node.log.log import SegmentedLog
from qmq_node.log.opening import inspect
from qmq_node.log.sync_proof import SyncProof
from tests.support.disks.memory_disk import MemoryDisk, SimulatedCrash
from tests.support.drivers.copies import (
    FOLDER,
    assert_prefix,
    commits_of,
    header_of,
    master_log,
    opened_copy,
    sent,
)
from tests.support.promises import Check, judging

STATES = 6
"""What a power cut may leave, tried for each crash."""


class Way(Enum):
    """How a slave syncs what it writes."""

    EACH = auto()
    """Each commit before the next."""
    SHARED = auto()
    """Sometimes several commits share a sync and a proof, sometimes each has its own."""
    COPYING = auto()


class Slave:
    """A copy of a master's log, up to a crash, and what it confirmed."""

    def __init__(self, seed: int, crash_at: int | None, way: Way) -> None:
        self.master = master_log(seed, commits=20)
        self.disk = MemoryDisk()
        self.confirmed = 0
        """In a copy that is not complete, nothing is confirmed; this is what a sync returned for."""
        self._rng = random.Random(seed)
        self._way = way
        self.disk.crash_at = crash_at
        with contextlib.suppress(SimulatedCrash):
            self._copy()
        self.disk.crash_at = None

    def _copy(self) -> None:
        log, _ = opened_copy(self.disk)
        for _ in self._written(log, sent(self.master, self._rng)):
            self.confirmed = log.synced_end

    def _written(self, log: SegmentedLog, parts: list[CopiedCommits]) -> Iterator[CopiedCommits]:
        """Write parts of the master's log, and yield each that was written."""
        copied = CopiedLog(log, epoch=self.master.epoch, is_copying=self._way is Way.COPYING)
        for commits in parts:
            if self._way is Way.SHARED and self._rng.random() < 0.3:
                self._rng.choice((copied.share_syncs, copied.sync_each))()
            copied.complete(copied.write(commits))
            if self._rng.random() < {Way.EACH: 0.0, Way.SHARED: 0.3, Way.COPYING: 0.2}[self._way]:
                copied.sync()
            yield commits
        copied.sync()

    def check(self, left: MemoryDisk) -> None:
        """Open what a crash left, hold it to what was confirmed, and copy the rest."""
        copied_from = 0 if self._way is Way.COPYING else None
        with judging(Check.COPIED):
            found = inspect(left, FOLDER, visit=lambda _: None, copied_from=copied_from)
            assert found.damaged == (), found.damaged
            assert found.end >= self.confirmed
        log, _ = opened_copy(left, copied_from)
        with judging(Check.COPIED):
            assert_prefix(log, self.master)
        list(self._written(log, sent(self.master, self._rng, log.written_end)))
        again, found = opened_copy(left.after_power_cut())
        with judging(Check.COPIED):
            assert (again.written_end, found.damaged) == (self.master.written_end, ())
            assert_prefix(again, self.master)


def crashes(seed: int, way: Way, *, stride: int = 1) -> None:
    total = Slave(seed, None, way).disk.steps
    for crash_at in range(0, total, stride):
        slave = Slave(seed, crash_at, way)
        slave.check(slave.disk.after_kill())
        slave.check(slave.disk.after_power_cut())
        for state in slave.disk.crash_states(STATES, crash_at):
            slave.check(state)


@pytest.mark.parametrize("seed", range(3))
def test_a_slave_that_follows_keeps_what_it_confirmed(seed: int) -> None:
    crashes(seed, Way.EACH)


@pytest.mark.parametrize("seed", range(6))
def test_a_slave_whose_commits_share_syncs_keeps_what_it_confirmed(seed: int) -> None:
    crashes(seed, Way.SHARED)


@pytest.mark.parametrize("seed", range(3))
def test_a_slave_that_copies_keeps_what_it_synced_and_truncates_the_rest(seed: int) -> None:
    crashes(seed, Way.COPYING)


def crashes_at_opening(seed: int) -> None:
    """Crash at any disk operation while the log is opened that a crash left, then cut the power."""
    total = Slave(seed, None, Way.SHARED).disk.steps
    for crash_at in range(total // 3, total, 5):
        slave = Slave(seed, crash_at, Way.SHARED)
        for state in (slave.disk.after_process_end(), *slave.disk.crash_states(STATES, crash_at)):
            has_crashed, step = True, 0
            while has_crashed:
                opening = state.after_process_end()
                opening.crash_at, step = step, step + 1
                with contextlib.suppress(SimulatedCrash):
                    opened_copy(opening)
                    has_crashed = False
                opening.crash_at = None
                slave.check(opening.after_power_cut())


@pytest.mark.parametrize("seed", range(2))
def test_a_crash_while_the_log_is_opened_after_shared_syncs(seed: int) -> None:
    crashes_at_opening(seed)


def damages(seed: int) -> None:
    """Flip a bit of what a slave confirmed whose commits share syncs, wherever it is, and whatever a power cut left
    behind it."""
    total = Slave(seed, None, Way.SHARED).disk.steps
    rng = random.Random(seed)
    for crash_at in range(total // 4, total, 3):
        slave = Slave(seed, crash_at, Way.SHARED)
        for state in slave.disk.crash_states(STATES, crash_at):
            if SyncProof(state, FOLDER).load() is None:
                continue
            found = inspect(state, FOLDER, visit=lambda _: None)
            header, info = rng.choice(
                [
                    (header, commit.segment_base)
                    for commit in commits_of(slave.master)
                    if commit.offset < slave.confirmed and (header := header_of(commit)).record_count
                ]
            )
            inode = state.names[found.segments.path(info)]
            inode.content[rng.randrange(header.offset, header.end) - info] ^= 1 << rng.randrange(8)
            with judging(Check.COPIED):
                damaged = inspect(state, FOLDER, visit=lambda _: None).damaged
                assert any(damage.begin == header.offset for damage in damaged), (header, damaged)


@pytest.mark.parametrize("seed", range(3))
def test_damage_of_what_was_confirmed_is_no_torn_tail(seed: int) -> None:
    damages(seed)
