"""The ID of a broker group's log: all members have it, whoever leads, and a group that begins again has another one."""

from tests.sim.replication.groups import Group, begun, cluster_of
from tests.sim.replication.pair import client_of, send
from tests.sim.world.cluster import Cluster
from tests.sim.world.loop import running_loop
from tests.support.waiting import eventually_async


def log_ids(group: Group) -> set[str]:
    """Those that the members have on disk."""
    return {group.broker(node).folder.replica.state.log_id for node in group.hosts}


async def test_all_members_have_one_log_id_whoever_leads() -> None:
    async with cluster_of(3) as group:
        await begun(group)
        await group.all_equal()
        (first,) = log_ids(group)
        assert first
        await group.master.replication.switch_over("g1-b")
        await group.serves("g1-b")
        await group.in_sync(*group.hosts)
        assert log_ids(group) == {first}
        for killed in ("g1-b", "g1-a", "g1-c"):
            if group.membership.master != killed:
                await group.master.replication.switch_over(killed)
                await group.serves(killed)
            group.hosts[killed].kill()
            await group.serves(*(group.hosts.keys() - {killed}))
            group.hosts[killed].start()
            await group.in_sync(*group.hosts)
            async with client_of(group.master) as client:
                await send(client, range(30, 32))
            await group.all_equal()
            assert log_ids(group) == {first}


async def test_a_member_with_a_new_disk_takes_the_id_of_the_log_that_it_copies() -> None:
    async with cluster_of() as group:
        await begun(group)
        (first,) = log_ids(group)
        group.hosts["g1-a"].kill()
        group.empty_disk("g1-a")
        group.hosts["g1-a"].start()
        await group.serves("g1-b")
        await group.in_sync("g1-a", "g1-b")
        assert log_ids(group) == {first}


async def test_an_only_member_keeps_the_id_and_passes_it_to_its_first_slave() -> None:
    async with Cluster(running_loop(), brokers=1, delays=0) as cluster:
        group = Group(cluster)
        await begun(group)
        (first,) = log_ids(group)
        assert first
        group.hosts["g1-a"].kill()
        group.hosts["g1-a"].start()
        await group.serves("g1-a")
        group.set(copies=2)
        host = group.hosts["g1-b"] = cluster.broker("g1", "b", {"disk_reserve_bytes": 64 << 10})
        cluster.other_members["g1-b"] = host
        host.start()
        await group.in_sync("g1-a", "g1-b")
        assert log_ids(group) == {first}


async def test_a_group_that_begins_again_with_an_empty_log_has_another_id() -> None:
    async with Cluster(running_loop(), brokers=1, delays=0) as cluster:
        group = Group(cluster)
        await begun(group)
        (first,) = log_ids(group)
        await eventually_async(lambda: group.cluster.database.stored.nodes["g1-a"].log_end > 0)
        group.hosts["g1-a"].kill()
        host = group.hosts["g1-b"] = cluster.broker("g1", "b", {"disk_reserve_bytes": 64 << 10})
        cluster.other_members["g1-b"] = host
        host.start()
        await group.serves("g1-b")
        second = group.broker("g1-b").folder.replica.state.log_id
        assert second
        assert second != first
