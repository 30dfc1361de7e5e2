"""A delay node's state as another member copies it: a master that is driven step by step, and the lives of a slave."""

import random
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial

from delay_node.checkpoint import CHECKPOINT_NAME, state_of_copy
from delay_node.hour import Hours
from delay_node.recovery import clear_store, open_store
from delay_node.state_files import DelayStateFiles
from delay_node.store import DelayStore
from qmq_node.commits.applying import Applying
from qmq_node.log.checkpoint import CheckpointFile, CheckpointStore, save_copied
from qmq_node.log.handles import HandleCache
from qmq_node.log.replay import MemberOpening, RecoveryReport
from qmq_node.process.copy_counters import CopyCounters
from qmq_node.replication.replica_state import ReplicaStateFile
from qmq_node.replication.rules.roles import Copying, CopyPhase, ReplicaState
from qmq_node.replication.slave.slave_copy import SlaveCopy
from qmq_node.replication.state_files import StateFile, WantedBytes
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.copies import sent
from tests.support.drivers.delay_driver import ROOT, DelayDriver
from tests.support.manual_clock import ManualClock
from tests.support.promises import Check, judging

SEGMENT_BYTES = 32 * 1024
LOG_ID = "00000000000000a1"


def files_of(store: DelayStore) -> DelayStateFiles:
    """The files of an open store."""
    return DelayStateFiles(store.disk, ROOT, lambda: store.hours)


def newest(files: DelayStateFiles) -> CheckpointFile:
    """The newest checkpoint beside them."""
    found = files._checkpoints.open_newest()
    assert found is not None
    return found


class Master:
    """A master whose log has lost its first segments, and the state that slaves read of it."""

    def __init__(self, seed: int, steps: int = 40) -> None:
        self.driver = DelayDriver(MemoryDisk(), seed, segment_bytes=SEGMENT_BYTES)
        while self.driver.store.log.begin == 0:
            self.run(steps)
        self.checkpoint()
        self.run(steps)
        self.driver.commit()
        self.keep()

    def run(self, steps: int) -> None:
        self.driver.run(steps)

    def checkpoint(self) -> None:
        self.driver.commit()
        self.driver.checkpoint()

    @property
    def store(self) -> DelayStore:
        store: DelayStore = self.driver.store
        return store

    def keep(self) -> None:
        """Have slaves read the newest checkpoint from now on."""
        self.files = files_of(self.store)
        self._checkpoint = newest(self.files)
        self.state = self._checkpoint.read(0, self._checkpoint.size)
        self.offset = self._checkpoint.position.offset
        self.counted: Mapping[str, StateFile] = self.files.counted(self._checkpoint)

    def read(self, name: str, begin: int, size: int) -> bytes:
        file = self.counted[name]
        assert begin + size <= file.bytes, "beyond the count"
        assert self.files.is_current(file)
        return self.files.read(file, begin, size)


Answer = Callable[[WantedBytes], bytes]


def opened(disk: MemoryDisk, opening: MemberOpening) -> tuple[DelayStore, RecoveryReport]:
    """The store of a slave."""
    store, report = open_store(disk, ROOT, segment_bytes=SEGMENT_BYTES, handles=HandleCache(disk), member=opening)
    if store.log.failed is not None:
        raise store.log.failed
    return store, report


class Slave:
    """The lives of a slave until it follows, one phase after the other, as `Replication` and `Follower` do it.

    Args:
        answer: what the master answers, if not what it has.
    """

    def __init__(
        self, disk: MemoryDisk, master: Master, seed: int, *, epoch: int = 1, answer: Answer | None = None
    ) -> None:
        self.disk = disk
        self.rng = random.Random(seed)
        self.master = master
        self.epoch = epoch
        self.answer = answer or self._answer
        self.other: Answer = lambda wanted: b""
        """What a third member answers for what is damaged at the master."""
        self.read_bytes = 0
        """Of files."""
        self.has_read: list[tuple[str, int]] = []
        """Names and begins."""
        self.counters = CopyCounters()
        """Of all lives."""
        disk.make_dir(ROOT)
        self.replica = ReplicaStateFile(disk, ROOT)

    def begin(self, log_end: int = 0) -> "Slave":
        """Have it replace what it has."""
        self.replica.load()
        self.replica.save(ReplicaState(self.epoch, is_only_member=False, log_id=self.replica.state.log_id))
        self.replica.set_copying(Copying(0, log_end, CopyPhase.CLEARING))
        return self

    def _answer(self, wanted: WantedBytes) -> bytes:
        size = self.rng.choice((wanted.bytes, self.rng.randint(1, wanted.bytes)))
        return self.master.read(wanted.file, wanted.begin, size)

    def run(self) -> DelayStore:
        """Copy until nothing is left to be copied; the store then."""
        while (copying := self.replica.load().copying) is not None:
            self.advance(copying)
        return opened(self.disk, MemberOpening(0))[0]

    def _files(self) -> DelayStateFiles:
        return DelayStateFiles(self.disk, ROOT, lambda: Hours(ROOT, HandleCache(self.disk)))

    def advance(self, copying: Copying) -> None:
        """One life."""
        files = self._files()
        if copying.phase is CopyPhase.CLEARING:
            files.keep(copying.end)
            clear_store(self.disk, ROOT)
            self.replica.set_copying(Copying(0, 0, CopyPhase.STATE))
            return
        store, _ = opened(self.disk, MemberOpening(0, copying.begin, is_log_only=not copying.is_usable))
        if not copying.is_usable:
            with judging(Check.COPIED):
                assert (dict(store.hours), store.pending) == ({}, 0), "the state is not usable yet"
        log = store.log
        checkpoints = CheckpointStore(self.disk, f"{ROOT}/checkpoint", CHECKPOINT_NAME)
        save = partial(save_copied, checkpoints, own_state=state_of_copy)
        copied = self.replica.copied_log(log)
        copy = SlaveCopy(self.replica, log, copied, ManualClock(), save, files=files, counters=self.counters)
        copy.goal = self.master.store.log.written_end
        if copy.needs_state(self.epoch):
            copy.store_state(self.master.state, self.epoch, LOG_ID)
        if copy.needs_files:
            self._copy_files(copy)
        begin = log.written_end or self.master.store.log.begin
        for commits in sent(self.master.store.log, self.rng, begin):
            copy.copied.complete(copy.copied.write(commits))
            if self.rng.random() < 0.3:
                copy.copied.sync()
            if copy.has_log():
                break
        copy.copied.sync()
        if copying.is_usable:
            copy.store_end()
        else:
            assert copy.has_log()
            copy.store_log()

    def _copy_files(self, copy: SlaveCopy) -> None:
        steps = copy.copy_files()
        wanted = next(steps, None)
        while wanted is not None:
            if wanted.is_damaged:
                wanted = _send(steps, self.other(wanted))
                continue
            data = self.answer(wanted)
            self.read_bytes += len(data)
            self.has_read.append((wanted.file, wanted.begin))
            wanted = _send(steps, data)
        copy.store_files()


def _send(steps: Generator[WantedBytes, bytes, None], data: bytes) -> WantedBytes | None:
    try:
        return steps.send(data)
    except StopIteration:
        return None


def counted_bytes(disk: MemoryDisk, files: Mapping[str, StateFile]) -> Iterator[tuple[str, bytes]]:
    """What a checkpoint counts of files, as a disk has it."""
    for name, file in files.items():
        if file.bytes:
            yield name, bytes(disk.names[file.path].content[: file.bytes])


def assert_equal(slave: Slave) -> None:
    """The slave has what the master's checkpoint counts."""
    counted = slave.master.counted
    with judging(Check.COPIED):
        assert dict(counted_bytes(slave.disk, counted)) == dict(counted_bytes(slave.master.driver.disk, counted))


async def applied(slave: Slave) -> DelayStore:
    """The store of a slave that has followed to the end of the master's log, and applied it."""
    end = slave.master.store.log.written_end
    store, report = opened(slave.disk, MemberOpening(end))
    applying = Applying(store.log, report.replay)
    await applying.advance(end)
    return store
