"""Members that repair damage of their logs from other members."""

import asyncio
from contextlib import suppress

import pytest

from qmq.errors import QmqError
from qmq_node.member.repairing import RESIGN_SECONDS
from qmq_node.repair.repairs import RETRY_SECONDS
from tests.sim.replication.damaging import (
    commits,
    filled,
    flip,
    found,
    log_repairs,
    remove_checkpoints,
    repaired,
    segment,
    stop_at_write,
)
from tests.sim.replication.groups import cluster_of, received
from tests.sim.replication.pair import client_of
from tests.support.waiting import eventually_async


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


async def test_a_slave_that_can_not_read_what_it_has_to_apply_repairs_it_and_opens_again() -> None:
    async with cluster_of() as group:
        sent = await filled(group, 60)
        host = group.hosts["g1-b"]
        host.kill()
        remove_checkpoints(host)
        host.disk.break_pages(segment(host), 4096, 4097)
        host.has_damaged_log = True
        host.start()
        await host.has_started.wait()
        await repaired(group, "g1-b")
        await group.in_sync("g1-a", "g1-b")
        assert not host.disk.unreadable_pages
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


@pytest.mark.parametrize("is_unreadable", [False, True])
async def test_a_consumer_that_meets_damage_gets_every_message_when_it_is_repaired(is_unreadable: bool) -> None:
    async with cluster_of() as group:
        sent = await filled(group, 60)
        host = group.hosts["g1-a"]
        if is_unreadable:
            host.disk.break_pages(segment(host), 4096, 4097)
        else:
            for commit in commits(host)[5:50:9]:
                flip(host, commit.offset + 150)
        host.disk.cold.add(segment(host))
        messages: dict[str, None] = {}
        while len(messages) < len(sent):
            await group.serves("g1-a", "g1-b")
            with suppress(ConnectionError, QmqError, AssertionError):
                async with client_of(group.master) as client:
                    await client.begin(group="all")
                    # A new master delivers again what was not acknowledged.
                    last = -1
                    while (pulled := await client.pull(group="all", limit=7, last=last))[1]:
                        messages.update(dict.fromkeys(pulled[1]))
                        last = pulled[0] + len(pulled[1]) - 1
            await asyncio.sleep(0.5)
        assert list(messages) == sent
        await repaired(group, "g1-a")
        assert group.membership.master == "g1-b"


async def test_both_members_repair_damage_at_different_places() -> None:
    async with cluster_of() as group:
        sent = await filled(group)
        for name, place in (("g1-a", 5), ("g1-b", 9)):
            commit = commits(group.hosts[name])[place]
            flip(group.hosts[name], commit.offset + 70)
            found(group, name, commit)
        await repaired(group, "g1-a", "g1-b")
        assert commits(group.hosts["g1-a"]) == commits(group.hosts["g1-b"])
        assert await received(group) == sent


async def test_damage_of_both_members_at_the_same_place_stays_and_is_named() -> None:
    async with cluster_of() as group:
        await filled(group)
        damaged = commits(group.hosts["g1-a"])[5]
        for name in group.hosts:
            flip(group.hosts[name], damaged.offset + 70)
            found(group, name, damaged)
        repairs = [log_repairs(group, name) for name in group.hosts]
        await eventually_async(lambda: all(one.failed_attempts for one in repairs))
        await asyncio.sleep(4 * RETRY_SECONDS)
        for one, other in zip(repairs, ("g1-b", "g1-a"), strict=True):
            (pending,) = one.report()["pending"]
            assert (pending["begin"], pending["end"]) == (damaged.offset, damaged.end)
            assert pending["problem"].startswith(f"from {other}: this node does not have what follows")
            # The pause grows.
            assert 2 <= one.failed_attempts <= 4
        # The slave is no better master.
        assert group.membership.master == "g1-a"
        assert group.membership.epoch == 1


async def test_a_master_resigns_because_of_damage_at_most_once_in_ten_minutes() -> None:
    async with cluster_of() as group:
        await filled(group)
        first = commits(group.hosts["g1-a"])[5:8]

        async def damage(name: str, commit: int) -> None:
            flip(group.hosts[name], first[commit].offset + 70)
            found(group, name, first[commit])
            await repaired(group, name)
            await group.in_sync("g1-a", "g1-b")

        await damage("g1-a", 0)
        await group.serves("g1-b")
        assert group.membership.epoch == 2
        # Another node has its own ten minutes.
        await damage("g1-b", 0)
        await group.serves("g1-a")
        await damage("g1-a", 1)
        assert (group.membership.master, group.membership.epoch) == ("g1-a", 3)
        await asyncio.sleep(RESIGN_SECONDS)
        await damage("g1-a", 2)
        await group.serves("g1-b")


async def test_a_slave_repairs_pages_that_the_disk_can_not_read() -> None:
    async with cluster_of() as group:
        sent = await filled(group, 60)
        host = group.hosts["g1-b"]
        # A page in the middle of the log, and one that holds its end.
        host.disk.break_pages(segment(host), 4096, 4097)
        for commit in set(commits(group.hosts["g1-a"])) - set(commits(host)):
            found(group, "g1-b", commit)
        await repaired(group, "g1-b")
        assert not host.disk.unreadable_pages
        assert commits(host) == commits(group.hosts["g1-a"])
        group.hosts["g1-a"].kill()
        await group.serves("g1-b")
        assert await received(group) == sent


@pytest.mark.parametrize("is_power_cut", [False, True])
async def test_a_repair_that_a_crash_interrupts_is_repeated(is_power_cut: bool) -> None:
    async with cluster_of() as group:
        sent = await filled(group)
        host = group.hosts["g1-b"]
        host.has_damaged_log = True
        damaged = commits(host)[4:10:3]
        # Before and after each write, and each sync.
        for step in range(4):
            for commit in damaged:
                flip(host, commit.offset + 70)
                found(group, "g1-b", commit)
            stop_at_write(group, host, step, is_power_cut=is_power_cut)
            await eventually_async(lambda: not host.is_wanted)
            group.cluster.network.power_on("g1-b")
            host.start()
            await host.has_started.wait()
            await repaired(group, "g1-b")
            await group.in_sync("g1-a", "g1-b")
            assert commits(host) == commits(group.hosts["g1-a"])
        group.hosts["g1-a"].kill()
        await group.serves("g1-b")
        assert await received(group) == sent
