"""The suite is worth what it catches: each deliberate breakage fails the check of the promise that it breaks."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from broker_node.delivery.acks import Acks
from broker_node.storage.store import MessageStore
from qmq.errors import LogError
from qmq_node.commits.applying import Applying
from qmq_node.log import recovery
from qmq_node.log.commit import SealedCommit
from qmq_node.log.handles import HandleCache
from qmq_node.log.log import SegmentedLog
from qmq_node.log.opening import Inspection
from qmq_node.log.record import Position
from qmq_node.log.truncation import Truncation, TruncationFile, finish_truncation
from qmq_node.log.writer import CommitWriter
from qmq_node.replication.replica_state import ReplicaStateFile, encode_state
from qmq_node.replication.rules.roles import ReplicaState
from qmq_node.replication.slave.slave_copy import SlaveCopy
from tests.sim.broker import test_applying
from tests.sim.crashes import test_copies, test_copying_crashes, test_replica_state, test_step_downs, test_truncation
from tests.sim.crashes import test_store_crashes as suite
from tests.support.disks.memory_disk import MemoryDisk, SimulatedCrash
from tests.support.drivers.store_driver import StoreDriver
from tests.support.promises import CaughtBy, Check


def power_cuts() -> None:
    """A few of F7's power cuts."""
    for seed in range(3):
        total = suite.run_until_crash(seed, None).disk.steps
        for crash_at in sorted(random.Random(seed).sample(range(1, total), 20)):
            driver = suite.run_until_crash(seed, crash_at)
            driver.check(driver.disk.after_power_cut())


def test_a_sync_that_does_nothing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryDisk, "__init__", _lying(MemoryDisk.__init__))
    with CaughtBy(Check.KEPT):
        power_cuts()


def _lying(init: Callable[[MemoryDisk], None]) -> Callable[[MemoryDisk], None]:
    def lying(self: MemoryDisk) -> None:
        init(self)
        self.lies_about_sync = True

    return lying


def test_new_folders_that_are_not_synced_before_a_checkpoint_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def sync(self: HandleCache, root: str) -> None:
        for path in self.unsynced:
            self.disk.open(path, writable=True).datasync()
            self.disk.sync_dir(path.rpartition("/")[0])

    monkeypatch.setattr(HandleCache, "sync", sync)
    with CaughtBy(Check.CHECKPOINT):
        power_cuts()


def test_a_checksum_that_is_not_looked_at_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "is_whole", lambda header, data: len(data) == 64 + header.body_bytes)
    with CaughtBy(Check.OPENS):
        for crash_at in range(1, 400):
            driver = suite.run_until_crash(1, crash_at)
            for state in driver.disk.crash_states(10, crash_at):
                driver.check(state)


def test_cutting_the_log_at_any_bad_commit_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery.Walker, "_judge", lambda *_: "torn")
    with CaughtBy(Check.WHOLE):
        suite.test_f10_flipped_bits_are_never_served_and_never_shorten_the_log(0)


def test_handing_out_messages_before_they_are_synced_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    append = MessageStore.append_run

    def early(self, subject, run, body, stored_at_ms, *origin):  # type: ignore[no-untyped-def]
        offset = append(self, subject, run, body, stored_at_ms, *origin)
        item = self._unsynced.pop()
        self.index(subject, item.entries, item.message_bytes)
        return offset

    monkeypatch.setattr(MessageStore, "append_run", early)
    with CaughtBy(Check.DELIVERED):
        for seed in range(10):
            for crash_at in range(5, 120, 3):
                driver = suite.run_until_crash(seed, crash_at)
                driver.check(driver.disk.after_power_cut())


def test_an_assignment_that_is_not_logged_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    act = MessageStore.act

    def forgetful(self, subject, group, action, names=b""):  # type: ignore[no-untyped-def]
        if type(action).__name__ == "Pull":
            self.apply(subject, group, action, self.log.gather.appended_end, 0.0)
            return -1
        return act(self, subject, group, action, names)

    monkeypatch.setattr(MessageStore, "act", forgetful)
    with CaughtBy(Check.MEANING):
        for seed in range(2, 5):
            driver = suite.finished(seed)
            driver.check(driver.disk.after_kill())


def test_an_ack_that_is_not_logged_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Acks, "ack", lambda self, request: -1)
    with CaughtBy(Check.ACKED):
        for seed in range(5):
            driver = suite.finished(seed)
            driver.check(driver.disk.after_kill())


def test_going_on_after_a_failed_sync_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    write = CommitWriter.write

    def stubborn(self, commit, **options):  # type: ignore[no-untyped-def]
        try:
            write(self, commit, **options)
        except OSError:
            self.failed = None
            raise

    monkeypatch.setattr(CommitWriter, "write", stubborn)
    with CaughtBy(Check.FAIL_STOP):
        suite.test_f15_after_one_failed_sync_nothing_is_acknowledged_any_more()


def test_an_epoch_that_is_used_before_it_is_synced_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def save(self: ReplicaStateFile, state: ReplicaState) -> None:
        before, self.state = self.state, state
        self._file.save(encode_state(before))

    monkeypatch.setattr(ReplicaStateFile, "save", save)
    with CaughtBy(Check.EPOCH):
        test_replica_state.crashes()


def test_a_checkpoint_above_the_high_watermark_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    complete = SegmentedLog.complete

    def at_the_written_end(self: SegmentedLog, commit: SealedCommit, **options: bool) -> None:
        complete(self, commit, **options)
        self.watermark.position = Position(commit.end, self.writer.chain)

    monkeypatch.setattr(SegmentedLog, "complete", at_the_written_end)
    with CaughtBy(Check.TRUNCATED):
        for seed in range(5):
            test_step_downs.step_downs(seed)


def test_a_checkpoint_that_is_saved_before_all_it_mentions_is_confirmed_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(test_step_downs.SteppingDown, "wait_for", lambda *_: None)
    with CaughtBy(Check.TRUNCATED):
        for seed in range(15):
            test_step_downs.step_downs(seed)


def test_a_truncation_without_a_record_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def truncate(self: SegmentedLog, to: Truncation, **known: int) -> None:
        with monkeypatch.context() as steps:
            steps.setattr(TruncationFile, "load", lambda _: to)
            finish_truncation(self._disk, self._segments.folder)

    monkeypatch.setattr(SegmentedLog, "truncate", truncate)
    with CaughtBy(Check.TRUNCATED):
        test_truncation.crashes(1)


def test_several_commits_trusted_after_one_sync_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    write_copied = CommitWriter.write_copied

    def trusting(self: CommitWriter, *arguments: Any, sync_each: bool) -> None:
        write_copied(self, *arguments, sync_each=False)
        self.sync()

    monkeypatch.setattr(CommitWriter, "write_copied", trusting)
    with CaughtBy(Check.COPIED):
        for seed in range(3):
            test_copies.crashes(seed, test_copies.Way.EACH)


def test_a_shared_sync_without_a_proof_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def unproven(self: CommitWriter) -> None:
        self.shares_syncs = True

    monkeypatch.setattr(CommitWriter, "share_syncs", unproven)
    with CaughtBy(Check.COPIED):
        for seed in range(6):
            test_copies.crashes(seed, test_copies.Way.SHARED)


def test_commits_that_count_before_they_are_proven_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def sync(self: CommitWriter) -> None:
        if self._file is not None:
            self._file.datasync()
            self.synced_end = self.end

    monkeypatch.setattr(CommitWriter, "sync", sync)
    with CaughtBy(Check.COPIED):
        for seed in range(3):
            test_copies.damages(seed)


def test_claims_of_commits_that_are_trusted_above_the_proof_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery.Walker, "_is_copied", lambda *_: False)
    with CaughtBy(Check.COPIED):
        for seed in range(6):
            test_copies.crashes(seed, test_copies.Way.SHARED)


def test_a_proof_that_is_removed_before_the_last_commits_are_synced_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def sync_each(self: CommitWriter) -> None:
        self._proof.remove()
        self.shares_syncs = False

    monkeypatch.setattr(CommitWriter, "sync_each", sync_each)
    with CaughtBy(Check.COPIED):
        for seed in range(6):
            test_copies.crashes(seed, test_copies.Way.SHARED)


def test_a_proof_that_is_removed_before_the_log_is_opened_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    find_place = SegmentedLog._find_place

    def early(self: SegmentedLog, found: Inspection, *, continues: bool) -> None:
        found.proof.remove()
        find_place(self, found, continues=continues)

    monkeypatch.setattr(SegmentedLog, "_find_place", early)
    with CaughtBy(Check.COPIED):
        for seed in range(2):
            test_copies.crashes_at_opening(seed)


def test_a_log_that_is_not_removed_before_another_is_copied_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(test_copying_crashes, "clear_store", lambda disk, paths: None)
    with CaughtBy(Check.COPIED):
        test_copying_crashes.crashes(0)


def test_a_copy_can_not_be_opened_before_the_log_of_its_state_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SlaveCopy, "has_log", lambda self: self.state_offset > 0)
    with pytest.raises(LogError, match="the log lacks acknowledged bytes"):
        test_copying_crashes.Slave(test_copying_crashes.old_slave(), 1).run()


async def test_applying_above_the_high_watermark_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    apply_next = Applying._apply_next
    monkeypatch.setattr(Applying, "_apply_next", lambda self, _: apply_next(self, self._log.synced_end))
    with CaughtBy(Check.APPLIED):
        for seed in range(3):
            await test_applying.follow(seed)


def test_a_crash_in_the_scenario_is_a_crash() -> None:
    driver = StoreDriver(MemoryDisk(), 1)
    driver.disk.crash_at = driver.disk.steps + 3
    with pytest.raises(SimulatedCrash):
        driver.run(200)
