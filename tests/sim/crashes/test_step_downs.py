"""A master with commits that no other member has steps down, truncates them, and continues with other commits in their place.

What is derived from the log must not remember them: a checkpoint that mentions what was truncated would make the store skip the
records that take its place, because they stand at log offsets that it has already applied.
"""

import pytest

from broker_node.storage.store import MessageStore
from qmq.errors import LogError
from qmq_node.log.truncation import Truncation, TruncationFile
from qmq_node.slices import run_to_end
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.replicas import opened_slave, replayed, state_of
from tests.support.drivers.store_driver import ROOT, StoreDriver, drafted
from tests.support.promises import Check, judging

STEP_DOWNS = 6


class SteppingDown(StoreDriver):
    """Random sends, pulls, acks and checkpoints, where commits are confirmed later, some of them never."""

    def __init__(self, disk: MemoryDisk, seed: int) -> None:
        self._unconfirmed: list[tuple[int, list[tuple[str, tuple[object, ...]]]]] = []
        """The ends of commits, and what is promised when they are confirmed."""
        self.saved_at = 0
        """The log position of the newest checkpoint."""
        self.saved_records_end = 0
        """Up to here it may hold records."""
        super().__init__(disk, seed)

    def commit(self) -> None:
        log = self.store.log
        while (commit := log.gather.take()) is not None:
            log.writer.write(commit)
            log.complete(commit, is_confirmed=False)
            is_last = not log.gather.has_pending
            self._unconfirmed.append((commit.end, self._unpromised if is_last else []))
        self._unpromised = []
        if self.rng.random() < 0.3 and (seal := log.gather.seal_idle()) is not None:
            log.writer.write(seal, sync=False)
            log.complete(seal)
        self.confirm(self.rng.randint(0, len(self._unconfirmed)))

    def confirm(self, count: int) -> None:
        """The oldest commits are on all members."""
        for end, promises in self._unconfirmed[:count]:
            self.store.log.watermark.confirm(end)
            self.store.completed(end)
            appended, self._unpromised = self._unpromised, promises
            self._promise()
            self._unpromised = appended
        del self._unconfirmed[:count]

    def checkpoint(self, *, is_serving: bool = False) -> None:
        draft = drafted(self.checkpoints, self.serve, self.rng) if is_serving else run_to_end(self.checkpoints.draft())
        # Served before the commit ends with which everything is written that the draft holds.
        self.send("mail", 1)
        self.commit()
        self.wait_for(draft.records_end)
        self.checkpoints.save(draft)
        self.checkpoints.saved(draft)
        self.saved_at, self.saved_records_end = draft.position.offset, draft.records_end

    def wait_for(self, end: int) -> None:
        """As `Checkpointing` does before it saves a draft."""
        while self.store.log.high_watermark < end:
            self.confirm(1)

    def step_down(self) -> None:
        """Truncate to the end of a commit that the new master has, look at it as a slave, and be promoted again."""
        log = self.store.log
        known = log.high_watermark
        end = self.rng.choice([known, *(end for end, _ in self._unconfirmed)])
        crc = log.crc_at(end) or log.stored.read_crc_at(end) or 0
        log.truncate(Truncation(end, crc, log.epoch + 1, "p"), high_watermark=known, checkpoint_offset=self.saved_at)
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


def left_by_a_master(seed: int, *, is_rebuilt: bool) -> tuple[SteppingDown, MemoryDisk]:
    """A master whose newest checkpoint holds actions behind its log position, and its disk after a kill.

    Args:
        is_rebuilt: derived files are lost, so that the next start makes all of them again.
    """
    driver = SteppingDown(MemoryDisk(), seed)
    driver.run(40)
    driver.commit()
    driver.send("orders", 3)
    driver.pull("orders", "c1", 8)
    driver.checkpoint()
    assert driver.saved_at < driver.saved_records_end
    disk = driver.disk.after_kill()
    if is_rebuilt:
        for path in [path for path in disk.names if path.startswith((f"{ROOT}/consume/", f"{ROOT}/checkpoint/tails"))]:
            disk.remove(path)
    return driver, disk


def ends_between(store: MessageStore, begin: int, end: int) -> list[Truncation]:
    """Truncations to the ends of commits in [begin, end)."""
    ends = [begin]
    store.log.stored.walk(0, lambda commit: ends.append(commit.end), lambda offset: offset >= end)
    return [Truncation(at, store.log.stored.read_crc_at(at) or 0, 2, "p") for at in ends if begin <= at < end]


@pytest.mark.parametrize("is_rebuilt", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_a_start_knows_that_what_its_checkpoint_holds_is_confirmed(seed: int, is_rebuilt: bool) -> None:
    """So nothing of it is truncated, also if an operator accepted its loss: the checkpoint would remember it."""
    driver, disk = left_by_a_master(seed, is_rebuilt=is_rebuilt)
    end = driver.saved_records_end
    slave, report = opened_slave(disk, 0)
    judge(slave, replayed(disk, end))
    with judging(Check.TRUNCATED):
        assert (report.rebuilt, slave.log.high_watermark, slave.end_records()) == (is_rebuilt, end, end)
        for kept in ends_between(slave, driver.saved_at, end):
            with pytest.raises(LogError, match="below the high watermark"):
                slave.log.truncate(kept, high_watermark=0, checkpoint_offset=driver.saved_at)


@pytest.mark.parametrize("is_rebuilt", [False, True])
def test_a_log_that_ends_before_what_its_checkpoint_holds_is_not_used(is_rebuilt: bool) -> None:
    """Another master may have other commits there, which the store would skip."""
    driver, disk = left_by_a_master(1, is_rebuilt=is_rebuilt)
    kept = ends_between(driver.store, driver.saved_at, driver.saved_records_end)[0]
    # As if the disk had lost the rest.
    TruncationFile(disk, f"{ROOT}/log").save(kept)
    lacks = f"lacks acknowledged bytes from offset {kept.end} to {driver.saved_records_end}"
    with judging(Check.TRUNCATED), pytest.raises(LogError, match=lacks):
        opened_slave(disk, 0)
