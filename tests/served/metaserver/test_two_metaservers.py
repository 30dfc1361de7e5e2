"""Two metaservers over one database: each node reports to one of them, and both agree on which broker groups are online."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from metaserver.memory.live_groups import EXPIRY_SECONDS, PEER_EXPIRY_SECONDS
from qmq.protocol.codes import BrokerRequestType, ClientType
from tests.served.metaserver.pairs import HEARTBEAT, OFFLINE, ONLINE, pair
from tests.support.drivers.metaserver_peers import peer
from tests.support.waiting import eventually_async

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.database
async def test_t10_a_group_that_reports_to_one_metaserver_stays_online_at_both(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, peer(both.a) as node:
        await node.register("g1")
        await both.run(3, node)
        assert both.states() == [ONLINE, ONLINE]
        for _ in range(30):
            await both.run(1, node)
            assert both.states() == [ONLINE, ONLINE]


@pytest.mark.database
async def test_a_dead_group_goes_offline_at_both_when_its_own_metaserver_notices(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, peer(both.a) as node:
        await node.register("g1")
        await both.run(20, node)
        assert await both.run_until_offline(both.a, 20) <= EXPIRY_SECONDS + 0.5
        assert await both.run_until_offline(both.b, 20) <= 1.0
        await both.run(5)
        assert both.states() == [OFFLINE, OFFLINE]
        await both.run(3, node)
        assert both.states() == [ONLINE, ONLINE], "it is back"


async def test_a_stopped_node_goes_offline_at_both(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, peer(both.a) as node:
        await node.register("g1")
        await both.run(10, node)
        await node.register("g1", request_type=BrokerRequestType.OFFLINE)
        await both.run(1.5)
        assert both.states() == [OFFLINE, OFFLINE]


async def test_a_node_whose_metaserver_dies_registers_with_the_other_and_stays_online(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, peer(both.b) as again:
        async with peer(both.a) as node:
            await node.register("g1")
            await both.run(20, node)
        await both.close(both.a)
        await both.run(3)
        for _ in range(20):
            await both.run(1, again)
            assert both.states() == [ONLINE]
        assert await both.run_until_offline(both.b, 20) <= PEER_EXPIRY_SECONDS


async def test_a_node_that_moves_to_the_other_metaserver_stays_online_at_both(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, peer(both.a) as first, peer(both.b) as second:
        await first.register("g1")
        await both.run(10, first)
        for _ in range(30):
            await both.run(1, second)
            assert both.states() == [ONLINE, ONLINE]
        assert await both.run_until_offline(both.b, 20) <= EXPIRY_SECONDS + 0.5
        assert await both.run_until_offline(both.a, 20) <= 1.0


async def test_when_a_metaserver_and_its_node_die_together_the_other_takes_the_group_offline(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, peer(both.a) as node:
        await node.register("g1")
        await both.run(20, node)
        await both.close(both.a)
        seconds = await both.run_until_offline(both.b, 30)
        assert EXPIRY_SECONDS < seconds <= PEER_EXPIRY_SECONDS + 1.5


async def test_address_and_state_of_a_node_reach_the_clients_of_the_other_metaserver(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, peer(both.a) as node, peer(both.b) as client:
        await node.register("g1")
        await both.run(5, node)
        client.ask("orders", ClientType.CONSUMER, "g")
        await eventually_async(lambda: len(client.pushed) == 1)
        await node.register("g1", request_type=BrokerRequestType.OFFLINE)
        await both.run(5, node, port=2)
        await eventually_async(lambda: len(client.pushed) == 2)
        await both.run(5, node, port=2, state=2)
        await eventually_async(lambda: len(client.pushed) == 3)
        routes = [answer.broker_groups[0] for answer in client.answers()]
        assert [(route.master, route.state) for route in routes] == [
            ("10.0.0.1:1", 1), ("10.0.0.1:2", 1), ("10.0.0.1:2", 2),
        ]  # fmt: skip


async def test_with_a_peer_and_the_database_away_no_group_is_taken_offline(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, peer(both.a) as node:
        await node.register("g1")
        await both.run(20, node)
        both.set_database_away(True)
        for _ in range(30):
            await both.run(1, node)
            assert both.states() == [ONLINE, ONLINE], "the other metaserver can't know that it is silent"
        await both.run(30)
        assert both.states() == [ONLINE, ONLINE], "it could have moved to the other metaserver"
        both.set_database_away(False)
        assert await both.run_until_offline(both.b, 30) <= PEER_EXPIRY_SECONDS + 2
        await both.run(2)
        assert both.states() == [OFFLINE, OFFLINE]


async def test_a_metaserver_alone_takes_groups_offline_while_the_database_is_away(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        await both.close(both.b)
        async with peer(both.a) as node:
            await node.register("g1")
            await both.run(PEER_EXPIRY_SECONDS + 5, node)
            both.set_database_away(True)
            assert await both.run_until_offline(both.a, 20) <= EXPIRY_SECONDS + 0.5


@pytest.mark.database
async def test_a_group_marked_offline_behind_its_metaservers_back_is_stored_as_online_again(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, peer(both.a) as node:
        await node.register("g1")
        await both.run(10, node)
        both.b.serving.write_behind.group(replace(both.a.directory.groups["g1"].group, state=OFFLINE), "a mistake")
        await both.run(3, node)
        stored = await asyncio.to_thread(both.repositories[0].load)
        assert [group.state for group in stored.broker_groups] == [ONLINE]
        assert both.states() == [ONLINE, ONLINE]


async def test_what_one_could_not_store_in_time_does_not_replace_what_the_other_stored_since(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, peer(both.a) as first, peer(both.b) as second:
        await first.register("g1")
        await both.run(15, first)
        both.repositories[0].is_away = True
        await first.register("g1", request_type=BrokerRequestType.OFFLINE)
        assert both.states()[0] is OFFLINE
        await both.run_until_offline(both.b, 20)
        await both.run(10, second, port=2)
        both.repositories[0].is_away = False
        for _ in range(30):
            await both.run(1, second, port=2)
            stored = await asyncio.to_thread(both.repositories[1].load)
            assert [(group.state, group.membership.master) for group in stored.broker_groups] == [(ONLINE, "g1-a")]
            assert [node.address for node in stored.nodes] == ["10.0.0.1:2"]
            assert both.b.directory.groups["g1"].state is ONLINE
        assert both.states() == [ONLINE, ONLINE]
        live = both.a.directory.groups["g1"]
        assert live.node is not None
        assert live.node.address == "10.0.0.1:2"


async def test_one_that_starts_without_the_database_takes_nothing_offline_that_the_other_hears(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, peer(both.b) as node:
        await node.register("g1")
        await both.run(15, node)
        await both.close(both.a)
        both.repositories[0].is_away = True
        await both.start_a_again()
        assert both.states() == [ONLINE, ONLINE], "from the route file"
        for _ in range(30):
            await both.run(1, node)
            assert both.states() == [ONLINE, ONLINE]
        both.repositories[0].is_away = False
        for _ in range(30):
            await both.run(1, node)
            assert both.states() == [ONLINE, ONLINE]


async def test_both_hear_a_node_and_store_each_change_once(tmp_path: Path) -> None:
    from metaserver.models import AuditEntry

    async with pair(tmp_path) as both, peer(both.a) as first, peer(both.b) as second:
        for state in (1, 2, 1):
            for node in (first, second):
                await node.register("g1", request_type=HEARTBEAT, state=state)
                await both.run(1)
            for _ in range(5):
                await both.run(1, first, state=state)
                await second.register("g1", request_type=HEARTBEAT, state=state)
        count = await asyncio.to_thread(lambda: AuditEntry.objects.filter(target="g1").count())
        assert count == 3
        states = await asyncio.to_thread(lambda: [entry.after["state"] for entry in AuditEntry.objects.order_by("id")])
        assert states == ["read_write", "read_only", "read_write"]
