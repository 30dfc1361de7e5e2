"""What a metaserver knows of a slave directly after it has joined."""

import asyncio

from metaserver.server import Metaserver
from qmq.log.record import FIRST_EPOCH
from qmq.protocol.codes import ReplicaRole
from tests.sim.replication.test_cluster import Group, cluster_of
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
        switching = asyncio.create_task(group.broker("g1-a").switch_over("g1-b"))
        await eventually_async(lambda: group.row.master == "g1-b")
        process = group.hosts["g1-b"].process
        assert process is not None
        process.pause()
        await asyncio.sleep(0.7)
        process.resume()
        assert (await switching)["to"] == "g1-b"
        await group.serves("g1-b")
        assert (group.row.master, group.row.epoch) == ("g1-b", FIRST_EPOCH + 1)
        await group.in_sync("g1-a", "g1-b")
        await group.all_equal()
