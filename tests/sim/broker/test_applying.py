"""A slave's store follows the high watermark, and is at every step what a replay of the same bytes gives."""

import asyncio
import logging
import random
from itertools import pairwise

import pytest

from broker_node.recovery.checkpoint import BrokerCheckpoints
from broker_node.recovery.open_store import renew_leases
from qmq.errors import LogError
from qmq.supervisor import Supervisor
from qmq_node.commits import applying
from qmq_node.commits.applying import AT_HAND_BYTES_MAX, READ_BYTES, SLICE_BYTES, Applying
from qmq_node.commits.checkpointing import Checkpointing
from qmq_node.log.copied_log import CopiedCommits, CopiedLog
from qmq_node.log.truncation import Truncation
from qmq_node.slices import run_to_end
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.copies import header_of, sent
from tests.support.drivers.replicas import opened_slave, replayed, state_of
from tests.support.drivers.store_driver import StoreDriver
from tests.support.promises import Check, judging


class Slave:
    """A slave of a broker that has run a random scenario."""

    def __init__(self, seed: int, steps: int = 120) -> None:
        self.rng = random.Random(seed)
        master = StoreDriver(MemoryDisk(), seed)
        master.run(steps)
        master.commit()
        self.master = master.store
        self.disk = MemoryDisk()
        self.told = self.saved_at = 0
        self._open()

    def _open(self) -> None:
        self.store, self.report = opened_slave(self.disk, self.told)
        self.applying = Applying(self.store.log, self.report.replay)
        self.copied = CopiedLog(self.store.log, epoch=1, is_copying=False)

    def write(self, commits: CopiedCommits, *, is_kept: bool = True) -> None:
        headers = self.copied.write(commits)
        self.copied.complete(headers)
        if is_kept:
            self.applying.received(commits, headers)

    async def advance(self, end: int) -> None:
        self.told = max(self.told, end)
        await self.applying.advance(end)

    def checkpoint(self) -> None:
        checkpoints = BrokerCheckpoints(self.store)
        draft = run_to_end(checkpoints.draft())
        assert draft.position.offset <= self.told
        assert draft.synced_to <= self.told
        assert draft.position.offset <= draft.records_end <= self.told
        checkpoints.save(draft)
        checkpoints.saved(draft)
        self.saved_at = draft.position.offset

    def restart(self) -> None:
        self.store.log.close()
        self.disk = self.disk.after_kill()
        self._open()

    def truncate(self, end: int) -> None:
        """As if another master had no more than this."""
        crc = self.store.log.crc_at(end) or self.store.log.stored.read_crc_at(end) or 0
        self.store.log.truncate(Truncation(end, crc, 1, "p"), high_watermark=self.told, checkpoint_offset=self.saved_at)
        self._open()

    def check(self) -> None:
        """The state is that of a replay up to the high watermark."""
        end = min(self.told, self.store.log.synced_end)
        expected = replayed(self.disk, end)
        with judging(Check.APPLIED):
            assert not self.store._noted, "histories are written"
            assert state_of(self.store) == state_of(expected)


async def follow(seed: int) -> Slave:
    """Follow the master to its end, with random high watermarks, checkpoints and restarts."""
    slave = Slave(seed)
    ends = [0]
    while slave.store.log.written_end < slave.master.log.gather.records_end:
        slave.write(sent(slave.master.log, slave.rng, slave.store.log.written_end)[0])
        ends.append(slave.store.log.synced_end)
        if slave.rng.random() < 0.7:
            await slave.advance(slave.rng.choice(ends[-4:]))
            slave.check()
        if slave.rng.random() < 0.1:
            slave.checkpoint()
        if slave.rng.random() < 0.1:
            slave.restart()
            slave.check()
        if slave.rng.random() < 0.05:
            slave.truncate(slave.rng.choice([end for end in ends if end >= slave.told]))
            slave.check()
    await slave.advance(slave.master.log.synced_end)
    slave.check()
    return slave


@pytest.mark.parametrize("seed", range(10))
async def test_the_store_of_a_slave_is_at_every_step_a_replay_of_its_log(seed: int) -> None:
    slave = await follow(seed)
    assert slave.applying.known_high_watermark == slave.master.log.synced_end
    with judging(Check.APPLIED):
        ours, theirs = state_of(slave.store), state_of(slave.master)
        assert ours["subjects"] == theirs["subjects"], "as the master's own"
        assert slave.store.log.watermark.tails == slave.master.log.watermark.tails


async def test_nothing_above_the_high_watermark_or_what_is_synced_is_applied() -> None:
    slave = Slave(3)
    commits = sent(slave.master.log, slave.rng)
    for part in commits[:4]:
        slave.write(part)
    end = slave.store.log.synced_end
    assert slave.applying.applied_end == 0
    await slave.advance(header_of(commits[0]).end)
    assert slave.applying.applied_end == slave.store.log.high_watermark == header_of(commits[0]).end
    await slave.advance(slave.master.log.synced_end)
    assert end == slave.applying.applied_end < slave.applying.known_high_watermark
    # A new master may know less.
    await slave.advance(0)
    assert slave.applying.applied_end == end
    assert slave.applying.known_high_watermark == slave.master.log.synced_end


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_checkpoint_of_a_slave_does_not_hold_its_segments_to_commits_that_may_be_truncated(
    is_restarted: bool,
) -> None:
    slave = Slave(3)
    parts = sent(slave.master.log, slave.rng)
    for part in parts:
        slave.write(part)
    end = header_of(parts[0]).end
    await slave.advance(end)
    if is_restarted:
        slave.restart()
    slave.checkpoint()
    slave.truncate(end)
    assert slave.store.log.stored.damaged == ()
    slave.check()


async def test_what_is_not_at_hand_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (AT_HAND_BYTES_MAX, READ_BYTES, SLICE_BYTES) == (64 << 20, 4 << 20, 256 << 10)
    for room, read_bytes in ((0, 1), (3_000, 5_000), (20_000, 1 << 20)):
        with monkeypatch.context() as limits:
            limits.setattr(applying, "AT_HAND_BYTES_MAX", room)
            limits.setattr(applying, "READ_BYTES", read_bytes)
            slave = Slave(5)
            for number, commits in enumerate(sent(slave.master.log, slave.rng)):
                slave.write(commits)
                assert slave.applying.at_hand_bytes <= room
                if number % 9 == 8:
                    await slave.advance(slave.store.log.synced_end)
                    slave.check()
            await slave.advance(slave.store.log.synced_end)
            slave.check()
            assert slave.applying.applied_end == slave.store.log.synced_end


def with_one_commit() -> Slave:
    """A slave that has written a single commit of 50 records with 250 messages."""
    driver = StoreDriver(MemoryDisk(), 1, segment_bytes=1 << 20)
    for _ in range(50):
        driver.send("orders", 5)
    driver.commit()
    slave = Slave(1, steps=0)
    slave.master = driver.store
    (commits,) = sent(driver.store.log, slave.rng)
    slave.write(commits)
    return slave


@pytest.mark.parametrize("seed", range(4))
async def test_commits_that_were_not_kept_are_not_passed_over(seed: int) -> None:
    slave = Slave(seed)
    for commits in sent(slave.master.log, slave.rng):
        slave.write(commits, is_kept=slave.rng.random() < 0.5)
        if slave.rng.random() < 0.3:
            await slave.advance(slave.store.log.synced_end)
            slave.check()
    await slave.advance(slave.store.log.synced_end)
    slave.check()
    assert slave.applying.applied_end == slave.store.log.synced_end


async def test_the_loop_has_its_turn_between_the_records_of_a_large_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    slave = with_one_commit()
    monkeypatch.setattr(slave.applying, "_pacer", applying.Pacer(10_000))
    task = asyncio.create_task(slave.advance(slave.store.log.synced_end))
    seen = []
    while not task.done():
        await asyncio.sleep(0)
        subject = slave.store.subjects.get("orders")
        seen.append(subject.visible_end if subject is not None else 0)
        assert slave.applying.applied_end in (0, slave.store.log.synced_end)
    assert max(after - before for before, after in pairwise(seen)) < 60
    assert seen[-1] == 250
    assert (slave.report.replay.commits, slave.report.replay.messages) == (1, 250)
    slave.check()


async def test_a_checkpoint_within_a_commit_stands_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    slave = with_one_commit()
    monkeypatch.setattr(slave.applying, "_pacer", applying.Pacer(1))
    task = asyncio.create_task(slave.advance(slave.store.log.synced_end))
    for _ in range(10_000):
        if slave.store.subjects and slave.store.subjects["orders"].visible_end >= 100:
            break
        await asyncio.sleep(0)
    slave.checkpoint()
    task.cancel()
    await asyncio.wait([task])
    assert slave.applying.applied_end == slave.store.log.synced_end, (
        "all of the commit is applied, although the task ends"
    )
    slave.check()
    slave.told = 0
    slave.restart()
    assert slave.store.subjects["orders"].visible_end >= 100
    await slave.advance(slave.store.log.synced_end)
    slave.check()


async def test_consumers_of_a_promoted_slave_have_a_whole_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_node.recovery.open_store.RENEWED_CONSUMERS", 2)
    slave = await follow(2)
    consumers = [
        consumer
        for subject in slave.store.subjects.values()
        for group in subject.groups.values()
        for consumer in group.progress.consumers.values()
    ]
    slave.store.clock.advance(3600.0)  # type: ignore[attr-defined]
    now = slave.store.clock.monotonic()
    assert all(consumer.seen_at < now for consumer in consumers)
    assert len(list(renew_leases(slave.store))) == len(consumers) // 2 > 0
    assert all(consumer.seen_at == now for consumer in consumers)


async def test_a_slave_makes_checkpoints_without_a_committer() -> None:
    slave = Slave(2)
    parts = sent(slave.master.log, slave.rng)
    supervisor = Supervisor(slave.store.clock, logger=logging.getLogger("test"), on_failure=lambda name, error: None)
    checkpoints = Checkpointing(
        BrokerCheckpoints(slave.store), slave.store.log, None, slave.store.clock, supervisor, 1, 60.0, 0
    )
    for part in parts:
        slave.write(part)
    end = header_of(parts[0]).end
    await slave.advance(end)
    await checkpoints.finish()
    assert (checkpoints.saved, checkpoints.last_position.offset) == (1, end)
    slave.restart()
    assert (slave.report.from_offset, slave.report.replayed_commits) == (end, 0)
    slave.check()


async def test_a_commit_that_can_not_be_read_again_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "AT_HAND_BYTES_MAX", 0)
    slave = Slave(5)
    parts = sent(slave.master.log, slave.rng)
    for commits in parts:
        slave.write(commits)
    path = next(path for path in slave.disk.names if path.endswith(f"/log/{0:020d}"))
    slave.disk.names[path].content[header_of(parts[2]).offset + 70] ^= 1
    with pytest.raises(LogError, match="commits can't be read"):
        await slave.advance(slave.store.log.synced_end)
    assert slave.applying.applied_end <= header_of(parts[2]).offset
