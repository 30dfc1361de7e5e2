"""Members that are removed and replaced in whole systems with our client: no request fails, and none waits for long."""

from dataclasses import replace

import pytest

from broker_node.broker import Broker
from qmq.protocol.codes import ReplicaRole
from qmq_node.replication.rules.members import RemoveMember, ReplaceMember
from tests.sim.replication.client_traffic import system
from tests.sim.replication.groups import Group, begun, cluster_of, received
from tests.sim.world.cluster import SMALL, Cluster, Host
from tests.support.waiting import eventually_async

HELD_SECONDS = 1.0


def apply(group: Group, change: RemoveMember | ReplaceMember) -> None:
    """Change the members of a group, as an operator does."""
    stored = group.cluster.database.stored.groups
    stored[group.name] = replace(stored[group.name], membership=change.applied_to(group.membership))
    group.cluster.database.changed(group=group.name)


def remove(group: Group, node: str) -> None:
    """Remove a member."""
    epoch, version = group.membership.place
    apply(group, RemoveMember(epoch, version, node, f"00000000-0000-4000-8000-{epoch + 1:012d}"))


def have_replaced(group: Group, old: str, new: str) -> None:
    """Have a member replaced."""
    epoch, version = group.membership.place
    apply(group, ReplaceMember(epoch, version, old, new))


async def start_node(cluster: Cluster, letter: str) -> Host:
    """Start another node of the group g1."""
    host = cluster.broker("g1", letter, SMALL)
    cluster.other_members[f"g1-{letter}"] = host
    host.start()
    await host.has_started.wait()
    return host


def spare_reason(host: Host) -> str:
    """Why a node is a spare; "" if it is none."""
    assert isinstance(host.server, Broker)
    member = host.server.replication.member
    return str(member.reason) if member.role is ReplicaRole.SPARE else ""


@pytest.mark.parametrize(("copies", "old"), [(1, "g1-a"), (2, "g1-a"), (2, "g1-b"), (3, "g1-a"), (3, "g1-c")], ids=str)
async def test_a_member_is_replaced_while_clients_send(copies: int, old: str) -> None:
    async with system(groups=1, copies=copies) as (cluster, traffic):
        group = Group(cluster, "g1")
        have_replaced(group, old, "g1-d")
        await start_node(cluster, "d")
        left = {*group.hosts, "g1-d"} - {old}
        group = Group(cluster, "g1")
        await eventually_async(lambda: set(group.membership.members) == set(group.membership.in_sync) == left, 120)
        await group.serves(*left)
        assert (group.membership.replaced, group.membership.replacement) == ("", "")
        count = len(traffic.sent)
        await eventually_async(lambda: len(traffic.sent) > count + 100, 60)
        await eventually_async(lambda: "empty its data folder" in spare_reason(group.hosts[old]), 10)
        group.hosts[old].kill()
    assert traffic.longest < HELD_SECONDS


async def test_three_members_become_one_while_clients_send() -> None:
    async with system(groups=1, copies=3) as (cluster, traffic):
        group = Group(cluster, "g1")
        group.set(copies=1, in_sync_min=1, in_sync_version=group.membership.version + 1)
        remove(group, "g1-b")
        remove(group, "g1-c")
        await eventually_async(lambda: group.master.replication.member.is_alone, 10)
        count = len(traffic.sent)
        await eventually_async(lambda: len(traffic.sent) > count + 100, 60)
        for node in ("g1-b", "g1-c"):
            await eventually_async(lambda node=node: spare_reason(group.hosts[node]) != "", 10)
            group.hosts[node].kill()
    assert traffic.longest < HELD_SECONDS


async def test_a_removed_member_is_a_spare_until_its_folder_is_emptied() -> None:
    async with cluster_of() as group:
        sent, host = await begun(group), group.hosts["g1-b"]
        remove(group, "g1-b")
        await eventually_async(lambda: "empty its data folder" in spare_reason(host), 10)
        host.kill()
        host.start()
        await host.has_started.wait()
        await eventually_async(lambda: "empty its data folder" in spare_reason(host), 10)
        assert group.membership.members == ("g1-a",)
        # Not even if the only member is silent.
        group.hosts["g1-a"].kill()
        await eventually_async(lambda: group.cluster.loop.now > 60, 120)
        assert group.membership.members == ("g1-a",)
        group.hosts["g1-a"].start()
        await group.serves("g1-a")
        host.kill()
        group.empty_disk("g1-b")
        host.start()
        await group.in_sync("g1-a", "g1-b")
        assert await received(group) == sent
        await group.all_equal()


async def test_no_other_node_takes_the_place_of_a_replacement() -> None:
    async with cluster_of() as group:
        have_replaced(group, "g1-b", "g1-d")
        other = await start_node(group.cluster, "c")
        await eventually_async(lambda: "node g1-d is to replace g1-b first" in spare_reason(other), 10)
        remove(group, "g1-b")
        await eventually_async(lambda: group.master.replication.member.is_alone, 10)
        assert group.membership.members == ("g1-a",)
        await start_node(group.cluster, "d")
        await eventually_async(lambda: set(group.membership.in_sync) == {"g1-a", "g1-d"}, 60)
        await eventually_async(lambda: "which has all of its 2 copies" in spare_reason(other), 10)
        for name in ("g1-c", "g1-d"):
            group.cluster.other_members[name].kill()


async def test_one_of_three_members_stays_until_its_replacement_runs() -> None:
    async with cluster_of(copies=3) as group:
        have_replaced(group, "g1-b", "g1-d")
        await eventually_async(lambda: group.cluster.loop.now > 30, 60)
        assert group.membership.members == ("g1-a", "g1-b", "g1-c")
        host = await start_node(group.cluster, "d")
        await eventually_async(lambda: set(group.membership.in_sync) == {"g1-a", "g1-c", "g1-d"}, 60)
        host.kill()
