"""What a slave does with what its master sends: a scripted master, a real log."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from random import Random

import pytest

from qmq.protocol.codes import FollowResult, FollowState
from qmq.protocol.replication import FollowRequest, FollowResponse
from qmq_node.log.copied_log import CopiedCommits, CopiedLog
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import HEADER_BYTES, CommitHeader
from qmq_node.log.truncation import Truncation
from qmq_node.replication.master.in_sync_set import RECONNECT_SECONDS
from qmq_node.replication.master.master_state import STALLED_SECONDS
from qmq_node.replication.rules.roles import Copying, CopyPhase
from qmq_node.replication.slave import copy_thread, follower, slave_copy
from qmq_node.replication.slave.copy_thread import COMMITS_PER_CONFIRMATION
from qmq_node.replication.slave.follow_outcomes import (
    Diverged,
    LogCopied,
    MustCopy,
    ReplicationAlarm,
)
from qmq_node.replication.slave.follower import SILENCE_SECONDS
from qmq_node.replication.slave.sync_sharing import SHARING_SECONDS_MIN
from tests.sim.replication.following import (
    EPOCH,
    PROMOTION,
    ScriptedMaster,
    following,
    payloads_of,
)
from tests.sim.world.loop import running_loop
from tests.sim.world.world import World
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.copies import (
    FOLDER,
    assert_prefix,
    changed,
    commits_of,
    master_log,
    opened_copy,
    sent,
    together,
)
from tests.support.drivers.logs import drop_before, open_log
from tests.support.waiting import eventually_async


def log_of_one_epoch(commits: int) -> SegmentedLog:
    """A log in one segment."""
    log = open_log(MemoryDisk(), FOLDER, segment_bytes=1 << 20)
    for number in range(commits):
        log.gather.append(1, str(number).encode())
        taken = log.gather.take()
        assert taken is not None
        log.writer.write(taken)
        log.complete(taken)
    return log


def first_segment_end(log: SegmentedLog) -> int:
    """The end of the last commit with records in the first segment."""
    first = log.stored.segments()[0]
    inside = [commit for commit in commits_of(log) if commit.offset < first.end and len(commit.data) > HEADER_BYTES]
    return inside[-1].offset + len(inside[-1].data)


async def test_a_slave_stores_confirms_and_applies_what_the_master_sends() -> None:
    master = ScriptedMaster(master_log())
    async with following(master) as slave:
        request, end = master.requests[0], master.log.synced_end
        assert (request.node_id, request.epoch, request.promotion_id) == ("b", EPOCH, PROMOTION)
        assert (request.end, request.crc, request.epoch_chain) == (0, 0, ())
        assert (master.confirmed[0].synced_end, master.confirmed[0].crc) == (0, 0)
        master.send_all(Random(1))
        await eventually_async(lambda: master.confirmed[-1].synced_end == end)
        assert_prefix(slave.log, master.log)
        assert slave.log.epochs == master.log.epochs
        confirmed = [confirm.synced_end for confirm in master.confirmed]
        assert confirmed == sorted(confirmed)
        assert all(confirm.crc == master.crc_at(confirm.synced_end) for confirm in master.confirmed)
        assert {confirm.state for confirm in master.confirmed} == {FollowState.FOLLOWING}
        assert (slave.log.high_watermark, slave.store.payloads) == (0, []), "the master has stated no high watermark"
        watermark = slave.log.stored.segments()[1].base
        master.heartbeat(slave.log.written_end, watermark)
        # A seal may follow.
        await eventually_async(lambda: first_segment_end(master.log) <= slave.log.high_watermark <= watermark)
        applied = len(slave.store.payloads)
        assert slave.store.payloads == payloads_of(master.log)[:applied]
        master.heartbeat(slave.log.written_end, master.log.written_end)
        await eventually_async(lambda: slave.log.high_watermark == end)
        assert slave.store.payloads == payloads_of(master.log)
        assert master.confirmed[-1].applied_end < end
        confirmations = len(master.confirmed)
        for _ in range(3):
            master.heartbeat(slave.log.written_end, master.log.written_end)
        await eventually_async(lambda: master.confirmed[-1].applied_end == end)
        await asyncio.sleep(0.1)
        assert len(master.confirmed) == confirmations + 1, "only what is new"
        assert len(master.requests) == 1, "the session has not ended"
        assert slave.follower.counters.copied_bytes == 0
        assert 0 < applied < len(slave.store.payloads)
        assert slave.follower.problem == ""


async def test_a_slave_continues_where_its_log_ends_after_the_connection_broke() -> None:
    master = ScriptedMaster(master_log())
    async with following(master) as slave:
        commits = sent(master.log, Random(2))
        for commit in commits[: len(commits) // 2]:
            master.send(commit)
        await eventually_async(lambda: slave.log.written_end > commits[len(commits) // 2 - 1].offset)
        assert master.connection is not None
        broken_at = asyncio.get_running_loop().time()
        master.connection.abort()
        await eventually_async(lambda: len(master.requests) == 2)
        assert asyncio.get_running_loop().time() - broken_at < RECONNECT_SECONDS, "the master would remove it"
        request = master.requests[1]
        assert (request.end, request.crc) == (slave.log.written_end, master.crc_at(slave.log.written_end))
        assert request.epoch_chain == tuple(slave.log.epochs)
        await eventually_async(lambda: master.confirmed[-1].session == master.session)
        master.send_all(Random(3), slave.log.written_end)
        await eventually_async(lambda: slave.log.synced_end == master.log.synced_end)
        assert_prefix(slave.log, master.log)


async def test_commits_that_arrive_with_the_answer_to_follow_are_stored() -> None:
    master = ScriptedMaster(master_log())
    first = sent(master.log, Random(1))[0]

    def answer(request: FollowRequest, accepted: FollowResponse) -> FollowResponse:
        asyncio.get_running_loop().call_soon(master.send, first)
        return accepted

    master.answer = answer
    async with following(master) as slave:
        await eventually_async(lambda: slave.log.written_end == first.offset + len(first.data))


async def test_frames_before_the_session_begins_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "EARLY_FRAMES_MAX", 3)
    master = ScriptedMaster(master_log())

    def answer(request: FollowRequest, accepted: FollowResponse) -> FollowResponse:
        if len(master.requests) == 1:
            for _ in range(5):
                master.heartbeat(0, 0)
        return accepted

    master.answer = answer
    async with following(master):
        assert len(master.requests) == 2


async def test_a_master_that_sends_nothing_is_connected_to_again() -> None:
    master = ScriptedMaster(master_log())
    async with following(master) as slave:
        master.heartbeat(0, 0)
        await asyncio.sleep(SILENCE_SECONDS - 1)
        assert len(master.requests) == 1
        master.heartbeat(0, 0)
        await asyncio.sleep(SILENCE_SECONDS - 1)
        assert len(master.requests) == 1
        assert (slave.follower.silent_seconds or 0) > 1
        await eventually_async(lambda: len(master.requests) == 2)


# --- what the master answers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", [FollowResult.OTHER_PROMOTION, FollowResult.END_BEYOND, FollowResult.CRC_DIFFERS])
async def test_a_broken_rule_ends_the_follower(result: FollowResult) -> None:
    master = ScriptedMaster(master_log())
    master.answer = lambda request, answer: FollowResponse.rejection(result, "both say so")
    async with following(master, waits=False) as slave:
        error = await slave.ended()
        assert isinstance(error, ReplicationAlarm)
        assert str(error) == f"the master rejects this slave: {result.name}: both say so"
        assert len(master.requests) == 1


async def test_a_slave_too_far_behind_has_to_copy() -> None:
    master = ScriptedMaster(master_log())
    master.answer = lambda request, answer: FollowResponse.rejection(FollowResult.TOO_FAR_BEHIND, "begins at 9")
    async with following(master, waits=False) as slave:
        assert isinstance(await slave.ended(), MustCopy)


@pytest.mark.parametrize(
    "result", [FollowResult.NOT_MASTER, FollowResult.OLDER_EPOCH, FollowResult.BUSY, FollowResult.UNPROVEN]
)
async def test_a_slave_that_is_not_accepted_tries_again(result: FollowResult) -> None:
    master = ScriptedMaster(master_log())
    master.answer = lambda request, answer: (
        answer if len(master.requests) > 2 else FollowResponse.rejection(result, "not now")
    )
    async with following(master) as slave:
        assert len(master.requests) == 3
        assert slave.follower.problem == ""


async def test_a_log_with_other_commits_has_to_be_truncated() -> None:
    source = master_log()
    log, _ = opened_copy(MemoryDisk())
    copied = CopiedLog(log, epoch=EPOCH, is_copying=False)
    commits = list(commits_of(source))
    for commit in commits[:9]:
        copied.complete(copied.write(commit))
    master, keep_to = ScriptedMaster(source), commits[5].offset
    master.answer = lambda request, answer: replace(answer, keep_to=keep_to, keep_to_crc=master.crc_at(keep_to))
    async with following(master, log, waits=False) as slave:
        error = await slave.ended()
        assert isinstance(error, Diverged)
        assert error.truncation == Truncation(keep_to, master.crc_at(keep_to), EPOCH, PROMOTION)
        assert not master.confirmed


async def test_nothing_below_the_high_watermark_is_truncated() -> None:
    source = master_log()
    log, _ = opened_copy(MemoryDisk())
    copied = CopiedLog(log, epoch=EPOCH, is_copying=False)
    commits = list(commits_of(source))
    for commit in commits[:9]:
        copied.complete(copied.write(commit))
    log.watermark.confirm(log.synced_end)
    master, keep_to = ScriptedMaster(source), commits[5].offset
    master.answer = lambda request, answer: replace(answer, keep_to=keep_to, keep_to_crc=master.crc_at(keep_to))
    async with following(master, log, waits=False) as slave:
        error = await slave.ended()
        assert isinstance(error, ReplicationAlarm)
        assert f"truncated to offset {keep_to}, below the high watermark" in str(error)


async def test_no_commit_of_the_master_s_own_epoch_is_truncated() -> None:
    source = master_log()
    log, _ = opened_copy(MemoryDisk())
    copied = CopiedLog(log, epoch=EPOCH, is_copying=False)
    commits = list(commits_of(source))
    for commit in (*commits[:8], changed(commits[8], epoch=EPOCH)):
        copied.complete(copied.write(commit))
    master, keep_to = ScriptedMaster(source), commits[5].offset
    master.answer = lambda request, answer: replace(answer, keep_to=keep_to, keep_to_crc=master.crc_at(keep_to))
    async with following(master, log, waits=False) as slave:
        error = await slave.ended()
        assert isinstance(error, ReplicationAlarm)
        assert f"its newest commit is of epoch {EPOCH}, which the master has written" in str(error)


async def test_logs_that_differ_in_what_both_keep_are_an_alarm() -> None:
    master = ScriptedMaster(master_log(1))
    log, _ = opened_copy(MemoryDisk())
    copied = CopiedLog(log, epoch=EPOCH, is_copying=False)
    for commit in list(commits_of(master.log))[:4]:
        copied.complete(copied.write(commit))
    master.answer = lambda request, answer: replace(answer, keep_to_crc=answer.keep_to_crc ^ 1)
    async with following(master, log, waits=False) as slave:
        error = await slave.ended()
        assert isinstance(error, ReplicationAlarm)
        assert "differ below offset" in str(error)


async def test_a_slave_whose_copy_is_complete_begins_no_further_session() -> None:
    master = ScriptedMaster(master_log())
    master.answer = lambda request, answer: FollowResponse.rejection(FollowResult.BUSY, "not now")
    async with following(master, waits=False, copying=Copying(0, 100, CopyPhase.LOG, 50, EPOCH)) as slave:
        await eventually_async(lambda: len(master.requests) == 3)
        # The writing thread says so between two sessions.
        slave.follower.copy.is_log_copied = True
        assert isinstance(await slave.ended(), LogCopied)
        assert len(master.requests) == 3


def without_its_first_segment(source: SegmentedLog) -> SegmentedLog:
    """A slave's log that has nine commits of the second segment, and no other."""
    log, _ = opened_copy(MemoryDisk())
    copied = CopiedLog(log, epoch=EPOCH, is_copying=False)
    commits = list(commits_of(source))
    second = next(number for number, commit in enumerate(commits) if commit.segment_base > 0)
    for commit in commits[: second + 9]:
        copied.complete(copied.write(commit))
    drop_before(log, commits[second].offset)
    assert log.begin > 0
    return log


@pytest.mark.parametrize("below", [0, 200])
async def test_a_copy_that_begins_behind_what_the_master_keeps_begins_again(below: int) -> None:
    master = ScriptedMaster(master_log())
    log = without_its_first_segment(master.log)
    master.answer = lambda request, answer: replace(answer, keep_to=log.begin - below, keep_to_crc=1)
    copying = Copying(0, 1 << 30, CopyPhase.LOG, 1 << 20, EPOCH)
    async with following(master, log, waits=False, copying=copying) as slave:
        error = await slave.ended()
        assert isinstance(error, MustCopy)
        assert f"this log begins at {log.begin}, and the master's continues it from {log.begin - below} on" in str(
            error
        )


async def test_a_copy_that_begins_behind_the_state_of_its_master_begins_again() -> None:
    """The state was read from another master than the log."""
    master = ScriptedMaster(master_log())
    log = without_its_first_segment(master.log)
    copying = Copying(0, 1 << 30, CopyPhase.LOG, log.begin - 1, EPOCH)
    async with following(master, log, waits=False, copying=copying) as slave:
        error = await slave.ended()
        assert isinstance(error, MustCopy)
        assert f"this log begins at {log.begin}, behind the master's state at {log.begin - 1}" in str(error)


@pytest.mark.parametrize("below", [0, 200])
async def test_a_log_that_begins_behind_what_the_master_keeps_is_an_alarm(below: int) -> None:
    master = ScriptedMaster(master_log())
    log = without_its_first_segment(master.log)
    master.answer = lambda request, answer: replace(answer, keep_to=log.begin - below, keep_to_crc=1)
    async with following(master, log, waits=False) as slave:
        error = await slave.ended()
        assert isinstance(error, ReplicationAlarm)
        assert f"which begins at {log.begin}: everything below is confirmed" in str(error)


# --- the disk --------------------------------------------------------------------------------------------------------


async def test_a_disk_that_refuses_ends_the_node_and_confirms_nothing_more() -> None:
    master, disk = ScriptedMaster(master_log()), MemoryDisk()
    log, _ = opened_copy(disk)
    async with following(master, log) as slave:
        commits = list(commits_of(master.log))
        master.send(commits[0])
        await eventually_async(lambda: master.confirmed[-1].synced_end == commits[1].offset)
        disk.fail = lambda what, path: OSError(5, "Input/output error") if what == "sync" else None
        for commit in commits[1:4]:
            master.send(commit)
        await eventually_async(lambda: bool(slave.failures))
        assert isinstance(slave.failures[0], OSError)
        assert master.confirmed[-1].synced_end == commits[1].offset


async def test_a_record_that_can_not_be_applied_ends_the_node() -> None:
    master = ScriptedMaster(master_log())
    async with following(master) as slave:
        slave.store.refuses = True
        first = sent(master.log, Random(1))[0]
        master.send(first)
        await eventually_async(lambda: master.confirmed[-1].synced_end > 0)
        master.heartbeat(slave.log.written_end, slave.log.synced_end)
        await eventually_async(lambda: bool(slave.failures))
        assert str(slave.failures[0]) == "task 'applying' failed: LogError: no record that this version knows"


# --- far behind ------------------------------------------------------------------------------------------------------


def states(master: ScriptedMaster) -> list[FollowState]:
    """The states that the slave stated, without repetitions."""
    return [FollowState(state) for state, _ in groupby(confirm.state for confirm in master.confirmed)]


async def test_a_slave_that_is_far_behind_copies_and_then_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slave_copy, "COPY_BYTES_MIN", 20_000)
    monkeypatch.setattr(slave_copy, "FOLLOW_BYTES_MAX", 5_000)
    master = ScriptedMaster(master_log())
    end = master.log.written_end
    assert end > 40_000
    async with following(master) as slave:
        parts = sent(master.log, Random(4))
        for commits in parts[: len(parts) // 2]:
            master.send(commits, high_watermark=end)
        half = parts[len(parts) // 2].offset
        await eventually_async(lambda: slave.log.written_end >= half - 64)
        assert slave.replica.state.copying == Copying(0, end)
        await eventually_async(lambda: master.confirmed[-1].synced_end == slave.log.written_end)
        assert states(master) == [FollowState.COPYING]
        progress = slave.follower.copy.progress
        assert progress is not None
        assert (progress.done_bytes, progress.total_bytes) == (slave.log.written_end, end)
        assert slave.follower.counters.copied_bytes == slave.follower.counters.received_bytes > 0
        for commits in parts[len(parts) // 2 :]:
            master.send(commits, high_watermark=end)
        await eventually_async(lambda: master.confirmed[-1].synced_end == master.log.synced_end)
        await eventually_async(lambda: states(master) == [FollowState.COPYING, FollowState.FOLLOWING])
        assert slave.replica.state.copying is None
        assert slave.follower.copy.progress is None
        following_ends = [c.synced_end for c in master.confirmed if c.state == FollowState.FOLLOWING]
        assert following_ends[0] >= end - 5_000
        await eventually_async(lambda: slave.store.payloads == payloads_of(master.log))
        assert_prefix(slave.log, master.log)


async def test_copying_goes_on_after_a_restart() -> None:
    master = ScriptedMaster(master_log())
    master.answer = lambda request, answer: replace(answer, high_watermark=1 << 30)
    async with following(master, copying=Copying(0, 100)) as slave:
        master.send_all(Random(4))
        await eventually_async(lambda: master.confirmed[-1].synced_end == master.log.written_end)
        assert states(master) == [FollowState.COPYING]
        assert slave.replica.state.copying == Copying(0, 100)


async def test_a_copy_ends_only_when_it_is_synced_and_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slave_copy, "FOLLOW_BYTES_MAX", 5_000)
    master = ScriptedMaster(master_log())
    async with following(master, copying=Copying(0, 100)) as slave:
        # The master's answer has a high watermark, its commits do not.
        master.send_all(Random(4))
        await eventually_async(lambda: master.confirmed[-1].synced_end == master.log.written_end)
        assert (states(master), slave.log.high_watermark) == ([FollowState.COPYING], 0)
        master.heartbeat(slave.log.written_end, master.log.written_end)
        await eventually_async(lambda: states(master) == [FollowState.COPYING, FollowState.FOLLOWING])
        assert slave.log.synced_end == master.log.written_end


async def test_a_slave_with_slow_syncs_confirms_often_enough_and_shares_syncs() -> None:
    """Otherwise its master would reject sends, and remove it from the in-sync set, although it makes progress."""
    loop = running_loop()
    assert isinstance(loop, World)
    master = ScriptedMaster(master_log(record_bytes_max=50))
    end = first_segment_end(master.log)
    commits = [commit for commit in commits_of(master.log) if commit.offset < end]
    with_records = sum(len(commit.data) > HEADER_BYTES for commit in commits)
    async with following(master, opened_copy(loop.disk)[0]) as slave:
        loop.weather.sync_seconds = 0.2
        confirmed: list[tuple[float, int]] = [(loop.time(), 0)]
        master.on_confirm = lambda: confirmed.append((loop.time(), master.confirmed[-1].synced_end))
        master.send(together(commits))
        while master.confirmed[-1].synced_end < end:
            await asyncio.sleep(0.5)
            master.heartbeat(end, 0)
        assert_prefix(slave.log, master.log)
        counters = slave.follower.counters
        assert slave.follower.shares_syncs
    assert with_records > 3 * COMMITS_PER_CONFIRMATION
    assert counters.written_commits == len(commits)
    assert counters.commit_syncs <= COMMITS_PER_CONFIRMATION + 2, "the first ones had a sync each, the others share one"
    assert max(later - earlier for (earlier, _), (later, _) in pairwise(confirmed)) < STALLED_SECONDS


@pytest.mark.parametrize(("limit", "value", "commits_max"), [("COMMITS", 5, 5), ("BYTES", 300, 5), ("BYTES", 146, 2)])
async def test_commits_that_share_a_sync_are_limited(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int, commits_max: int
) -> None:
    monkeypatch.setattr(copy_thread, f"SHARED_{limit}_MAX", value)
    loop = running_loop()
    assert isinstance(loop, World)
    master = ScriptedMaster(log_of_one_epoch(40))
    commits = list(commits_of(master.log))
    async with following(master, opened_copy(loop.disk)[0]) as slave:
        loop.weather.sync_seconds = 0.05
        ends = [commit.offset + len(commit.data) for commit in commits]
        for commit in commits:
            master.send(commit)
        await eventually_async(lambda: master.confirmed[-1].synced_end == ends[-1])
        assert slave.follower.shares_syncs
        confirmed = [ends.index(confirm.synced_end) for confirm in master.confirmed if confirm.synced_end]
        assert max(later - earlier for earlier, later in pairwise(confirmed)) == commits_max


async def test_each_commit_has_its_own_sync_again_when_few_wait() -> None:
    loop = running_loop()
    assert isinstance(loop, World)
    master = ScriptedMaster(log_of_one_epoch(200))
    commits = list(commits_of(master.log))
    arrived, rest = commits[:40], commits[40:]
    async with following(master, opened_copy(loop.disk)[0]) as slave:
        loop.weather.sync_seconds = 0.05
        for commit in arrived:
            master.send(commit)
        await eventually_async(lambda: slave.log.written_end == rest[0].offset)
        assert slave.follower.shares_syncs
        assert "data/log.proof" in loop.disk.names
        loop.weather.sync_seconds = 0.0
        began = loop.time()
        for commit in rest:
            master.send(commit)
            await asyncio.sleep(0.2)
            assert slave.log.synced_end > commit.offset
            if not slave.follower.shares_syncs:
                break
        assert SHARING_SECONDS_MIN - 1 < loop.time() - began < 2 * SHARING_SECONDS_MIN + 1
        assert "data/log.proof" not in loop.disk.names
        counters = slave.follower.counters
        syncs = counters.commit_syncs
        master.send(rest[rest.index(commit) + 1])
        await eventually_async(lambda: slave.log.written_end > commit.offset + len(commit.data))
        assert counters.commit_syncs == syncs + 1


async def test_a_slave_with_a_fast_disk_never_shares_syncs() -> None:
    loop = running_loop()
    assert isinstance(loop, World)
    master = ScriptedMaster(log_of_one_epoch(50))
    commits = list(commits_of(master.log))
    async with following(master, opened_copy(loop.disk)[0]) as slave:
        for commit in commits:
            master.send(commit)
        await eventually_async(lambda: slave.log.written_end == master.log.written_end)
        counters = slave.follower.counters
        assert (counters.written_commits, counters.commit_syncs) == (50, 50)
        assert not slave.follower.shares_syncs
        assert not [path for path in loop.disk.names if path.endswith(".proof")]


async def test_commits_that_share_a_sync_are_written_as_they_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that arrive while the end of the copy is being stored have a sync each, because that comes before them."""
    monkeypatch.setattr(slave_copy, "FOLLOW_BYTES_MAX", 4_000)
    loop, written = running_loop(), dict[bool, set[int]]()
    assert isinstance(loop, World)
    write = CopiedLog.write

    def noted(self: CopiedLog, copied: CopiedCommits) -> Sequence[CommitHeader]:
        headers = write(self, copied)
        written.setdefault(self.is_copying, set()).add(len(headers))
        return headers

    monkeypatch.setattr(CopiedLog, "write", noted)
    master = ScriptedMaster(master_log(record_bytes_max=50))
    end = first_segment_end(master.log)
    commits = [commit for commit in commits_of(master.log) if commit.offset < end]
    loop.weather.sync_seconds = 0.2
    async with following(master, opened_copy(loop.disk)[0], copying=Copying(0, end)):
        for first in range(0, len(commits), 7):
            master.send(together(commits[first : first + 7]), high_watermark=end)
            await asyncio.sleep(0.15)
        while master.confirmed[-1].synced_end < end:
            await asyncio.sleep(0.5)
            master.heartbeat(end, end)
        assert states(master) == [FollowState.COPYING, FollowState.FOLLOWING]
    assert max(written[True]) == 7
    assert max(written[False]) == COMMITS_PER_CONFIRMATION


async def test_a_slave_that_leaves_confirms_until_its_session_ends_and_begins_no_other() -> None:
    master = ScriptedMaster(master_log())
    async with following(master) as slave:
        leaving = asyncio.create_task(slave.follower.leave())
        await eventually_async(lambda: master.confirmed[-1].state == FollowState.LEAVING)
        master.send_all(Random(1))
        await eventually_async(lambda: master.confirmed[-1].synced_end == master.log.synced_end)
        assert master.confirmed[-1].state == FollowState.LEAVING
        assert not leaving.done()
        assert master.connection is not None
        master.connection.abort()
        await leaving
        await slave.task
        assert len(master.requests) == 1
