"""Members that repair damage of their logs from other members."""

from tests.sim.replication.damaging import commits, filled, flip, found, remove_checkpoints, repaired
from tests.sim.replication.groups import cluster_of, received


async def test_a_slave_that_opens_with_damage_repairs_it_and_opens_again() -> None:
    async with cluster_of() as group:
        sent = await filled(group)
        host = group.hosts["g1-b"]
        host.kill()
        remove_checkpoints(host)
        for commit in commits(host)[2:10:3]:
            flip(host, commit.offset + 70)
        host.has_damaged_log = True
        host.start()
        await host.has_started.wait()
        assert len(group.broker("g1-b").log.stored.damaged) == 3
        await repaired(group, "g1-b")
        await group.in_sync("g1-a", "g1-b")
        await group.all_equal()
        assert commits(host) == commits(group.hosts["g1-a"])
        group.hosts["g1-a"].kill()
        await group.serves("g1-b")
        assert await received(group) == sent


async def test_a_slave_repairs_what_it_finds_while_it_follows() -> None:
    async with cluster_of() as group:
        await filled(group)
        host, slave = group.hosts["g1-b"], group.broker("g1-b")
        damaged = commits(host)[2:10:3]
        for commit in damaged:
            flip(host, commit.offset + 70)
            found(group, "g1-b", commit)
        await repaired(group, "g1-b")
        assert group.broker("g1-b") is slave
        assert slave.replication.report()["repairs"]["repaired"] == {"log": len(damaged)}
        assert commits(host) == commits(group.hosts["g1-a"])
        assert set(group.membership.in_sync) == {"g1-a", "g1-b"}


async def test_a_master_with_damage_has_a_healthy_slave_promoted_and_repairs_then() -> None:
    async with cluster_of() as group:
        sent = await filled(group)
        host = group.hosts["g1-a"]
        commit = commits(host)[5]
        flip(host, commit.offset + 70)
        found(group, "g1-a", commit)
        await group.serves("g1-b")
        await repaired(group, "g1-a")
        await group.in_sync("g1-a", "g1-b")
        await group.all_equal()
        assert commits(host) == commits(group.hosts["g1-b"])
        assert await received(group) == sent
