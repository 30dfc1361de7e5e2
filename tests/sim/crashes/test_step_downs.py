"""A master with commits that no other member has steps down, truncates them, and continues with other commits in their place.

What is derived from the log must not remember them: a checkpoint that mentions what was truncated would make the store skip the
records that take its place, because they stand at log offsets that it has already applied.
"""

import pytest

from broker_node.store import MessageStore
from qmq.log.truncation import Truncation
from qmq.slices import run_to_end
from tests.support.memory_disk import MemoryDisk
from tests.support.promises import Check, judging
from tests.support.replicas import opened_slave, replayed, state_of
from tests.support.store_driver import StoreDriver, drafted

STEP_DOWNS = 6


class SteppingDown(StoreDriver):
    """Random sends, pulls, acks and checkpoints, where commits are confirmed later, some of them never."""

    def __init__(self, disk: MemoryDisk, seed: int) -> None:
        self._unconfirmed: list[tuple[int, list[tuple[str, tuple[object, ...]]]]] = []
        """The ends of commits, and what is promised when they are confirmed."""
        self._saved_at = 0
        super().__init__(disk, seed)

    def commit(self) -> None:
        log = self.store.log
        while (commit := log.take()) is not None:
            log.write(commit)
            log.complete(commit, is_confirmed=False)
            is_last = not log.has_pending
            self._unconfirmed.append((commit.end, self._unpromised if is_last else []))
        self._unpromised = []
        if self.rng.random() < 0.3 and (seal := log.seal_idle()) is not None:
            log.write(seal, sync=False)
            log.complete(seal)
        self.confirm(self.rng.randint(0, len(self._unconfirmed)))

    def confirm(self, count: int) -> None:
        """The oldest commits are on all members."""
        for end, promises in self._unconfirmed[:count]:
            self.store.log.confirm(end)
            self.store.completed(end)
            appended, self._unpromised = self._unpromised, promises
            self._promise()
            self._unpromised = appended
        del self._unconfirmed[:count]

    def checkpoint(self, *, is_serving: bool = False) -> None:
        draft = drafted(self.checkpoints, self.serve, self.rng) if is_serving else run_to_end(self.checkpoints.draft())
        self.commit()
        self.wait_for(draft.records_end)
        self.checkpoints.save(draft)
        self.checkpoints.saved(draft)
        self._saved_at = draft.position.offset

    def wait_for(self, end: int) -> None:
        """As `Checkpointing` does before it saves a draft."""
        while self.store.log.high_watermark < end:
            self.confirm(1)

    def step_down(self) -> None:
        """Truncate to the end of a commit that the new master has, look at it as a slave, and be promoted again."""
        log = self.store.log
        known = log.high_watermark
        end = self.rng.choice([known, *(end for end, _ in self._unconfirmed)])
        crc = log.crc_at(end) or log.read_crc_at(end) or 0
        log.truncate(Truncation(end, crc, log.epoch + 1, "p"), high_watermark=known, checkpoint_offset=self._saved_at)
        self._unconfirmed.clear()
        # What is known to a slave; its own log has to be closed before the next one is opened.
        slave, _ = opened_slave(self.disk.after_kill(), known)
        judge(slave, replayed(self.disk, known))
        epoch = log.epoch + 1
        self.restart()
        judge(self.store, replayed(self.disk, end))
        self.store.log.begin_epoch(epoch)


@judging(Check.TRUNCATED)
def judge(store: MessageStore, expected: MessageStore) -> None:
    """The state is that of a replay of the log's bytes alone."""
    assert state_of(store) == state_of(expected)


def step_downs(seed: int) -> None:
    driver = SteppingDown(MemoryDisk(), seed)
    for _ in range(STEP_DOWNS):
        driver.run(driver.rng.randint(5, 60))
        driver.step_down()
    driver.commit()
    driver.confirm(len(driver._unconfirmed))
    driver.check(driver.disk.after_kill())
    judge(driver.store, replayed(driver.disk, driver.store.log.high_watermark))


@pytest.mark.parametrize("seed", range(15))
def test_a_store_does_not_remember_what_was_truncated(seed: int) -> None:
    step_downs(seed)
