"""Nodes that return with a data folder of a broker group that was removed with the loss of its messages."""

import asyncio

from metaserver.choices import OperatorState
from metaserver.server import Metaserver
from tests.sim.replication.groups import Group, begun, cluster_of, promoted_by_operator, received
from tests.sim.world.cluster import Cluster
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import connected, message
from tests.support.waiting import eventually_async


async def removed(group: Group) -> None:
    """All nodes are killed, and an operator removes the group."""
    folders = frozenset(group.broker(node).folder.incarnation for node in group.hosts)
    for host in group.hosts.values():
        host.kill()
    meta = group.cluster.meta.server
    assert isinstance(meta, Metaserver)
    await asyncio.sleep(60.0)
    group.cluster.database.remove_lost_group("g1", folders)
    await eventually_async(lambda: "g1" not in meta.directory.groups, 60)


def state_of(group: Group) -> OperatorState | None:
    """What an operator decided about the group; None: there is none."""
    stored = group.cluster.database.stored.groups.get("g1")
    return stored.operator_state if stored is not None else None


async def test_an_only_member_that_returns_waits_for_approval() -> None:
    async with Cluster(running_loop(), brokers=1, delays=0) as cluster:
        group = Group(cluster)
        sent = await begun(group)
        await removed(group)
        # Also by a metaserver that starts again, with the database or the route file only.
        await asyncio.sleep(6.0)
        for is_away in (False, True):
            cluster.meta.kill()
            cluster.database.is_away = is_away
            cluster.meta.start()
            await cluster.meta.has_started.wait()
            assert isinstance(cluster.meta.server, Metaserver)
            assert len(cluster.meta.server.directory.removed_folders) == 1
        cluster.database.is_away = False
        group.hosts["g1-a"].start()
        await eventually_async(lambda: state_of(group) is OperatorState.UNAPPROVED, 60)
        await asyncio.sleep(5.0)
        refusal = group.broker("g1-a").registration.refuse_sends()
        assert refusal == (
            "read only: the metaserver rejected this node: broker group g1 was removed with the loss of its messages, and this node"
            " has a data folder of it: empty the folder, or approve the group to serve these messages again"
        )
        async with connected(group.broker("g1-a")) as client:
            assert await client.send(message(99)) != {}
        cluster.database.approve("g1")
        await eventually_async(lambda: not group.broker("g1-a").registration.refuse_sends(), 60)
        assert await received(group) == sent


async def test_a_node_that_returns_with_an_empty_folder_is_accepted() -> None:
    async with Cluster(running_loop(), brokers=1, delays=0) as cluster:
        group = Group(cluster)
        await begun(group)
        await removed(group)
        group.empty_disk("g1-a")
        group.hosts["g1-a"].start()
        await eventually_async(lambda: state_of(group) is OperatorState.NORMAL, 60)
        await group.serves("g1-a")
        await eventually_async(lambda: not group.broker("g1-a").registration.refuse_sends(), 60)


async def test_the_folder_of_a_removed_group_never_joins_the_group_that_has_its_name_now() -> None:
    async with cluster_of(2) as group:
        await begun(group)
        await removed(group)
        group.empty_disk("g1-a")
        group.hosts["g1-a"].start()
        await eventually_async(lambda: state_of(group) is OperatorState.NORMAL, 60)
        await group.serves("g1-a")
        group.hosts["g1-b"].start()
        await eventually_async(
            lambda: (
                group.runs("g1-b") and "start the node with an empty data folder" in group.broker("g1-b").readiness()
            ),
            60,
        )
        await asyncio.sleep(30.0)
        assert group.membership.members == ("g1-a",)
        # Not even in place of an only member that is silent.
        group.hosts["g1-a"].kill()
        await asyncio.sleep(60.0)
        assert group.membership.master == "g1-a"


async def test_a_member_of_several_serves_after_its_approval_and_a_promotion() -> None:
    async with cluster_of(2) as group:
        sent = await begun(group)
        await removed(group)
        group.hosts["g1-b"].start()
        await eventually_async(lambda: state_of(group) is OperatorState.UNAPPROVED, 60)
        group.cluster.database.approve("g1")
        await promoted_by_operator(group, "g1-b")
        await group.serves("g1-b")
        assert await received(group) == sent
