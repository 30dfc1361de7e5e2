"""Slaves that have just joined, and slaves that stop: what metaservers know of them, and what memberships they still act on."""

import asyncio

from metaserver.server import Metaserver
from qmq.protocol.codes import ReplicaRole
from qmq_node.log.record import FIRST_EPOCH
from tests.sim.replication.groups import Group, begun, cluster_of, received
from tests.sim.replication.pair import client_of, send
from tests.sim.slaves.member_logs import durable_state
from tests.sim.world.cluster import Cluster
from tests.sim.world.loop import running_loop
from tests.support.waiting import eventually_async

REPORT_SECONDS_MAX = 0.2
"""Much less than the time between two heartbeats."""


def reported(group: Group, node: str) -> ReplicaRole:
    """The role that a node has reported to the metaserver."""
    server = group.cluster.meta.server
    assert isinstance(server, Metaserver)
    return server.directory.groups[group.name].reports[node].request.replica_role


async def test_a_node_reports_another_role_at_once() -> None:
    async with cluster_of() as group:
        group.hosts["g1-b"].kill()
        await group.in_sync("g1-a")
        group.hosts["g1-b"].start()
        await group.in_sync("g1-a", "g1-b")
        await eventually_async(lambda: reported(group, "g1-b") is ReplicaRole.IN_SYNC, REPORT_SECONDS_MAX)


async def test_a_switch_over_to_a_slave_that_has_just_joined_is_not_undone() -> None:
    async with cluster_of() as group:
        switching = asyncio.create_task(group.broker("g1-a").replication.switch_over("g1-b"))
        await eventually_async(lambda: group.membership.master == "g1-b")
        process = group.hosts["g1-b"].process
        assert process is not None
        process.pause()
        await asyncio.sleep(0.7)
        process.resume()
        assert (await switching)["to"] == "g1-b"
        await group.serves("g1-b")
        assert (group.membership.master, group.membership.epoch) == ("g1-b", FIRST_EPOCH + 1)
        await group.in_sync("g1-a", "g1-b")
        await group.all_equal()


async def test_a_slave_whose_disk_fails_keeps_its_log() -> None:
    """It stops for a while, since its metaserver does not answer, and receives the membership that it has left the set."""
    async with cluster_of(copies=3) as group:
        host, sent = group.hosts["g1-b"], await begun(group)
        await eventually_async(lambda: group.master.checkpoints.saved > 0)
        group.cluster.network.cut("g1-b", "meta", one_way=True)
        host.weather.failing_syncs += 1
        async with client_of(group.master) as client:
            sent += await send(client, range(20, 21))
            await group.in_sync("g1-a", "g1-c")
        await eventually_async(lambda: bool(host.exits))
        assert durable_state(host).copying is None
        group.cluster.network.heal()
        await group.in_sync(*group.hosts)
        await group.all_equal()
        assert await received(group) == sent


async def test_a_node_that_stops_before_it_has_a_slave_does_not_lead() -> None:
    """Its group grows while a write hangs. It would lead between two commits, and stops before that one is written."""
    cluster = Cluster(running_loop(), brokers=1, delays=0, copies=2)
    group, (first, second) = Group(cluster), list(cluster.members("g1").values())
    for host in (*cluster.metas.values(), first):
        host.start()
    await eventually_async(lambda: group.name in cluster.database.stored.groups)
    group.set(copies=1)
    await group.serves("g1-a")
    second.start()
    await second.has_started.wait()
    master = group.master
    async with client_of(master) as client:
        await client.begin()
        first.weather.hang_seconds = 3.0
        sending = asyncio.create_task(send(client, range(1)))
        await eventually_async(lambda: master.committer.is_writing)
        group.set(copies=2)
        await eventually_async(lambda: master.committer._between is not None)
        await first.stop()
        sending.cancel()
    assert not master.committer.is_replicated
    for host in cluster.hosts.values():
        host.kill()
