"""Slaves that follow a master: where they begin, what they receive, and what is answered when."""

import asyncio

import pytest

from qmq.net.node_secret import NodeSecret
from qmq.protocol.codes import FollowResult, FollowState
from qmq_node.log.record import HEADER_BYTES
from qmq_node.replication.master import feed, sender
from tests.sim.leading.scene import Scene, ScriptedSlave, leading, membership
from tests.support.drivers.logs import drop_before
from tests.support.waiting import eventually_async


async def test_a_master_that_is_alone_in_its_set_confirms_what_its_disk_has() -> None:
    async with leading(membership(in_sync_min=1)) as scene:
        end = await scene.write()
        assert (scene.answered, scene.committer.high_watermark) == ([0], end)
        master = scene.leading.master
        assert (master.accepts_sends, master.send_refusal, master.stalled_seconds) == (True, "", 0)


async def test_a_slave_joins_empty_and_answers_wait_for_it_from_then_on() -> None:
    async with leading() as scene:
        await scene.write()
        assert scene.answered == [0], "no other slave counts"
        assert scene.leading.master.send_refusal == "read only: 2 copies are required, 1 is in sync"
        slave = await scene.following("a")
        assert scene.store.membership.in_sync == ("m", "a")
        assert scene.leading.master.accepts_sends
        slave.is_stalled = True
        end = await scene.write()
        await scene.wait(1.0)
        assert scene.answered == [0]
        assert scene.leading.master.stalled_seconds == pytest.approx(1.0, abs=0.1)
        slave.resume()
        await eventually_async(lambda: scene.answered == [0, 1])
        assert scene.committer.high_watermark == end
        assert scene.leading.master.stalled_seconds == 0
        await eventually_async(lambda: slave.high_watermark == end, what="the slave learns the high watermark")
        await eventually_async(lambda: slave.end.offset == scene.log.written_end)
        slave.check_log()


async def test_a_slave_far_behind_is_served_from_the_segments_and_their_seals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "READ_BYTES", 3_000)
    async with leading(commits_before=120) as scene:
        assert len(scene.log.stored.segments()) >= 3
        slave = await scene.following("a")
        counters = scene.leading.counters
        assert counters.sent_bytes["disk"] == sum(len(commit.data) for commit in slave.commits)
        assert max(len(commit.data) for commit in slave.commits) < 3_000
        await scene.write()
        await eventually_async(lambda: slave.has_all)
        assert counters.sent_bytes["memory"] == len(slave.commits[-1].data)
        slave.check_log()


async def test_a_slave_that_has_a_part_of_the_log_receives_the_rest() -> None:
    async with leading(commits_before=40) as scene:
        slave = await scene.following("a")
        await slave.disconnect()
        for _ in range(50):
            await scene.write()
        for _ in range(7):
            slave.commits.pop()
        answer = await slave.follow()
        assert 0 < answer.keep_to < scene.log.synced_end
        await eventually_async(lambda: slave.has_all)
        slave.check_log()
        assert answer.begin == 0
        assert [base for base, _ in answer.segments][:3] == [0, 8192, 16384]


async def test_commits_that_left_memory_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async with leading(membership("m", "a")) as scene:
        scene.leading._feed._bytes_max = 1_000
        slave = await scene.following("a")
        slave.is_stalled = True
        for _ in range(60):
            await scene.write()
        assert scene.leading._feed.kept_bytes <= 1_000
        slave.resume()
        await eventually_async(lambda: len(scene.answered) == 60)
    assert feed.FEED_BYTES_MAX == 64 << 20


async def test_commits_stay_in_memory_until_all_that_follow_have_confirmed_them() -> None:
    async with leading(membership("m", "a")) as scene:
        kept_bytes = lambda: scene.leading._feed.kept_bytes  # noqa: E731
        slave, other = await scene.following("a"), scene.slave("b")
        other.state = FollowState.COPYING
        await other.follow(window_bytes=2_000)
        other.state = FollowState.FOLLOWING
        for slow in (slave, other):
            slow.is_stalled = True
            for _ in range(20):
                await scene.write(400)
            await scene.wait(0.1)
            assert kept_bytes() >= 20 * 400
            slow.resume()
            # A seal is confirmed with the next commit.
            await scene.write(400)
            await eventually_async(lambda: len(scene.answered) == scene.sent and other.has_all)
            await eventually_async(lambda: kept_bytes() <= HEADER_BYTES)
    assert set(scene.leading.counters.sent_bytes) == {"memory"}


async def test_a_slave_that_connects_again_gets_what_it_lacks_from_memory() -> None:
    async with leading(membership("m", "a")) as scene:
        slave = await scene.following("a")
        await slave.disconnect()
        for _ in range(20):
            await scene.write(400)
        await slave.follow()
        await eventually_async(lambda: len(scene.answered) == scene.sent)
        slave.check_log()
    assert set(scene.leading.counters.sent_bytes) == {"memory"}


async def test_a_commit_larger_than_the_memory_for_commits_is_sent_from_there() -> None:
    async with leading() as scene:
        scene.leading._feed._bytes_max = 100
        await scene.following("a")
        for size in (2_000, 10, 3_000):
            await scene.write(size)
            await eventually_async(lambda: len(scene.answered) == scene.sent)
        assert set(scene.leading.counters.sent_bytes) == {"memory"}


async def seal_at_end(scene: Scene) -> tuple[ScriptedSlave, int]:
    """A slave that has a seal and has not synced it; the end of what it has synced."""
    slave = await scene.following("a")
    end = await scene.write()
    await eventually_async(lambda: slave.end.offset == end + HEADER_BYTES)
    await slave.disconnect()
    await eventually_async(lambda: not slave.in_sync)
    slave.is_stalled = True
    answer = await slave.follow()
    assert answer.keep_to == end + HEADER_BYTES
    slave.synced_end = end
    return slave, end


async def test_a_slave_may_confirm_less_than_it_keeps() -> None:
    async with leading() as scene:
        slave, end = await seal_at_end(scene)
        slave.confirm()
        slave.confirm()
        await eventually_async(lambda: slave.in_sync)
        slave.resume()
        await scene.write()
        await eventually_async(lambda: scene.answered == [0, 1])
        assert slave.is_connected
        slave.confirm(synced_end=end)
        await eventually_async(lambda: not slave.is_connected)
        assert scene.leading.counters.rejected_confirmations == {"below_last": 1}


async def test_what_a_slave_keeps_is_checked_as_far_as_its_crc_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    async with leading() as scene:
        slave, end = await seal_at_end(scene)
        monkeypatch.setattr(scene.log, "crc_at", lambda _: None)
        slave.confirm(synced_end=end - 1, crc=7)
        slave.confirm()
        await scene.wait(0.1)
        assert (slave.is_connected, scene.leading.slaves()[0].state) == (True, None)
        monkeypatch.undo()
        slave.confirm(crc=7)
        await eventually_async(lambda: not slave.is_connected)
        assert scene.leading.counters.rejected_confirmations == {"other_crc": 1}


async def test_a_slave_of_the_in_sync_set_does_not_discard_its_log() -> None:
    async with leading(membership("m", "a"), commits_before=120) as scene:
        await asyncio.to_thread(drop_before, scene.log, 9_000)
        slave = scene.slave("a")
        # As if an older copy of its folder had been put back.
        answer = await slave.ask()
        assert (answer.result, answer.reason) == (
            FollowResult.BUSY,
            "the slave's log ends at 0, and the master's begins at 8192; it can copy when it has left the in-sync set",
        )
        await eventually_async(lambda: scene.store.membership.in_sync == ("m",), 10)
        assert (await slave.ask()).result == FollowResult.TOO_FAR_BEHIND
        await slave.disconnect()


async def test_a_slave_may_prove_either_value_of_a_secret_that_is_being_replaced() -> None:
    new, old = "n" * 32, "o" * 32
    async with leading(secret=NodeSecret.parse(f"{new},{old}", "test")) as scene:
        for key in (new, old):
            slave = scene.slave("a")
            slave.secret = NodeSecret.parse(key, "test")
            assert (await slave.ask()).result is FollowResult.ACCEPTED
