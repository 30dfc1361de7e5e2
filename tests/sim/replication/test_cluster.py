"""Broker groups of several members with metaservers: nodes join, masters fail, metaservers promote."""

import asyncio

import pytest

from metaserver.choices import OperatorState
from metaserver.memory.live_groups import LEASE_SECONDS
from metaserver.server import Metaserver
from qmq import Producer, Timeouts
from qmq.errors import ConnectionLost
from qmq.protocol.codes import BrokerRequestType, ReplicaRole
from qmq.protocol.reasons import Code
from qmq_node.log.record import FIRST_EPOCH
from tests.sim.replication.groups import Group, begun, cluster_of, received
from tests.sim.replication.pair import client_of, send, stored
from tests.sim.world.cluster import Cluster, Host
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import Client, message
from tests.support.waiting import eventually_async


async def test_the_second_node_becomes_a_slave_and_replaces_the_master() -> None:
    async with cluster_of() as group:
        assert (group.membership.master, group.membership.members, group.membership.joining) == (
            "g1-a",
            ("g1-a", "g1-b"),
            (),
        )
        assert group.membership.epoch == FIRST_EPOCH
        sent = await begun(group)
        group.hosts["g1-a"].kill()
        await group.serves("g1-b")
        assert await received(group) == sent
        assert group.membership.epoch == FIRST_EPOCH + 1
        assert group.master.registration.refuse_sends() == "read only: 2 copies are required, 1 is in sync"
        group.hosts["g1-a"].start()
        await group.in_sync("g1-a", "g1-b")
        async with client_of(group.master) as client:
            sent += await send(client, range(20, 30))
        await group.all_equal()
        group.hosts["g1-b"].kill()
        await group.serves("g1-a")
        assert await received(group) == sent


async def test_a_group_that_has_stored_nothing_switches_over() -> None:
    async with cluster_of() as group:
        old = group.master
        (slave,) = group.hosts.keys() - {group.membership.master}
        assert old.log.gather.records_end == 0, "the first master of a group writes no record of its own"
        assert (await old.replication.switch_over(""))["to"] == slave
        await group.serves(slave)
        await begun(group)
        await group.in_sync(*group.hosts)
        await group.all_equal()


async def test_a_master_that_restarts_is_promoted_or_follows() -> None:
    async with cluster_of() as group:
        sent = await begun(group)
        group.hosts["g1-a"].kill()
        group.hosts["g1-a"].start()
        await group.serves("g1-a", "g1-b")
        await group.in_sync("g1-a", "g1-b")
        assert group.membership.epoch == FIRST_EPOCH + 1
        assert await received(group) == sent
        await group.all_equal()


async def test_three_members_survive_two_failures() -> None:
    async with cluster_of(3) as group:
        sent = await begun(group)
        group.hosts["g1-a"].kill()
        await group.serves("g1-b", "g1-c")
        async with client_of(group.master) as client:
            sent += await send(client, range(20, 30))
        group.hosts[group.membership.master].kill()
        last = ({"g1-b", "g1-c"} - {group.membership.master}).pop()
        await group.serves(last)
        assert await received(group) == sent
        for host in group.hosts.values():
            if host.process is None:
                host.start()
        await group.in_sync("g1-a", "g1-b", "g1-c")
        await group.all_equal()


async def test_an_only_member_gets_a_slave_while_clients_send() -> None:
    async with Cluster(running_loop(), brokers=1, delays=0) as cluster:
        group = Group(cluster)
        broker = group.broker("g1-a")
        async with Producer(cluster.meta_url, timeouts=Timeouts(delivery=5.0)) as producer:
            sent: list[str] = []

            async def produce() -> None:
                while True:
                    sent.append((await producer.send("orders", {"number": len(sent)})).message_id)

            producing = asyncio.create_task(produce())
            await eventually_async(lambda: len(sent) > 100)
            group.set(copies=2)
            host = cluster.broker("g1", "b", {"segment_bytes": 256 << 10, "disk_reserve_bytes": 64 << 10})
            cluster.other_members["g1-b"] = group.hosts["g1-b"] = host
            host.start()
            await group.in_sync("g1-a", "g1-b")
            assert group.broker("g1-a") is broker
            assert group.hosts["g1-a"].starts == 1, "it serves on in the same life"
            count = len(sent)
            await eventually_async(lambda: len(sent) > count + 100 or producing.done())
            producing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await producing
        await group.all_equal()
        group.hosts["g1-a"].kill()
        await group.serves("g1-b")
        found = await received(group)
        assert len(set(found)) == len(found)
        assert set(sent) <= set(found)
        assert len(found) - len(sent) <= 1, "the last one may be stored without an answer"


async def test_a_node_with_an_empty_folder_waits_for_a_metaserver() -> None:
    cluster = Cluster(running_loop(), brokers=1, delays=0)
    group = Group(cluster)
    host = group.hosts["g1-a"]
    host.start()
    await host.has_started.wait()
    try:
        broker = group.broker("g1-a")
        assert broker.readiness().startswith("not registered: http://127.0.0.1:8080/meta/address: ")
        with pytest.raises(ConnectionLost):
            async with client_of(broker):
                pass
        # Not even after a restart: the folder was empty when the node saw it for the first time.
        host.kill()
        host.start()
        await host.has_started.wait()
        assert group.broker("g1-a").readiness()
        cluster.meta.start()
        await eventually_async(lambda: not group.broker("g1-a").readiness(), 60)
        sent = await begun(group)
        # From now on it needs none.
        cluster.meta.kill()
        host.kill()
        host.start()
        await host.has_started.wait()
        async with client_of(group.broker("g1-a")) as client:
            assert await stored(client) == sent
    finally:
        for one in cluster.hosts.values():
            one.kill()


async def test_a_master_with_a_new_disk_is_replaced_and_becomes_a_slave() -> None:
    async with cluster_of() as group:
        sent = await begun(group)
        group.hosts["g1-a"].kill()
        group.empty_disk("g1-a")
        group.hosts["g1-a"].start()
        await group.serves("g1-b")
        await group.in_sync("g1-a", "g1-b")
        assert await received(group) == sent
        await group.all_equal()


async def test_members_that_stop_deregister() -> None:
    async with cluster_of() as group:
        await group.hosts["g1-b"].stop()
        await eventually_async(lambda: group.membership.in_sync == ("g1-a",), 60)
        metaserver = group.cluster.meta.server
        assert isinstance(metaserver, Metaserver)
        reports = metaserver.directory.groups["g1"].reports
        assert reports["g1-b"].has_left
        await group.hosts["g1-a"].stop()
        assert reports["g1-a"].has_left


async def test_a_master_that_lost_its_disk_before_it_reported_its_log_is_replaced() -> None:
    async with cluster_of() as group:
        host, network = group.hosts["g1-a"], group.cluster.network
        network.cut("g1", "meta")
        network.cut("g1-b", "meta")
        async with client_of(group.master) as client:
            sent = await send(client, range(3))
        host.kill()
        network.mend("g1", "meta")
        group.empty_disk("g1-a")
        assert group.cluster.database.stored.nodes["g1-a"].log_end == 0, "as far as metaservers know"
        host.start()
        await asyncio.sleep(1.0)
        network.heal()
        await group.serves("g1-b")
        await group.in_sync("g1-a", "g1-b")
        assert await received(group) == sent


async def test_nodes_that_register_first_with_different_metaservers_form_one_group() -> None:
    cluster = Cluster(running_loop(), brokers=1, delays=0, copies=2, metas=2)
    group = Group(cluster)
    for meta in cluster.metas.values():
        meta.start()
        await meta.has_started.wait()
    cluster.network.cut("g1", "meta2")
    cluster.network.cut("g1-b", "meta")
    cluster.database.slowness = 300.0
    try:
        for host in group.hosts.values():
            host.start()
        await asyncio.sleep(0.1)
        assert not cluster.database.stored.groups
        assert all(group.broker(node).readiness() for node in group.hosts), "neither serves before one is stored"
        cluster.network.heal()
        cluster.database.slowness = 1.0
        await eventually_async(lambda: "g1" in cluster.database.stored.groups, 60)
        await group.in_sync("g1-a", "g1-b")
        assert sum(not group.broker(node).readiness() for node in group.hosts) == 1
        assert group.membership.epoch == FIRST_EPOCH
    finally:
        for host in cluster.hosts.values():
            host.kill()


async def test_failover_works_with_one_of_two_metaservers() -> None:
    async with cluster_of(metas=2) as group:
        sent = await begun(group)
        group.cluster.metas["meta"].kill()
        group.hosts["g1-a"].kill()
        await group.serves("g1-b")
        assert await received(group) == sent
        group.hosts["g1-a"].start()
        await group.in_sync("g1-a", "g1-b")


async def test_a_slave_is_removed_through_the_remaining_metaserver() -> None:
    async with cluster_of(3, metas=2) as group:
        group.cluster.metas["meta"].kill()
        group.hosts["g1-c"].kill()
        began = running_loop().now
        async with client_of(group.master) as client:
            await send(client, range(5))
        assert group.membership.in_sync == ("g1-a", "g1-b")
        assert running_loop().now - began < LEASE_SECONDS, "not after the node has followed the other one"


async def test_a_node_that_does_not_sync_each_commit_gets_no_slave() -> None:
    async with Cluster(running_loop(), brokers=1, delays=0, copies=2, broker_settings={"flush": "interval"}) as cluster:
        group = Group(cluster)
        await eventually_async(lambda: group.membership.members == ("g1-a", "g1-b"), 60)
        broker = group.broker("g1-a")
        await eventually_async(lambda: "flush is interval" in broker.replication.member.reason, 60)
        assert broker.registration.request(BrokerRequestType.HEARTBEAT).problems[0].code == Code.NO_SLAVES
        await eventually_async(lambda: "flush is interval" in group.broker("g1-b").readiness(), 60)
        assert broker.replication.member.role is ReplicaRole.MASTER
        assert broker.folder.replica.state.is_only_member
        async with client_of(broker) as client:
            await send(client, range(5))
        assert group.membership.in_sync == ("g1-a",)


async def test_a_node_that_replaced_the_only_member_writes_in_a_new_epoch() -> None:
    async with Cluster(running_loop(), brokers=1, delays=0) as cluster:
        group = Group(cluster)
        await begun(group)
        await asyncio.sleep(2.0)  # the end of its log is reported
        group.hosts["g1-a"].kill()
        host = group.hosts["g1-b"] = cluster.broker("g1", "b", {"disk_reserve_bytes": 64 << 10})
        cluster.other_members["g1-b"] = host
        host.start()
        await group.serves("g1-b")
        broker = group.broker("g1-b")
        assert (broker.folder.replica.state.epoch, broker.folder.replica.state.is_only_member) == (
            FIRST_EPOCH + 1,
            True,
        )
        await eventually_async(lambda: tuple(broker.log.epochs) == ((FIRST_EPOCH + 1, 0),), 60)
        assert "missing" in broker.registration.refuse_sends()
        # The old one accepts nothing any more.
        group.hosts["g1-a"].start()
        await eventually_async(
            lambda: group.runs("g1-a") and bool(group.broker("g1-a").registration.refuse_sends()), 60
        )
        assert group.broker("g1-a").registration.refuse_sends() == "read only: it is not a member; members are g1-b"
        async with client_of(group.broker("g1-a")) as client:
            assert len(await stored(client)) == 20


__all__ = ["Client", "Host"]


async def test_decisions_of_operators_reach_slaves_and_hold_after_a_promotion() -> None:
    async with cluster_of() as group:
        sent = await begun(group)
        group.cluster.database.set_operator_state("g1", OperatorState.READ_ONLY)
        slave = group.broker("g1-b")
        await eventually_async(lambda: bool(slave.policy.read_only and group.master.policy.read_only), 60)
        assert slave.policy.version == group.master.policy.version
        group.hosts["g1-a"].kill()
        await group.serves("g1-b")
        assert "read only" in group.broker("g1-b").registration.refuse_sends()
        async with client_of(group.master) as client:
            assert await client.send(message(99)) != {}
        assert await received(group) == sent
