"""Delay nodes of one group that follow and are promoted by a membership that the test sets."""

import asyncio
from typing import Any

import pytest

from delay_node.delay_node import DelayNode
from delay_node.records import RecordKind
from qmq.errors import ConnectionLost
from qmq.net.caller import Caller
from qmq.protocol.codes import BrokerRequestType, ReplicaRole, Role
from qmq.protocol.delayed import DelayedTarget, ListDelayedRequest, Operation, Outcome
from tests.sim.replication.pair import DELAY_NODES, Members, client_of, in_sync, members
from tests.sim.world.loop import running_loop
from tests.support.drivers.delay_states import state_of
from tests.support.drivers.in_process import delayed, now_ms
from tests.support.waiting import eventually_async

HOUR = 3_600_000


def delay_node(group: Members, name: str) -> DelayNode:
    found = group.node(name)
    assert isinstance(found, DelayNode)
    return found


def states(group: Members) -> list[dict[str, Any]]:
    """What follows from the log, of each node that runs."""
    return [state_of(delay_node(group, name).store) for name, host in group.hosts.items() if host.server is not None]


async def test_what_is_scheduled_changed_and_delivered_is_on_both_members_and_survives_the_master() -> None:
    async with members(running_loop(), kind=DELAY_NODES) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        master, slave = delay_node(group, "g1-a"), delay_node(group, "g1-b")
        with pytest.raises(ConnectionLost, match="refused"):
            await Caller(*slave.server.address).connect()
        assert slave.registration.request(BrokerRequestType.HEARTBEAT).role is Role.DELAY_SLAVE
        due = now_ms() + 3 * HOUR
        async with client_of(master) as client:
            assert await client.send(*(delayed(number, due + number * HOUR) for number in range(6))) == {}
            (cancelled,) = await client.change(Operation.CANCEL, DelayedTarget("m1", "orders", due + HOUR))
            moved = DelayedTarget("m2", "orders", due + 2 * HOUR)
            (rescheduled,) = await client.change(Operation.RESCHEDULE, moved, due_ms=due + 9 * HOUR)
            assert cancelled.outcome is rescheduled.outcome is Outcome.DONE
        await group.all_equal()
        first, second = states(group)
        assert first == second
        assert master.store.pending == 5
        assert not slave.store.wheel.count
        assert all(hour.states is None for hour in slave.store.hours.values()), "a slave opens no hour"
        assert slave.replication.member.role is ReplicaRole.IN_SYNC
        group.hosts["g1-a"].kill()
        await group.promote("g1-b")
        assert delay_node(group, "g1-b") is slave, "it was promoted without a restart"
        async with client_of(slave) as client:
            found = {
                item.message.message_id: (item.state, item.due_ms)
                for item in (await client.listed(ListDelayedRequest("orders", 0, 1 << 47))).items
            }
            assert found == {"m0": ("pending", due), **{
                f"m{n}": ("pending", due + n * HOUR) for n in (3, 4, 5)
            }, "m2": ("pending", due + 9 * HOUR)}  # fmt: skip
        await group.start("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        await group.all_equal()
        first, second = states(group)
        assert first == second


async def test_held_messages_are_counted_by_a_slave_as_by_its_master() -> None:
    """T2: held, then cancelled: a slave that does not know that it was held skips the hour when it is promoted."""
    async with members(running_loop(), kind=DELAY_NODES) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        master, due = delay_node(group, "g1-a"), now_ms() + 3 * HOUR
        async with client_of(master) as client:
            assert await client.send(*(delayed(number, due) for number in range(3))) == {}
            number = due // HOUR
            async with master.store.open_hours.use(number):
                refs = [number << 32 | n for n in range(3)]
                master.store.act(RecordKind.REFUSED, refs[:2], now_ms())
                master.store.act(RecordKind.CANCELLED, refs[:1], now_ms())
                await master.committer.synced(master.log.gather.records_end - 1)
        await group.all_equal()
        await eventually_async(lambda: states(group)[0] == states(group)[1])
        assert [delay_node(group, name).store.pending for name in group.hosts] == [1, 1]


async def test_an_hour_ends_on_all_members_and_begins_again_at_number_0() -> None:
    """T7: its end is a record, never the clock of one member."""
    async with members(running_loop(), kind=DELAY_NODES) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        master, due = delay_node(group, "g1-a"), now_ms() + 3 * HOUR
        number = due // HOUR
        async with client_of(master) as client:
            assert await client.send(*(delayed(n, due) for n in range(3))) == {}
            async with master.store.open_hours.use(number):
                master.store.act(RecordKind.CANCELLED, [number << 32 | n for n in range(3)], now_ms())
                await master.committer.synced(master.log.gather.records_end - 1)
            master.store.end_hours([master.store.hours[number]], now_ms())
            assert await client.send(delayed(7, due)) == {}
        await group.all_equal()
        await eventually_async(lambda: states(group)[0] == states(group)[1])
        assert {name: list(delay_node(group, name).store.hours) for name in group.hosts} == {
            name: [number] for name in group.hosts
        }
        group.hosts["g1-a"].kill()
        await group.promote("g1-b")
        store = delay_node(group, "g1-b").store
        assert (store.hours[number].schedule.count, store.pending) == (1, 1)


async def test_a_lookup_shows_a_cancel_once_all_members_have_it() -> None:
    """T8: in memory it is decided at once, and a failover would undo what was shown."""
    async with members(running_loop(), kind=DELAY_NODES) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        due = now_ms() + 3 * HOUR
        async with client_of(delay_node(group, "g1-a")) as client:
            assert await client.send(delayed(1, due)) == {}
            group.cluster.network.cut("g1-a", "g1-b")
            target = DelayedTarget("m1", "orders", due)
            cancel = asyncio.create_task(client.change(Operation.CANCEL, target))
            await asyncio.sleep(0.1)
            found = asyncio.create_task(client.find("m1"))
            listed = asyncio.create_task(client.listed(ListDelayedRequest("orders", 0, 1 << 47)))
            await asyncio.sleep(1.0)
            assert not any(task.done() for task in (cancel, found, listed))
            group.cluster.network.heal()
            assert (await cancel)[0].outcome is Outcome.DONE
            assert [item.state for item in (await found).items] == ["cancelled"]
            assert not (await listed).items
