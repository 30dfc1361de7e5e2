"""Which slaves count, and when the membership changes: it comes first, then the high watermark moves without the slave."""

import asyncio
from dataclasses import replace

import pytest

from qmq.protocol.codes import FollowResult, FollowState
from qmq.protocol.group_memberships import InSyncChange
from qmq_node.replication.master.in_sync_set import PROGRESS_SECONDS, RECONNECT_SECONDS, SLOW_SECONDS
from qmq_node.replication.master.leading import PAUSE_SECONDS
from qmq_node.replication.master.membership_changes import RETRY_SECONDS_FIRST, RETRY_SECONDS_MAX
from tests.sim.leading.scene import Scene, leading, membership
from tests.sim.world.loop import running_loop
from tests.support.waiting import eventually_async

FOLDER = "0123456789abcdef"


def now() -> float:
    return running_loop().now


def changes(scene: Scene) -> list[tuple[InSyncChange, str]]:
    return [(request.change, request.member) for request in scene.store.requests]


async def test_a_slave_that_stalls_is_removed_after_three_seconds_membership_first() -> None:
    assert PROGRESS_SECONDS == 3.0
    async with leading() as scene:
        slave, other = await scene.following("a"), await scene.following("b")
        await scene.write()
        slave.is_stalled = True
        await scene.wait(10.0)
        assert scene.store.membership.in_sync == ("m", "a", "b"), "nothing waits for it"
        scene.store.outcomes = ["held"]
        end = await scene.write()
        began = now()
        await eventually_async(lambda: changes(scene)[2:])
        assert now() - began == pytest.approx(3.0, abs=0.2)
        assert changes(scene)[2:] == [(InSyncChange.REMOVE, "a")]
        await scene.wait(5.0)
        assert other.synced_end >= end
        assert scene.answered == [0], "the membership does not say so yet"
        assert scene.leading.master.accepts_sends
        assert scene.leading.master.stalled_seconds > 7
        scene.store.release.set()
        await eventually_async(lambda: scene.answered == [0, 1])
        assert scene.store.membership.in_sync == ("m", "b")
        assert slave.is_connected, "it may catch up in the same session"
        slave.resume()
        began = now()
        await eventually_async(lambda: slave.in_sync, 2 * SLOW_SECONDS)
        assert now() - began == pytest.approx(SLOW_SECONDS, abs=0.2)


async def test_a_slave_that_lost_its_data_is_removed_although_it_makes_progress() -> None:
    async with leading() as scene:
        slave = await scene.following("a")
        for _ in range(5):
            await scene.write()
        await eventually_async(lambda: len(scene.answered) == scene.sent)
        await slave.disconnect()
        slave.commits.clear()
        slave.synced_end, slave.sync_seconds = 0, 1.0
        await slave.follow()
        slave.confirm()
        await eventually_async(lambda: len(changes(scene)) == 3)
        assert changes(scene)[1:] == [(InSyncChange.REMOVE, "a"), (InSyncChange.ADD, "a")]
        assert slave.has_all


async def test_a_slave_with_another_data_folder_follows_when_it_has_left_the_set() -> None:
    async with leading() as scene:
        slave = await scene.following("a")
        await scene.write()
        await eventually_async(lambda: scene.answered == [0])
        await slave.disconnect()
        slave.commits.clear()
        slave.synced_end = 0
        answer = await slave.ask(incarnation=FOLDER)
        assert (answer.result, answer.reason) == (
            FollowResult.BUSY,
            "node a is in sync with another data folder: it can follow with this one when it has left the in-sync set",
        )
        await slave.disconnect()
        await eventually_async(lambda: changes(scene)[1:] == [(InSyncChange.REMOVE, "a")])
        await eventually_async(lambda: "a" not in scene.leading.current_membership.in_sync)
        await slave.follow(incarnation=FOLDER)
        await eventually_async(lambda: slave.in_sync)
        assert scene.store.requests[-1].incarnation == FOLDER
        assert scene.store.membership.incarnation_of("a") == FOLDER


async def test_a_session_ends_when_the_membership_names_another_data_folder() -> None:
    async with leading() as scene:
        slave, other = await scene.following("a"), await scene.following("b")
        membership_of_b = scene.store.membership
        scene.store.membership = replace(membership_of_b, version=membership_of_b.version + 1).with_incarnation(
            "a", FOLDER
        )
        scene.leading.learned(scene.store.membership)
        await eventually_async(lambda: not slave.is_connected)
        await eventually_async(lambda: "a" not in scene.store.membership.in_sync)
        assert other.is_connected


async def test_progress_however_slow_keeps_a_slave_in_the_set() -> None:
    async with leading() as scene:
        slave = await scene.following("a")
        slave.sync_seconds = 2.5
        for _ in range(6):
            await scene.write()
            await scene.wait(2.0)
        assert changes(scene) == [(InSyncChange.ADD, "a")]


async def test_a_slave_whose_connection_ended_has_a_second_to_come_back() -> None:
    assert RECONNECT_SECONDS == 1.0
    async with leading() as scene:
        slave, _ = await scene.following("a"), await scene.following("b")
        for _ in range(5):
            await slave.disconnect()
            await scene.write()
            await scene.wait(0.8)
            await slave.follow()
            await eventually_async(lambda: len(scene.answered) == scene.sent)
        assert scene.store.membership.in_sync == ("m", "a", "b")
        await slave.disconnect()
        began = now()
        await eventually_async(lambda: not slave.in_sync)
        assert now() - began == pytest.approx(1.0, abs=0.2)
        await scene.write()
        await eventually_async(lambda: len(scene.answered) == scene.sent)


async def test_a_slave_that_only_reconnects_makes_no_progress() -> None:
    async with leading() as scene:
        slave = await scene.following("a")
        slave.is_stalled = True
        await scene.write()
        began = now()
        while slave.in_sync:
            await slave.disconnect()
            await slave.follow()
            await scene.wait(0.5)
            assert now() - began < 5
        assert now() - began >= 3


async def test_a_slave_of_the_membership_that_does_not_connect_is_removed() -> None:
    async with leading(membership("m", "a", "b")) as scene:
        slave = scene.slave("b")
        await slave.follow()
        await scene.write()
        began = now()
        await eventually_async(lambda: scene.answered == [0])
        assert now() - began == pytest.approx(3.0, abs=0.2)
        assert changes(scene) == [(InSyncChange.REMOVE, "a")]


async def test_a_slave_that_copies_is_removed_at_once() -> None:
    async with leading() as scene:
        slave = await scene.following("a")
        await scene.write()
        slave.state = FollowState.COPYING
        slave.confirm()
        began = now()
        await eventually_async(lambda: not slave.in_sync)
        assert now() - began < 0.1
        slave.confirm()
        await scene.wait(5.0)
        assert changes(scene) == [(InSyncChange.ADD, "a"), (InSyncChange.REMOVE, "a")]


async def test_a_slave_that_leaves_is_removed_at_once_and_counts_until_then() -> None:
    async with leading() as scene:
        leaving, other = await scene.following("a"), await scene.following("b")
        scene.store.outcomes = ["held"]
        leaving.state = FollowState.LEAVING
        leaving.confirm()
        await eventually_async(lambda: len(changes(scene)) == 3)
        end = await scene.write()
        await eventually_async(lambda: scene.answered == [0])
        assert leaving.synced_end == end, "it confirms what arrives meanwhile"
        # A seal has been written and confirmed, too.
        await scene.wait(1.0)
        assert leaving.is_connected
        scene.store.release.set()
        await eventually_async(lambda: not leaving.is_connected)
        assert scene.leading.counters.ended_sessions == {"left": 1}
        await scene.wait(5.0)
        assert other.in_sync
        assert changes(scene)[2:] == [(InSyncChange.REMOVE, "a")]


async def test_the_session_of_a_slave_that_leaves_without_being_in_sync_ends_at_once() -> None:
    async with leading(membership("m", in_sync_min=1), commits_before=3) as scene:
        slave = scene.slave("a")
        slave.state = FollowState.LEAVING
        await slave.follow()
        await eventually_async(lambda: not slave.is_connected)
        assert changes(scene) == []


async def test_a_slave_that_copies_is_not_counted_before_it_follows() -> None:
    async with leading(commits_before=20) as scene:
        slave = scene.slave("a")
        slave.state = FollowState.COPYING
        await slave.follow()
        await eventually_async(lambda: slave.has_all)
        await scene.wait(1.0)
        report = scene.leading.slaves()[0]
        assert (report.state, report.confirmed_end, report.lag_bytes, report.lag_seconds) == (
            FollowState.COPYING, scene.log.written_end, 0, 0.0,
        )  # fmt: skip
        assert changes(scene) == []
        slave.state = FollowState.FOLLOWING
        slave.confirm()
        await eventually_async(lambda: slave.in_sync)


async def test_what_a_slave_confirms_while_it_copies_does_not_count() -> None:
    async with leading() as scene:
        slave = await scene.following("a")
        scene.store.outcomes = ["held"]
        slave.state = FollowState.COPYING
        await scene.write()
        await eventually_async(lambda: slave.has_all)
        await scene.wait(1.0)
        assert scene.answered == []
        scene.store.release.set()
        await eventually_async(lambda: scene.answered == [0])
        assert scene.store.membership.in_sync == ("m",)


@pytest.mark.parametrize("outcome", ["lost", "away", "broken"])
async def test_an_addition_with_an_unknown_outcome_counts_and_is_repeated(outcome: str) -> None:
    assert (RETRY_SECONDS_FIRST, RETRY_SECONDS_MAX) == (0.2, 2.0)
    async with leading() as scene:
        scene.store.outcomes = [outcome] * 4
        slave = scene.slave("a")
        await slave.follow()
        await eventually_async(lambda: changes(scene))
        slave.is_stalled = True
        await scene.write()
        await scene.wait(0.5)
        assert scene.answered == [], "the membership may name the slave"
        slave.resume()
        began = now()
        await eventually_async(lambda: slave.in_sync)
        # Of a change that was made, the second request is stale and learns the membership.
        expected = 1 if outcome == "lost" else 4
        assert now() - began >= (0 if outcome == "lost" else 0.2 + 0.4 + 0.8 + 1.6 - 1.0)
        assert len(scene.store.requests) == expected + 1
        assert len(set(scene.store.requests)) == 1
        scene.expected_failures = {"replication_membership_change"} if outcome == "broken" else set()


async def test_a_slave_that_may_have_been_added_and_is_gone_is_removed_before_anything_is_answered() -> None:
    async with leading(membership(in_sync_min=1)) as scene:
        scene.store.outcomes = ["lost", "away"]
        slave = scene.slave("a")
        await slave.follow()
        await eventually_async(lambda: changes(scene))
        await slave.disconnect()
        await scene.write()
        await scene.wait(0.9)
        assert scene.answered == []
        await eventually_async(lambda: scene.answered == [0])
        assert scene.store.membership.in_sync == ("m",)
        assert changes(scene)[-1] == (InSyncChange.REMOVE, "a")


async def test_a_removal_with_an_unknown_outcome_is_repeated_although_the_slave_is_back() -> None:
    async with leading() as scene:
        slave = await scene.following("a")
        scene.store.outcomes = ["lost"]
        await slave.disconnect()
        await eventually_async(lambda: scene.store.membership.in_sync == ("m",))
        await slave.follow()
        await eventually_async(lambda: scene.leading.current_membership.version > 8)
        await eventually_async(lambda: scene.store.membership.in_sync == ("m", "a"))
        assert scene.leading.current_membership == scene.store.membership


async def test_a_refused_change_is_requested_again_with_a_pause() -> None:
    async with leading() as scene:
        scene.store.outcomes = ["refused"] * 50
        await scene.slave("a").follow()
        await scene.wait(20.0)
        assert 10 <= len(scene.store.requests) <= 16
        assert scene.answered == []


async def test_one_change_is_requested_at_a_time() -> None:
    async with leading() as scene:
        scene.store.outcomes = ["held"]
        first, second = scene.slave("a"), scene.slave("b")
        await first.follow()
        await second.follow()
        await scene.wait(2.0)
        assert len(scene.store.requests) == 1
        scene.store.release.set()
        await eventually_async(lambda: first.in_sync and second.in_sync)


async def test_memberships_that_a_metaserver_sends_are_learned() -> None:
    async with leading(membership("m", "a")) as scene:
        await scene.write()
        assert scene.answered == []
        scene.store.membership = membership("m")
        scene.store.membership = replace(scene.store.membership, version=9)
        scene.leading.learned(replace(scene.store.membership, version=6))
        assert scene.answered == [], "an older membership"
        scene.leading.learned(scene.store.membership)
        assert scene.answered == [0]
        assert scene.leading.master.send_refusal == "read only: 2 copies are required, 1 is in sync"
        scene.leading.learned(replace(scene.store.membership, epoch=3, version=10))
        assert scene.newer_epochs == [3]
        assert scene.leading.current_membership.epoch == 1


async def test_a_new_member_may_follow_once_the_membership_names_it() -> None:
    async with leading(membership(members=("m", "a"))) as scene:
        scene.store.membership = replace(scene.store.membership, members=("m", "a", "b"), version=8)
        scene.leading.learned(scene.store.membership)
        await scene.following("b")


async def test_a_node_that_is_no_member_any_more_loses_its_session() -> None:
    async with leading(membership("m", "a")) as scene:
        slave, other = await scene.following("a"), scene.slave("b")
        await other.follow()
        scene.store.membership = replace(scene.store.membership, members=("m", "a"), version=9)
        scene.leading.learned(scene.store.membership)
        await eventually_async(lambda: not other.is_connected)
        assert [report.node_id for report in scene.leading.slaves()] == ["a"]
        await scene.write()
        await eventually_async(lambda: scene.answered == [0])
        assert slave.is_connected


async def test_a_pause_of_the_process_does_not_count_against_slaves() -> None:
    assert PAUSE_SECONDS == 1.0
    async with leading() as scene:
        slave = await scene.following("a")
        slave.is_stalled = True
        await scene.write()
        loop = running_loop()
        # As for a stopped process: the clock advances, and nothing runs.
        loop.now += 30.0
        await scene.wait(1.0)
        assert slave.in_sync
        assert scene.leading.master.stalled_seconds < 2
        slave.resume()
        await eventually_async(lambda: scene.answered == [0])
        assert changes(scene) == [(InSyncChange.ADD, "a")]


async def test_after_its_end_nothing_is_confirmed_any_more() -> None:
    async with leading() as scene:
        slave = await scene.following("a")
        slave.is_stalled = True
        await scene.write()
        await scene.leading.close()
        assert scene.committer.on_stored is not None
        await eventually_async(lambda: not slave.is_connected)
        await scene.write()
        scene.leading.learned(replace(membership("m"), version=20))
        assert scene.answered == []
        assert scene.leading.slaves() == []
        await scene.leading.close()


async def test_it_starts_only_while_nothing_is_being_written() -> None:
    async with leading() as scene:
        scene.log.gather.append(1, b"being written")
        scene.committer.kick()
        await asyncio.sleep(0)
        assert scene.committer.is_writing
        with pytest.raises(ValueError, match="replication can't start: a commit behind log offset 0 is being written"):
            scene.new_leading().start()


async def test_numbers_of_sessions_differ_between_processes() -> None:
    async with leading() as scene:
        first = (await scene.slave("a").follow()).session
        second = (await scene.slave("b").follow()).session
        assert second == first + 1
        another = scene.new_leading(rng=running_loop().rng("another process"))
        assert abs(another._sessions.new_number() - first) > 1_000
