"""A slave that crashes at any disk operation while it follows or copies a master's log."""

import contextlib
import random

import pytest

from qmq_node.log.copied_log import CopiedLog
from qmq_node.log.opening import inspect
from tests.support.disks.memory_disk import MemoryDisk, SimulatedCrash
from tests.support.drivers.copies import FOLDER, assert_prefix, master_log, opened_copy, sent
from tests.support.promises import Check, judging

STATES = 6
"""What a power cut may leave, tried for each crash."""


class Slave:
    """A copy of a master's log, up to a crash, and what it confirmed."""

    def __init__(self, seed: int, crash_at: int | None, *, is_copying: bool) -> None:
        self.master = master_log(seed, commits=20)
        self.disk = MemoryDisk()
        self.confirmed = 0
        """In a copy that is not complete, nothing is confirmed; this is what a sync returned for."""
        self._rng = random.Random(seed)
        self._is_copying = is_copying
        self.disk.crash_at = crash_at
        with contextlib.suppress(SimulatedCrash):
            self._copy()
        self.disk.crash_at = None

    def _copy(self) -> None:
        log, _ = opened_copy(self.disk)
        copied = CopiedLog(log, epoch=self.master.epoch, is_copying=self._is_copying)
        for commits in sent(self.master, self._rng):
            copied.complete(copied.write(commits))
            if self._is_copying and self._rng.random() < 0.2:
                copied.sync()
            self.confirmed = log.synced_end

    def check(self, left: MemoryDisk) -> None:
        """Open what a crash left, hold it to what was confirmed, and copy the rest."""
        copied_from = 0 if self._is_copying else None
        with judging(Check.COPIED):
            found = inspect(left, FOLDER, visit=lambda _: None, copied_from=copied_from)
            assert found.damaged == (), found.damaged
            assert found.end >= self.confirmed
        log, _ = opened_copy(left, copied_from)
        with judging(Check.COPIED):
            assert_prefix(log, self.master)
        copied = CopiedLog(log, epoch=self.master.epoch, is_copying=self._is_copying)
        for commits in sent(self.master, self._rng, log.written_end):
            copied.complete(copied.write(commits))
        copied.sync()
        again, found = opened_copy(left.after_power_cut())
        with judging(Check.COPIED):
            assert (again.written_end, found.damaged) == (self.master.written_end, ())
            assert_prefix(again, self.master)


def crashes(seed: int, *, is_copying: bool, stride: int = 1) -> None:
    total = Slave(seed, None, is_copying=is_copying).disk.steps
    for crash_at in range(0, total, stride):
        slave = Slave(seed, crash_at, is_copying=is_copying)
        slave.check(slave.disk.after_kill())
        slave.check(slave.disk.after_power_cut())
        for state in slave.disk.crash_states(STATES, crash_at):
            slave.check(state)


@pytest.mark.parametrize("seed", range(3))
def test_a_slave_that_follows_keeps_what_it_confirmed(seed: int) -> None:
    crashes(seed, is_copying=False)


@pytest.mark.parametrize("seed", range(3))
def test_a_slave_that_copies_keeps_what_it_synced_and_truncates_the_rest(seed: int) -> None:
    crashes(seed, is_copying=True)
