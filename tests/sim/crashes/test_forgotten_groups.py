"""A kill or a power cut at any disk operation while groups are made, pulled for and forgotten.

Afterwards the groups are as they were at the last promise, or at a moment after it; a whole group, never half of one. And
no crash makes a start that has a checkpoint build all derived files again.
"""

import contextlib
import os
import random

import pytest

from broker_node.delivery.delivery import Delivery
from broker_node.recovery.checkpoint import BrokerCheckpoints
from broker_node.recovery.open_store import open_store
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Subject
from broker_node.storage.subject_table import StoreLimits
from qmq.protocol.commands import PullRequest
from qmq.protocol.scan import BatchScanner
from qmq_node.log.handles import HandleCache
from qmq_node.slices import run_to_end
from tests.support.disks.memory_disk import MemoryDisk, SimulatedCrash
from tests.support.drivers.store_driver import ROOT, drafted, entry_of
from tests.support.manual_clock import ManualClock

FULL = os.environ.get("QMQ_FAULTS") == "full"
GROUPS = ("g", "h")
State = tuple[tuple[str, int, int], ...]


def opened(disk: MemoryDisk, clock: ManualClock) -> tuple[MessageStore, bool, str]:
    store, report = open_store(
        disk, ROOT, clock, limits=StoreLimits(), segment_bytes=32 * 1024, handles=HandleCache(disk)
    )
    return store, report.rebuilt, report.why_rebuilt


def state_of(subject: Subject | None) -> State:
    """Groups with position and in flight."""
    groups = subject.groups.items() if subject is not None else ()
    return tuple(sorted((name, group.progress.next_sequence, group.progress.in_flight) for name, group in groups))


class Scenario:
    """Random steps; `possible` are the states that may be found after a crash now."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.disk, self.clock = MemoryDisk(), ManualClock()
        self.store, _, _ = opened(self.disk, self.clock)
        self.delivery = Delivery(self.store, retry_delay_ms=0)
        self.checkpoints = BrokerCheckpoints(self.store, slice_indexes=1, tail_bytes_max=200)
        self.possible: list[State] = [()]
        self.forgotten = 0
        self.number = 0

    def run(self, crash_at: int | None, steps: int = 150) -> "Scenario":
        self.disk.crash_at = crash_at
        with contextlib.suppress(SimulatedCrash):
            for _ in range(steps):
                self.step()
        return self

    def step(self) -> None:
        if self.rng.random() < 0.08:
            self.commit()
            draft = drafted(self.checkpoints, self.serve, self.rng)
            self.commit()
            self.checkpoints.save(draft)
            self.checkpoints.saved(draft)
        else:
            self.serve()

    def serve(self) -> None:
        choice, name = self.rng.random(), self.rng.choice(GROUPS)
        subject = self.store.subject("orders")
        if choice < 0.25:
            body = memoryview(entry_of(f"m{self.number}", "orders", 200))
            self.number += 1
            (run,), _ = BatchScanner().scan(bytes(body))
            self.store.append_run(subject, run, body, self.clock.wall_ms())
        elif choice < 0.55:
            self.delivery.pull(PullRequest("orders", name, "c", 3, -1, -1, 0, False))
        elif choice < 0.7:
            if name in subject.groups:
                self.store.forget_group(subject, subject.groups[name])
                self.forgotten += 1
        else:
            self.commit()
        self.possible.append(state_of(self.store.subjects.get("orders")))

    def commit(self) -> None:
        log = self.store.log
        before = state_of(self.store.subjects.get("orders"))
        while (commit := log.gather.take()) is not None:
            log.writer.write(commit)
            log.complete(commit)
            self.store.completed(log.high_watermark)
        self.possible = [before]

    def check(self, disk: MemoryDisk) -> None:
        """Open what is left twice: the second start finds what the first did."""
        had_checkpoint = any("/checkpoint/broker.0" in path for path in disk.names)
        for _ in range(2):
            store, is_rebuilt, why = opened(disk, self.clock)
            found = state_of(store.subjects.get("orders"))
            assert found in self.possible, (found, self.possible)
            assert not (is_rebuilt and had_checkpoint), why
            known = {index.folder for subject in store.subjects.values() for index in subject.indexes}
            checkpoints = BrokerCheckpoints(store, tail_bytes_max=200)
            for _ in range(2):
                draft = run_to_end(checkpoints.draft())
                checkpoints.save(draft)
                checkpoints.saved(draft)
            held = {path.rpartition("/")[0] for path in disk.names if "/progress/" in path or "/consume/" in path}
            assert held <= known, "files of forgotten groups stay"


@pytest.mark.parametrize("seed", range(6 if FULL else 2))
def test_a_kill_at_any_disk_operation_leaves_groups_whole(seed: int) -> None:
    whole = Scenario(seed).run(None)
    assert whole.forgotten > 5
    stride = 1 if FULL else max(1, whole.disk.steps // 60)
    for crash_at in range(1, whole.disk.steps, stride):
        scenario = Scenario(seed).run(crash_at)
        scenario.check(scenario.disk.after_kill())


@pytest.mark.parametrize("seed", range(6 if FULL else 2))
def test_a_power_cut_at_any_disk_operation_leaves_groups_whole(seed: int) -> None:
    total = Scenario(seed).run(None).disk.steps
    for crash_at in range(1, total, 1 if FULL else max(1, total // 40)):
        scenario = Scenario(seed).run(crash_at)
        scenario.check(scenario.disk.after_power_cut())
