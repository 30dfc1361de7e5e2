"""A delay slave's store follows the high watermark, and is at every step what a replay of the same bytes gives."""

import asyncio
import random

import pytest

from delay_node.checkpoint import DelayCheckpoints
from delay_node.records import RecordKind
from delay_node.recovery import open_store
from delay_node.store import DelayStore
from qmq.errors import LogError
from qmq_node.commits.applying import Applying
from qmq_node.log.copied_log import CopiedLog
from qmq_node.log.handles import HandleCache
from qmq_node.log.replay import MemberOpening, RecoveryReport
from qmq_node.slices import run_to_end
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.copies import sent
from tests.support.drivers.delay_driver import ROOT, DelayDriver
from tests.support.drivers.delay_states import state_of
from tests.support.promises import Check, judging
from tests.support.waiting import eventually_async


def opened(disk: MemoryDisk, high_watermark: int) -> tuple[DelayStore, RecoveryReport]:
    return open_store(
        disk, ROOT, segment_bytes=32 * 1024, handles=HandleCache(disk), member=MemberOpening(high_watermark)
    )


def replayed(disk: MemoryDisk, high_watermark: int) -> DelayStore:
    """A store made from the bytes of the log alone."""
    fresh = MemoryDisk()
    fresh.make_dir(f"{ROOT}/log")
    for path, inode in disk.names.items():
        if path.startswith(f"{ROOT}/log"):
            fresh.create(path, 0).pwritev([bytes(inode.content)], 0)
    return opened(fresh, high_watermark)[0]


@pytest.mark.parametrize("seed", range(6))
async def test_the_store_of_a_delay_slave_is_at_every_step_a_replay_of_its_log(seed: int) -> None:
    rng, master = random.Random(seed), DelayDriver(MemoryDisk(), seed)
    # Checkpoints let the log's first segments go.
    master.checkpoint = lambda: None  # type: ignore[method-assign]
    master.run(80)
    master.commit()
    disk = MemoryDisk()
    store, report = opened(disk, 0)
    copied, applying = CopiedLog(store.log, epoch=1, is_copying=False), Applying(store.log, report.replay)
    ends = [0]
    for commits in sent(master.store.log, rng):
        headers = copied.write(commits)
        copied.complete(headers)
        applying.received(commits, headers)
        ends.append(store.log.synced_end)
        await applying.advance(rng.choice(ends[-3:]))
        with judging(Check.APPLIED):
            assert state_of(store) == state_of(replayed(disk, applying.applied_end))
    await applying.advance(ends[-1])
    ours, theirs = state_of(store), state_of(master.store)
    with judging(Check.APPLIED):
        assert ours == state_of(replayed(disk, ends[-1]))
        assert (ours["names"], ours["totals"]) == (theirs["names"], theirs["totals"]), "as the master's own"
        assert ours["hours"] == theirs["hours"]


async def test_a_checkpoint_of_a_slave_never_stands_within_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """T1: one that does counts deliveries again after a start, and messages that wait are never loaded."""
    monkeypatch.setattr("qmq_node.commits.applying.SLICE_BYTES", 64)
    master = DelayDriver(MemoryDisk(), 3)
    master.checkpoint = lambda: None  # type: ignore[method-assign]
    for _ in range(40):
        master.send("orders", 4)
    master.commit()
    master._decide(RecordKind.CLAIMED, master.copies)
    for begin in range(0, 80, 2):
        master._decide(RecordKind.DELIVERED, master.copies[begin : begin + 2])
    master.commit()
    disk = MemoryDisk()
    store, report = opened(disk, 0)
    copied, applying = CopiedLog(store.log, epoch=1, is_copying=False), Applying(store.log, report.replay)
    checkpoints = DelayCheckpoints(store)
    for commits in sent(master.store.log, random.Random(1)):
        headers = copied.write(commits)
        copied.complete(headers)
        applying.received(commits, headers)
    made: list[int] = []

    async def make() -> None:
        while not made or made[-1] < store.log.synced_end:
            await asyncio.sleep(0)
            await checkpoints.ready()
            draft = run_to_end(checkpoints.draft())
            checkpoints.save(draft)
            checkpoints.saved(draft)
            made.append(draft.position.offset)
            again = opened(disk.after_kill(), 0)[0]
            with judging(Check.APPLIED):
                assert state_of(again) == state_of(replayed(disk, draft.position.offset))

    task = asyncio.create_task(make())
    await applying.advance(store.log.synced_end)
    await task
    assert len(set(made)) > 1, "one was made between commits"
    assert store.pending == len(master.copies) - 80


async def test_a_commit_is_applied_once_although_the_task_ends_within_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a session ends, its follower is cancelled, and the next follower continues to apply the log."""

    async def spend(_: int = 1) -> None:
        await asyncio.sleep(0.01)

    master = DelayDriver(MemoryDisk(), 3)
    for _ in range(20):
        master.send("orders", 4)
    master.commit()
    disk = MemoryDisk()
    store, report = opened(disk, 0)
    copied, applying = CopiedLog(store.log, epoch=1, is_copying=False), Applying(store.log, report.replay)
    for commits in sent(master.store.log, random.Random(1)):
        copied.complete(copied.write(commits))
    monkeypatch.setattr(applying._pacer, "spend", spend)
    task = asyncio.create_task(applying.advance(store.log.synced_end))
    await eventually_async(lambda: store.commit_hold.is_within)
    task.cancel()
    await asyncio.wait([task])
    assert not store.commit_hold.is_within
    await applying.advance(store.log.synced_end)
    assert applying.applied_end == store.log.synced_end
    with judging(Check.APPLIED):
        assert state_of(store) == state_of(master.store)


async def test_no_state_is_taken_of_a_commit_that_can_not_be_applied_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = MemoryDisk()
    store, report = opened(disk, 0)
    checkpoints = DelayCheckpoints(store)
    master = DelayDriver(MemoryDisk(), 3)
    master.send("orders", 4)
    master.commit()
    copied, applying = CopiedLog(store.log, epoch=1, is_copying=False), Applying(store.log, report.replay)
    for commits in sent(master.store.log, random.Random(1)):
        copied.complete(copied.write(commits))

    def refuse(*_: object) -> None:
        raise LogError("a record can't be read", code="log.record_unreadable")

    monkeypatch.setattr(report.replay, "apply_record", refuse)
    with pytest.raises(LogError, match="a record can't be read"):
        await applying.advance(store.log.synced_end)
    with pytest.raises(LogError, match="a commit is applied in part, and can't be to its end"):
        await checkpoints.ready()


async def test_a_slave_applies_no_more_than_checkpoints_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """T15: only a master's senders are answered busy; a slave would fill its memory."""
    master = DelayDriver(MemoryDisk(), 5)
    master.checkpoint = lambda: None  # type: ignore[method-assign]
    for _ in range(40):
        master.send("orders", 5)
        master.commit()
    disk = MemoryDisk()
    store, report = open_store(
        disk, ROOT, segment_bytes=32 * 1024, handles=HandleCache(disk), member=MemberOpening(0),
        unwritten_bytes_max=10_000,
    )  # fmt: skip
    copied, applying = CopiedLog(store.log, epoch=1, is_copying=False), Applying(store.log, report.replay)
    for commits in sent(master.store.log, random.Random(1)):
        copied.complete(copied.write(commits))
    checkpoints, most = DelayCheckpoints(store), 0
    task = asyncio.create_task(applying.advance(store.log.synced_end))
    while not task.done():
        await asyncio.sleep(1.0)  # of virtual time
        most = max(most, store.hours.unwritten_bytes)
        await checkpoints.ready()
        draft = run_to_end(checkpoints.draft())
        checkpoints.save(draft)
        checkpoints.saved(draft)
        applying.continue_applying()
    await task
    assert 10_000 < most < 20_000, "one commit more than the limit at most"
    with judging(Check.APPLIED):
        assert state_of(store) == state_of(master.store)
