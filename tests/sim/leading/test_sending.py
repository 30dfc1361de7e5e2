"""What is sent to a slave when: the window, heartbeats, high watermarks, and places of the log that can't be read."""

import logging

import pytest

from qmq.protocol.codes import FollowState
from qmq.protocol.replication import COMMITS_BYTES_MAX
from qmq_node.replication.master import retention_holds, sender
from qmq_node.replication.master.leading import CHECK_SECONDS
from qmq_node.replication.master.listener import QUEUED_BYTES_MAX, sync_limits
from qmq_node.replication.master.retention_holds import HOLD_SECONDS
from qmq_node.replication.master.sender import HEARTBEAT_SECONDS, READ_BYTES, UNCONFIRMED_COMMITS_MAX, WINDOW_BYTES_MAX
from tests.sim.leading.scene import Scene, ScriptedSlave, commit_bytes, leading, membership
from tests.support.waiting import eventually_async


def test_the_limits_have_their_defaults() -> None:
    assert (WINDOW_BYTES_MAX, READ_BYTES, HEARTBEAT_SECONDS, UNCONFIRMED_COMMITS_MAX) == (
        64 << 20,
        1 << 20,
        0.5,
        16_384,
    )
    assert sync_limits().answer_bytes_max == QUEUED_BYTES_MAX > WINDOW_BYTES_MAX + COMMITS_BYTES_MAX


def in_flight(scene: Scene, slave: ScriptedSlave) -> int:
    report = next(report for report in scene.leading.slaves() if report.node_id == slave.node_id)
    return report.sent_end - report.confirmed_end


async def test_a_slow_slave_is_bounded_by_its_window_while_the_other_keeps_pace() -> None:
    async with leading(membership("m", "b")) as scene:
        fast, slow = await scene.following("b"), scene.slave("a")
        await slow.follow(window_bytes=2_000)
        slow.is_stalled = True
        for _ in range(60):
            await scene.write()
            assert in_flight(scene, slow) <= 2_000
        await eventually_async(lambda: len(scene.answered) == 60)
        assert fast.has_all
        assert in_flight(scene, slow) > 1_500
        reports = {report.node_id: report for report in scene.leading.slaves()}
        assert reports["a"].lag_bytes == scene.log.written_end - slow.synced_end
        assert reports["b"].lag_bytes <= 64
        slow.resume()
        await eventually_async(lambda: slow.has_all)
        slow.check_log()


async def test_the_window_is_also_bounded_by_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "UNCONFIRMED_COMMITS_MAX", 5)
    async with leading() as scene:
        slave = await scene.following("a")
        slave.is_stalled = True
        for _ in range(20):
            await scene.write()
        await scene.wait(0.1)
        assert 4 <= len(slave.commits) <= 6
        slave.resume()
        await eventually_async(lambda: slave.has_all)


@pytest.mark.parametrize("commits_before", [0, 30])
async def test_one_commit_is_always_sent_although_it_is_larger_than_the_window(commits_before: int) -> None:
    async with leading(commits_before=commits_before) as scene:
        slave = scene.slave("a")
        await slave.follow(window_bytes=1)
        await eventually_async(lambda: slave.in_sync)
        for size in (10, 3_000, 7_000, 10):
            await scene.write(size)
            # A seal follows each.
            await scene.wait(0.2)
        await eventually_async(lambda: slave.has_all)
        slave.check_log()


async def test_a_slave_that_does_not_confirm_seals_receives_what_is_behind_them() -> None:
    async with leading() as scene:
        slave = scene.slave("a")
        await slave.follow(window_bytes=1)
        await eventually_async(lambda: slave.in_sync)
        slave.is_stalled = True
        for _ in range(5):
            end = await scene.write(500)
            await eventually_async(lambda end=end: slave.end.offset >= end)
            await scene.wait(0.2)
            assert slave.end.offset == end, "a seal has to wait as well"
            slave.synced_end = end
            slave.confirm()
            await scene.wait(0.1)
            assert slave.end.offset == end + 64
        assert len(scene.answered) == 5
        assert scene.leading.slaves()[0].lag_seconds == 0.0
        assert scene.leading.master.stalled_seconds == 0.0


async def test_heartbeats_carry_the_high_watermark_while_nothing_is_sent() -> None:
    async with leading(membership("m", "a", "b")) as scene:
        slave, other = await scene.following("a"), await scene.following("b")
        await scene.write()
        await scene.wait(0.2)
        slave.heads.clear()
        await scene.wait(5.0)
        assert 8 <= len(slave.heads) <= 10
        assert {head.high_watermark for head in slave.heads} == {scene.committer.high_watermark}
        slave.heads.clear()
        # A risen one is sent with the next check: its last confirmation comes 100 ms after the commit.
        other.sync_seconds = 0.1
        end = await scene.write()
        await scene.wait(0.09)
        assert [head.high_watermark < end for head in slave.heads if head.offset < end] == [True]
        await scene.wait(0.05 + CHECK_SECONDS)
        assert slave.heads[-1].high_watermark == end


async def test_under_load_the_high_watermark_goes_with_the_commits() -> None:
    async with leading() as scene:
        slave = await scene.following("a")
        counters = scene.leading.counters
        before = counters.empty_frames

        def load(rest: int) -> None:
            """As many senders at a time as records were in flight, each sending again when it is answered."""
            scene.append()
            if rest:
                scene.committer.when_synced(scene.log.gather.appended_end - 1, lambda: load(rest - 1))

        for _ in range(20):
            load(100)
        await eventually_async(lambda: len(scene.answered) == 20 * 101)
        added = counters.empty_frames - before
        print(f"{scene.committer.commits} commits, {added} frames without any")
        assert added < scene.committer.commits // 10
        await eventually_async(lambda: slave.high_watermark == scene.committer.high_watermark)


async def test_a_damaged_place_of_the_log_ends_the_session_and_nothing_else() -> None:
    async with leading(commits_before=60) as scene:
        good = scene.slave("b")
        await good.follow()
        await eventually_async(lambda: good.in_sync)
        damaged = good.commits[30]
        file = scene.log._disk.open(scene.log.stored.files.path(0), writable=True)
        file.pwritev([b"\xff"], damaged.offset + 70)
        slave = scene.slave("a")
        await slave.follow()
        await eventually_async(lambda: not slave.is_connected)
        assert scene.leading.counters.ended_sessions == {"log_unreadable": 1}
        await scene.write()
        await eventually_async(lambda: len(scene.answered) == scene.sent)
        assert good.has_all


async def test_a_disk_that_can_not_read_ends_the_session(caplog: pytest.LogCaptureFixture) -> None:
    async with leading(commits_before=10) as scene:
        disk = scene.log._disk
        disk.break_pages(scene.log.stored.files.path(0), 0, 4096)  # type: ignore[attr-defined]
        slave = scene.slave("a")
        with caplog.at_level(logging.ERROR):
            for _ in range(3):
                await slave.follow()
                await eventually_async(lambda: not slave.is_connected)
        assert caplog.text.count("log offset 0: ") == 1, "not for each session"
        assert scene.leading.counters.ended_sessions["log_unreadable"] == 3


async def test_reads_are_off_the_event_loop_and_end_before_the_log_is_closed() -> None:
    async with leading(commits_before=100) as scene:
        slave = scene.slave("a")
        await slave.follow()
        sessions = list(scene.leading._sessions)
        assert [session.is_reading for session in sessions] == [True]
        await scene.leading.close()
        assert [session.is_reading for session in sessions] == [False]


async def test_commits_are_sent_before_this_disk_has_them() -> None:
    async with leading(membership("m", "a")) as scene:
        slave = await scene.following("a")
        scene.log._disk.weather.sync_seconds = 0.5  # type: ignore[attr-defined]
        scene.append()
        end = scene.log.gather.records_end
        await eventually_async(lambda: slave.synced_end == end)
        assert scene.log.written_end < end
        # It reconnects with a commit that the master is still writing.
        await slave.disconnect()
        answer = await slave.follow()
        assert answer.keep_to == end
        assert scene.log.written_end < end
        assert scene.answered == []
        await eventually_async(lambda: scene.answered == [0])
        assert len(slave.commits[0].data) == commit_bytes(100)


async def test_retention_keeps_what_slaves_need_that_make_progress() -> None:
    async with leading(membership("m", "b"), commits_before=60) as scene:
        good, slow = await scene.following("b"), scene.slave("a")
        slow.sync_seconds = 1.0
        await slow.follow(window_bytes=1_000)
        await eventually_async(lambda: slow.synced_end > 2_000, 60.0)
        await scene.wait(0.1)
        assert scene.leading.retained_from == slow.synced_end
        slow.is_stalled = True
        good.is_stalled = True
        # It remains in the set until the membership says otherwise.
        scene.store.outcomes = ["held"]
        await scene.write()
        await scene.wait(2.0)
        assert scene.leading.retained_from == slow.synced_end
        await scene.wait(2.5)
        assert scene.leading.retained_from == slow.synced_end
        # The slave gets no further.
        await scene.wait(HOLD_SECONDS)
        high_watermark = scene.committer.high_watermark
        assert high_watermark < scene.log.synced_end, "the slave in sync lacks the rest"
        assert scene.leading.retained_from == high_watermark
        scene.store.release.set()


async def test_retention_waits_for_a_slave_that_builds_indexes_of_what_it_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention_holds, "REBUILD_BYTES_PER_SECOND", 100)
    async with leading(membership("m"), commits_before=60) as scene:
        slave = scene.slave("a")
        slave.state = FollowState.COPYING
        await slave.follow()
        await eventually_async(lambda: slave.has_all)
        copied = slave.synced_end
        assert copied > 5_000
        await slave.disconnect()
        for _ in range(20):
            await scene.write()
        await scene.wait(HOLD_SECONDS + copied / 100 - 5)
        assert scene.leading.retained_from == copied
        await scene.wait(10)
        assert scene.leading.retained_from == scene.committer.high_watermark > copied


async def test_a_slave_catches_up_at_a_limited_rate_whatever_is_written_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sender, "READ_BYTES", 1_000)
    rate = 5_000
    async with leading(membership("m"), commits_before=100, copy_bytes_per_second=rate) as scene:
        # Only the newest commit is in memory.
        scene.leading._feed._bytes_max = 1
        behind, began = scene.log.written_end, seconds(scene)
        slave = scene.slave("a")
        await slave.follow()
        # More than the limit.
        while not slave.has_all:
            await scene.write(400)
            await scene.wait(0.02)
            assert scene.log.written_end - slave.end.offset >= behind - rate * (seconds(scene) - began) - 3_000
        assert seconds(scene) - began >= (behind - 3_000) / rate


def seconds(scene: Scene) -> float:
    """The scene's clock."""
    return scene.leading.clock.monotonic()
