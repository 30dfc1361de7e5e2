"""A node that is promoted again and again, and crashes: no commit has an epoch that the disk does not know."""

import contextlib
import random

from qmq_node.log.opening import inspect
from qmq_node.replication.replica_state import ReplicaStateFile
from qmq_node.replication.rules.roles import ReplicaState
from tests.support.disks.memory_disk import MemoryDisk, SimulatedCrash
from tests.support.drivers.logs import open_log
from tests.support.promises import Check, judging

EPOCHS = range(2, 6)


class Promotions:
    """The scenario, and what it knows to be on the disk."""

    def __init__(self, crash_at: int | None) -> None:
        self.disk = MemoryDisk()
        self.epoch = 1
        """The last epoch whose storing returned."""
        self.disk.crash_at = crash_at
        with contextlib.suppress(SimulatedCrash):
            self._run()

    def _run(self) -> None:
        self.disk.make_dir("data")
        states = ReplicaStateFile(self.disk, "data")
        states.load()
        log = open_log(self.disk, "data/log", segment_bytes=16 * 1024)
        for epoch in EPOCHS:
            states.save(ReplicaState(epoch, f"p-{epoch}", False))
            self.epoch = epoch
            states.begin_epoch(log)
            for _ in range(2):
                log.gather.append(1, b"record")
                taken = log.gather.take()
                assert taken is not None
                log.writer.write(taken)
                log.complete(taken)

    def check(self, left: MemoryDisk) -> None:
        """Hold what a crash left to what it must know."""
        states = ReplicaStateFile(left, "data")
        found = inspect(left, "data/log", visit=lambda _: None)
        with judging(Check.EPOCH):
            assert found.walked.epochs.last_epoch <= states.load().epoch
            assert states.state.epoch >= self.epoch
        states.check_log(found.walked.epochs.last_epoch)


def crashes(states: int = 20) -> None:
    """A crash at every disk operation, and what it may leave."""
    total = Promotions(None).disk.steps
    assert total > 30
    for crash_at in range(total):
        promotions = Promotions(crash_at)
        promotions.check(promotions.disk.after_kill())
        promotions.check(promotions.disk.after_power_cut())
        for number in range(states):
            promotions.check(promotions.disk.after_power_cut(random.Random(number)))


def test_no_commit_has_an_epoch_that_is_not_on_the_disk() -> None:
    crashes()
