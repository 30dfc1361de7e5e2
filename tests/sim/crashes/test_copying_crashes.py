"""A slave that crashes at any disk operation while it replaces its log by a copy of the master's, or while it catches up."""

import contextlib
import random
from functools import cache
from pathlib import Path

import pytest

from broker_node.recovery.checkpoint import CHECKPOINT_NAME
from broker_node.recovery.checkpoint_reading import state_of_copy
from broker_node.recovery.open_store import clear_store, open_store
from broker_node.storage.store import MessageStore
from broker_node.storage.subject_table import StoreLimits, StorePaths
from qmq_node.log.checkpoint import CheckpointStore, save_copied
from qmq_node.log.disk import SystemDisk
from qmq_node.log.handles import HandleCache
from qmq_node.log.replay import MemberOpening
from qmq_node.replication.replica_state import ReplicaStateFile
from qmq_node.replication.rules.roles import Copying, CopyPhase, ReplicaState
from qmq_node.replication.slave.slave_copy import SlaveCopy
from tests.sim.crashes.rebuilds import SEGMENT_BYTES, Broker, known
from tests.support.disks.memory_disk import MemoryDisk, SimulatedCrash
from tests.support.drivers.copies import sent
from tests.support.drivers.store_driver import GROUP, ROOT, StoreDriver
from tests.support.manual_clock import ManualClock
from tests.support.promises import Check, judging

PATHS = StorePaths(ROOT)
STATES = 3
"""What a power cut may leave, tried for each crash."""
STRIDE = 7


@cache
def master() -> tuple[Broker, bytes]:
    """A master whose log has lost its first segments, and its newest checkpoint."""
    broker = Broker(3)
    while broker.store.log.begin == 0:
        broker.run(40)
        broker.retain()
    broker.run(60)
    broker.commit()
    newest = CheckpointStore(broker.disk, PATHS.checkpoint, CHECKPOINT_NAME).open_newest()
    assert newest is not None
    return broker, newest.read(0, newest.size)


def old_slave() -> MemoryDisk:
    """The disk of a slave that has a log of its own, indexes and checkpoints."""
    driver = StoreDriver(MemoryDisk(), 8, segment_bytes=SEGMENT_BYTES)
    driver.run(60)
    driver.commit()
    driver.checkpoint()
    replica = ReplicaStateFile(driver.disk, ROOT)
    replica.save(ReplicaState(is_only_member=False))
    replica.set_copying(Copying(0, 0, CopyPhase.CLEARING))
    return driver.disk


class Slave:
    """The lives of a slave until it follows, one phase after the other, as `Replication` and `Follower` do it."""

    def __init__(self, disk: MemoryDisk, seed: int) -> None:
        self.disk = disk
        self._rng = random.Random(seed)
        self._broker, self._state = master()

    def _open(self, copying: Copying | None) -> tuple[MessageStore, SlaveCopy]:
        opening = MemberOpening(0)
        if copying is not None:
            opening = MemberOpening(0, copying.begin, is_log_only=not copying.is_usable)
        clock = ManualClock()
        store, _ = open_store(
            self.disk, ROOT, clock, limits=StoreLimits(), segment_bytes=SEGMENT_BYTES,
            handles=HandleCache(self.disk, clock=clock), member=opening,
        )  # fmt: skip
        if store.log.failed is not None:
            raise store.log.failed
        copied = self.replica.copied_log(store.log)
        return store, SlaveCopy(
            self.replica, store.log, copied, clock, lambda data: save_copied(self._files, data, state_of_copy)
        )

    @property
    def _files(self) -> CheckpointStore:
        return CheckpointStore(self.disk, PATHS.checkpoint, CHECKPOINT_NAME)

    def run(self) -> MessageStore:
        """Copy until nothing is left to be copied; the store then."""
        self.replica = ReplicaStateFile(self.disk, ROOT)
        while (copying := self.replica.load().copying) is not None:
            self._do(copying)
        # The next start.
        return self._open(None)[0]

    def _do(self, copying: Copying) -> None:
        if copying.phase is CopyPhase.CLEARING:
            clear_store(self.disk, PATHS)
            self.replica.set_copying(Copying(0, 0, CopyPhase.STATE))
            return
        store, copy = self._open(copying)
        if copying.phase is CopyPhase.STATE:
            with judging(Check.COPIED):
                assert (store.log.begin, store.log.written_end, store.subjects) == (0, 0, {})
            copy.store_state(self._state, 1, "")
            return
        with judging(Check.COPIED):
            assert not store.log.stored.damaged
        copy.goal = self._broker.store.log.written_end
        for commits in sent(self._broker.store.log, self._rng, store.log.written_end or self._broker.store.log.begin):
            copy.copied.complete(copy.copied.write(commits))
            if self._rng.random() < 0.3:
                copy.copied.sync()
            if copy.has_log():
                copy.store_log()
                return
        copy.copied.sync()
        if copying.phase is CopyPhase.LOG:
            assert copy.has_log()
            copy.store_log()
        else:
            copy.store_end()


def check(store: MessageStore) -> None:
    """A store opened from a copy has what its checkpoint has; the rest of the log is applied when the high watermark is known."""
    log, own = master()[0].store.log, store.log
    with judging(Check.COPIED):
        assert (own.begin, own.written_end) == (log.begin, log.written_end)
        for info in own.stored.segments():
            size = min(info.end, own.written_end) - info.base
            assert own.stored.read(info.base, size) == log.stored.read(info.base, size)
        idle = store.subjects["idle"]
        assert (idle.begin, idle.visible_end, list(idle.groups)) == (5, 5, [GROUP])
        assert (
            idle.groups[GROUP].progress.in_flight == master()[0].store.subjects["idle"].groups[GROUP].progress.in_flight
        )


def test_a_copy_without_a_crash_is_what_the_master_has() -> None:
    slave = Slave(old_slave(), 1)
    store = slave.run()
    check(store)
    # Opened with the master's high watermark, it has everything.
    check_applied(slave, store.log.written_end)


def check_applied(slave: Slave, end: int) -> None:
    """The store has everything when the log is applied up to `end`."""
    whole, _ = open_store(
        slave.disk, ROOT, ManualClock(), limits=StoreLimits(), segment_bytes=SEGMENT_BYTES,
        handles=HandleCache(slave.disk, clock=ManualClock()), member=MemberOpening(end),
    )  # fmt: skip
    broker = master()[0]
    state, histories = known(whole)
    expected, expected_histories = known(broker.store)
    with judging(Check.COPIED):
        assert state == expected
        for key, entries in expected_histories.items():
            assert entries.endswith(histories[key]), key


@pytest.mark.parametrize("first", range(STRIDE))
def test_a_crash_at_any_disk_operation_is_continued(first: int) -> None:
    crashes(first)


def crashes(first: int) -> None:
    """Crash at every STRIDE-th disk operation."""
    total = Slave(disk := old_slave(), 1).run() and disk.steps
    for crash_at in range(first, total, STRIDE):
        disk = old_slave()
        disk.crash_at = disk.steps + crash_at
        with contextlib.suppress(SimulatedCrash):
            Slave(disk, 1).run()
        disk.crash_at = None
        for left in (disk.after_kill(), disk.after_power_cut(), *disk.crash_states(STATES, crash_at)):
            check(Slave(left, 2).run())


def test_a_folder_without_a_store_can_be_cleared(tmp_path: Path) -> None:
    # Not each folder exists: the slave has never made a checkpoint.
    for disk in (MemoryDisk(), SystemDisk()):
        disk.make_dir(str(tmp_path))
        clear_store(disk, StorePaths(str(tmp_path)))
        clear_store(disk, StorePaths(str(tmp_path)))
        opened, _ = open_store(
            disk, str(tmp_path), ManualClock(), limits=StoreLimits(), segment_bytes=1 << 20,
            handles=HandleCache(disk, clock=ManualClock()), member=MemberOpening(0, 0, is_log_only=True),
        )  # fmt: skip
        assert (opened.log.written_end, opened.log.stored.segments()) == (0, [])
