"""Broker nodes of one group that follow and are promoted by a membership that the test sets."""

import asyncio

import pytest

from broker_node.storage.consume_log import stored_at_ms
from broker_node.storage.store import CLOCK_DIFFERENCE_MS_MAX
from qmq.errors import ConnectionLost
from qmq.net.caller import Caller
from qmq.protocol.codes import BrokerRequestType, ReplicaRole
from qmq_node.replication.rules.membership import Membership
from qmq_node.replication.slave.follower import LEAVE_SECONDS
from tests.sim.replication.pair import client_of, in_sync, members, send, stored
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import message
from tests.support.waiting import eventually_async


async def test_a_member_waits_for_the_membership_and_refuses_clients() -> None:
    async with members(running_loop()) as group:
        broker = group.broker("g1-a")
        assert broker.readiness() == "waiting: no metaserver has named its master yet"
        with pytest.raises(ConnectionLost, match="refused"):
            await Caller(*broker.server.address).connect()


async def test_what_is_acknowledged_is_on_both_members_and_survives_the_master() -> None:
    async with members(running_loop()) as group:
        await group.promote("g1-a")
        async with client_of(group.broker("g1-a")) as client:
            await client.begin()
            await in_sync(group, "g1-a", "g1-b")
            sent = await send(client, range(20))
            assert (await client.pull(limit=5))[1] == sent[:5]
            assert await client.ack(0, 2) == 0
        await group.all_equal()
        first, second = group.states()
        assert first == second
        request = group.broker("g1-a").registration.request(BrokerRequestType.HEARTBEAT)
        assert request.led_membership is not None
        assert (Membership.of(request.led_membership), request.counted) == (group.membership.value, ("g1-a", "g1-b"))
        slave = group.broker("g1-b")
        assert slave.replication.member is not None
        await eventually_async(
            lambda: slave.replication.member is not None and slave.replication.member.role is ReplicaRole.IN_SYNC
        )
        group.hosts["g1-a"].kill()
        await group.promote("g1-b")
        assert group.broker("g1-b") is slave, "it was promoted without a restart"
        async with client_of(slave) as client:
            # Not acknowledged by the same consumer, then the others.
            assert await client.pull(limit=2, last=-1) == (3, sent[3:5])
            assert (await client.pull(limit=50, last=4))[1] == sent[5:]
            assert await stored(client) == sent


async def test_a_slave_that_follows_gets_the_index_entries_from_its_master(monkeypatch: pytest.MonkeyPatch) -> None:
    async with members(running_loop()) as group:
        await group.promote("g1-a")
        async with client_of(group.broker("g1-a")) as client:
            await client.begin()
            await in_sync(group, "g1-a", "g1-b")
            await group.all_equal()
            monkeypatch.delattr("broker_node.recovery.replay.encode_run")
            for begin in range(0, 60, 20):
                await send(client, range(begin, begin + 20))
            await group.all_equal()
            monkeypatch.undo()
        first, second = group.states()
        assert first == second
        assert group.broker("g1-b").store.counters.wrong_index_entries == 0


async def test_the_old_master_follows_and_what_it_alone_had_is_truncated() -> None:
    async with members(running_loop()) as group:
        await group.promote("g1-a")
        old = group.broker("g1-a")
        async with client_of(old) as client:
            await in_sync(group, "g1-a", "g1-b")
            sent = await send(client, range(5))
            # The slave is gone, and the membership without it can't be stored: nothing is acknowledged.
            group.hosts["g1-b"].kill()
            lost = asyncio.create_task(client.send(message(99)))
            await eventually_async(lambda: old.log.synced_end > old.log.high_watermark)
            await asyncio.sleep(0.1)
            assert not lost.done()
            group.hosts["g1-a"].kill()
            with pytest.raises(ConnectionLost):
                await lost
        await group.start("g1-b")
        await group.promote("g1-b")
        async with client_of(group.broker("g1-b")) as client:
            await group.start("g1-a")
            await in_sync(group, "g1-a", "g1-b")
            sent += await send(client, range(10, 15))
            await group.all_equal()
            assert await stored(client) == sent
        assert group.hosts["g1-a"].starts >= 3, "it opened its log again after it was truncated"
        await group.all_equal()
        first, second = group.states()
        assert first == second


async def test_a_group_below_its_minimum_keeps_what_was_acknowledged() -> None:
    async with members(running_loop(), in_sync_min=1) as group:
        await group.promote("g1-a")
        async with client_of(group.broker("g1-a")) as client:
            await in_sync(group, "g1-a", "g1-b")
            sent = await send(client, range(5))
            group.hosts["g1-b"].kill()
            await in_sync(group, "g1-a")
            sent += await send(client, range(5, 10))
            await group.start("g1-b")
            await in_sync(group, "g1-a", "g1-b")
        await group.all_equal()
        group.hosts["g1-a"].kill()
        await group.promote("g1-b")
        async with client_of(group.broker("g1-b")) as client:
            assert await stored(client) == sent


async def test_a_master_that_learns_of_another_one_steps_down_and_follows() -> None:
    async with members(running_loop(), 3) as group:
        await group.promote("g1-a")
        async with client_of(group.broker("g1-a")) as client:
            await in_sync(group, "g1-a", "g1-b", "g1-c")
            sent = await send(client, range(5))
            old = group.broker("g1-a")
            await group.promote("g1-c")
            assert (old.replication.member.role, old.readiness()) == (
                ReplicaRole.STEPPING_DOWN,
                "stepping down: this node is not master any more: node g1-c leads epoch 3",
            )
            # The connection ended: the answer to anything sent meanwhile is unknown.
            await eventually_async(lambda: client.caller.is_closed)
        await in_sync(group, "g1-b", "g1-c")
        await in_sync(group, "g1-a", "g1-b", "g1-c")
        async with client_of(group.broker("g1-c")) as client:
            sent += await send(client, range(5, 10))
            await group.all_equal()
            assert await stored(client) == sent
        await group.all_equal()
        states = group.states()
        assert states[0] == states[1] == states[2]


async def test_a_restarted_master_waits_for_a_new_epoch() -> None:
    async with members(running_loop()) as group:
        await group.promote("g1-a")
        async with client_of(group.broker("g1-a")) as client:
            await in_sync(group, "g1-a", "g1-b")
            sent = await send(client, range(5))
        group.hosts["g1-a"].kill()
        await group.start("g1-a")
        broker = group.broker("g1-a")
        await eventually_async(lambda: "it led epoch 2 before it started again" in broker.readiness())
        await group.promote("g1-a")
        assert broker.folder.replica.state.epoch == 3
        async with client_of(broker) as client:
            await in_sync(group, "g1-a", "g1-b")
            assert await stored(client) == sent


async def test_a_slave_writes_checkpoints_and_starts_again_from_them() -> None:
    async with members(running_loop()) as group:
        await group.promote("g1-a")
        slave = group.broker("g1-b")
        async with client_of(group.broker("g1-a")) as client:
            await in_sync(group, "g1-a", "g1-b")
            sent = await send(client, range(50))
            await eventually_async(lambda: slave.checkpoints.saved > 0, 60)
            sent += await send(client, range(50, 60))
            await group.all_equal()
            group.hosts["g1-b"].kill()
            await group.start("g1-b")
            assert 0 < group.broker("g1-b").data.recovery.loaded_offset < group.broker("g1-a").log.synced_end
            await in_sync(group, "g1-a", "g1-b")
            await group.all_equal()
        first, second = group.states()
        assert first == second
        # Stopped gracefully, it makes a last one.
        await group.hosts["g1-b"].stop()
        await group.start("g1-b")
        again = group.broker("g1-b")
        assert again.data.recovery.loaded_offset == again.log.watermark.position.offset > 0
        assert again.data.recovery.replayed_commits == 0
        await in_sync(group, "g1-a", "g1-b")
        await group.all_equal()
        await group.promote("g1-b")
        async with client_of(group.broker("g1-b")) as client:
            assert await stored(client) == sent


async def test_a_slave_that_stops_gracefully_delays_no_send() -> None:
    async with members(running_loop(), 3) as group:
        await group.promote("g1-a")
        async with client_of(group.broker("g1-a")) as client:
            await in_sync(group, "g1-a", "g1-b", "g1-c")
            stopping = asyncio.create_task(group.hosts["g1-b"].stop())
            sent: list[str] = []
            slowest = 0.0
            for number in range(200):
                began = running_loop().now
                sent += await send(client, range(number, number + 1))
                slowest = max(slowest, running_loop().now - began)
            await stopping
            assert group.membership.value.in_sync == ("g1-a", "g1-c")
            assert slowest < 0.1
            assert await stored(client) == sent


async def test_a_slave_stops_although_the_membership_without_it_can_not_be_stored() -> None:
    async with members(running_loop(), 3) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b", "g1-c")
        group.membership.is_available = False
        began = running_loop().now
        await group.hosts["g1-b"].stop()
        assert running_loop().now - began == pytest.approx(LEAVE_SECONDS, abs=0.2)
        assert group.membership.value.in_sync == ("g1-a", "g1-b", "g1-c")


@pytest.mark.parametrize(
    ("behind_ms", "continues"),
    [(4_000, True), (CLOCK_DIFFERENCE_MS_MAX, True), (CLOCK_DIFFERENCE_MS_MAX + 2_000, False)],
)
async def test_stored_times_do_not_run_backward_after_a_promotion(behind_ms: int, continues: bool) -> None:
    async with members(running_loop()) as group:
        await group.promote("g1-a")
        async with client_of(group.broker("g1-a")) as client:
            await in_sync(group, "g1-a", "g1-b")
            await client.begin()
            await send(client, range(5))
        await group.all_equal()
        newest = group.broker("g1-a").clock.wall_ms()
        group.hosts["g1-a"].kill()
        group.hosts["g1-b"].clock.offset_ms = -behind_ms
        await group.promote("g1-b")
        slave = group.broker("g1-b")
        await group.start("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        subject = slave.store.subjects["orders"]

        async def stored_times() -> list[int]:
            async with client_of(slave) as client:
                number = subject.next_sequence
                await send(client, range(number, number + 1))
            times = [stored_at_ms(subject.consume_log, sequence) for sequence in range(subject.visible_end)]
            return [at_ms for at_ms in times if at_ms is not None]

        times = await stored_times()
        assert (times == sorted(times)) is continues
        assert times[-1] <= newest
        if continues:
            # Its own clock has caught up.
            await asyncio.sleep(behind_ms / 1000)
            times = await stored_times()
            assert times == sorted(times)
            assert times[-1] > newest
