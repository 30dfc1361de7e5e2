"""Slaves that copy state and log, because the master does not have what follows on their log any more."""

import asyncio
from dataclasses import replace

import pytest

from qmq.protocol.codes import ReplicaRole
from qmq_node.replication.rules.roles import CopyPhase
from tests.sim.replication.copying import (
    SETTINGS,
    Traffic,
    ahead,
    all_equal,
    crash,
    in_sync,
    make_copies_small,
    phase_of,
)
from tests.sim.replication.pair import Members, client_of, members
from tests.sim.replication.reports import series
from tests.sim.world.loop import running_loop
from tests.support.waiting import eventually_async


@pytest.fixture(autouse=True)
def small_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    make_copies_small(monkeypatch)


async def check_promoted(group: Members, traffic: Traffic) -> None:
    """Promote the slave once it is in sync, and check that clients receive exactly what they should."""
    await in_sync(group, "g1-a", "g1-b")
    await all_equal(group)
    await group.promote("g1-b")
    async with client_of(group.broker("g1-b")) as client:
        await traffic.check(client)


async def test_an_empty_slave_knows_everything_that_the_master_knows() -> None:
    async with ahead(running_loop()) as (group, traffic):
        master = group.broker("g1-a")
        assert master.log.begin > 0
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        slave = group.broker("g1-b")
        assert slave.data.recovery.rebuilt
        await all_equal(group)
        async with client_of(master) as client:
            await traffic.send(client, 3)
        group.hosts["g1-a"].kill()
        await group.promote("g1-b")
        async with client_of(group.broker("g1-b")) as client:
            await traffic.check(client)


async def test_a_slave_counts_what_it_copies() -> None:
    async with ahead(running_loop(), copy_bytes_per_second=2 << 20) as (group, _):
        group.hosts["g1-b"].start()
        await eventually_async(
            lambda: group.hosts["g1-b"].server is not None and phase_of(group, "g1-b") is CopyPhase.LOG, 60
        )
        # One byte was read before, to see whether the state can be.
        state_bytes = (await series(group.broker("g1-a")))['sent_bytes_total{source="state"}'] - 1
        slave = group.broker("g1-b")
        await eventually_async(lambda: slave.log.written_end > group.broker("g1-a").log.begin)
        found = await series(slave)
        assert found["copied_bytes_total"] == found["received_bytes_total"] + state_bytes > state_bytes > 0
        await in_sync(group, "g1-a", "g1-b")


async def test_a_slave_that_was_away_for_too_long_replaces_its_log() -> None:
    async with ahead(running_loop()) as (group, traffic):
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        group.hosts["g1-b"].kill()
        await in_sync(group, "g1-a")
        async with client_of(group.broker("g1-a")) as client:
            await traffic.fill(client, group, "g1-a", away="g1-b")
            await group.start("g1-b")
            await in_sync(group, "g1-a", "g1-b")
            await all_equal(group)
        group.hosts["g1-a"].kill()
        await group.promote("g1-b")
        async with client_of(group.broker("g1-b")) as client:
            await traffic.check(client)


async def test_retention_leaves_what_a_copying_slave_needs() -> None:
    async with ahead(running_loop(), copy_bytes_per_second=2 << 20) as (group, traffic):
        master, host = group.broker("g1-a"), group.hosts["g1-b"]
        host.start()
        async with client_of(master) as client:
            while group.membership.value.in_sync != ("g1-a", "g1-b"):
                await traffic.send(client, 5)
                if host.server is not None and phase_of(group, "g1-b") is CopyPhase.LOG:
                    # Before its first byte, it follows from wherever the master's log begins then.
                    assert master.log.begin <= (group.broker("g1-b").log.written_end or master.log.begin)
            # At first, when its log is discarded, and when the copy is opened.
            assert host.starts == 3
            end = group.broker("g1-b").log.written_end
            while master.log.begin < end:
                await traffic.send(client, 5)
            await all_equal(group)


@pytest.mark.parametrize("is_power_cut", [False, True], ids=["kill", "power cut"])
# A broker has no files to copy.
@pytest.mark.parametrize("phase", [phase for phase in CopyPhase if phase is not CopyPhase.FILES])
async def test_a_slave_that_crashes_while_it_copies_continues(phase: CopyPhase, is_power_cut: bool) -> None:
    async with ahead(running_loop(), copy_bytes_per_second=2 << 20) as (group, traffic):
        host = group.hosts["g1-b"]
        crashes = 0
        host.start()
        while crashes < 3 and group.membership.value.in_sync != ("g1-a", "g1-b"):
            await asyncio.sleep(0.001)
            if host.server is not None and phase_of(group, "g1-b") is phase:
                await asyncio.sleep(0.02 * crashes)
                crash(group, "g1-b", is_power_cut=is_power_cut)
                crashes += 1
                host.start()
        assert crashes
        await check_promoted(group, traffic)


@pytest.mark.parametrize("phase", [CopyPhase.STATE, CopyPhase.LOG])
async def test_the_copy_continues_when_the_master_returns(phase: CopyPhase) -> None:
    async with ahead(running_loop(), copy_bytes_per_second=2 << 20) as (group, traffic):
        group.hosts["g1-b"].start()
        await eventually_async(lambda: group.hosts["g1-b"].server is not None and phase_of(group, "g1-b") is phase, 60)
        group.hosts["g1-a"].cut_power()
        running_loop().network.power_on("g1-a")
        await group.start("g1-a")
        assert group.membership.value.in_sync == ("g1-a",)
        await group.promote("g1-a")
        # It opens its store again if the master has removed what it would copy next.
        await eventually_async(lambda: group.hosts["g1-b"].server is not None)
        assert phase_of(group, "g1-b") is not None
        await check_promoted(group, traffic)


@pytest.mark.parametrize("phase", [CopyPhase.STATE, CopyPhase.LOG])
async def test_the_copy_continues_from_a_new_master(phase: CopyPhase) -> None:
    async with ahead(running_loop(), 3, copy_bytes_per_second=2 << 20) as (group, traffic):
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        group.hosts["g1-c"].start()
        await eventually_async(lambda: group.hosts["g1-c"].server is not None and phase_of(group, "g1-c") is phase, 60)
        group.hosts["g1-a"].kill()
        await group.promote("g1-b")
        await in_sync(group, "g1-b", "g1-c")
        await all_equal(group)
        await group.promote("g1-c")
        async with client_of(group.broker("g1-c")) as client:
            await traffic.check(client)


async def test_a_copy_has_nothing_of_what_an_operator_accepted_to_lose() -> None:
    """The state was read from a master that had it, and the log is copied from one that has not."""
    async with ahead(running_loop(), 3, copy_bytes_per_second=2 << 20) as (group, traffic):
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        end = group.broker("g1-b").log.written_end
        group.hosts["g1-b"].kill()
        await in_sync(group, "g1-a")
        async with client_of(group.broker("g1-a")) as client:
            await traffic.send(client, 5, "lost")
            await client.begin("lost")
            assert (await client.pull("lost", limit=5))[1] == traffic.sent["lost"]
            lost_end = group.broker("g1-a").log.gather.records_end
            checkpoints = group.broker("g1-a").checkpoints
            await eventually_async(lambda: checkpoints.last_position.offset >= lost_end)
        group.hosts["g1-c"].start()
        await eventually_async(
            lambda: group.hosts["g1-c"].server is not None and phase_of(group, "g1-c") is CopyPhase.LOG, 60
        )
        copying = group.broker("g1-c").folder.replica.state.copying
        assert copying is not None
        assert copying.end >= lost_end > end
        group.hosts["g1-a"].kill()
        await group.start("g1-b")
        group.membership.value = replace(group.membership.value, in_sync=("g1-b",))
        await group.promote("g1-b")
        async with client_of(group.broker("g1-b")) as client:
            # Until its log has what the first master's had.
            await traffic.send(client, 20)
        await in_sync(group, "g1-b", "g1-c")
        assert "lost" not in group.broker("g1-c").store.subjects
        await all_equal(group)


async def test_a_node_that_copies_does_not_lead() -> None:
    async with ahead(running_loop(), copy_bytes_per_second=2 << 20) as (group, _):
        group.hosts["g1-b"].start()
        await eventually_async(
            lambda: group.hosts["g1-b"].server is not None and phase_of(group, "g1-b") is CopyPhase.LOG, 60
        )
        member = group.broker("g1-b").replication.member
        await eventually_async(lambda: member.follower is not None and member.follower.copy.goal > 0)
        assert member.role is ReplicaRole.COPYING
        stats = await group.broker("g1-b").replication._stats(None)
        assert stats["role"] == "copying"
        assert stats["replication"]["copy"]["phase"] == "log"
        copy = stats["replication"]["copy"]
        assert copy["total_bytes"] > copy["done_bytes"] >= 0
        group.hosts["g1-a"].kill()
        # As an operator would have to accept the loss of everything.
        membership = group.membership.value
        group.membership.value = replace(membership, in_sync=("g1-a", "g1-b"))
        group.membership.promote("g1-b")
        group.announce()
        await eventually_async(lambda: "it can't lead epoch 3" in group.broker("g1-b").readiness())


async def test_a_slave_removes_what_the_retention_of_its_master_removed() -> None:
    async with members(running_loop(), in_sync_min=1, **SETTINGS) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        slave, traffic = group.broker("g1-b"), Traffic()
        ticks = []
        slave.data.history_retention.tick = lambda: asyncio.sleep(0, ticks.append(1))  # type: ignore[method-assign]
        async with client_of(group.broker("g1-a")) as client:
            await traffic.prepare(client)
            await traffic.fill(client, group, "g1-a")
            begin = group.broker("g1-a").log.begin
            assert begin > 0
            # As soon as its own checkpoints need it no more.
            while slave.log.begin < begin:
                await traffic.send(client, 5)
            await eventually_async(lambda: not slave.log.stored.hidden_segments)
            segments = group.hosts["g1-b"].disk.list_dir("/g1-b/log")
            assert int(segments[0]) == slave.log.begin
            assert slave.log.begin <= slave.checkpoints.floor
            assert min(slave.store.segment_newest_ms) >= slave.log.begin
            assert ticks, "histories are removed by time"
            await all_equal(group)
        await group.hosts["g1-b"].stop()
        await group.start("g1-b")
        assert not group.broker("g1-b").log.stored.damaged
        await in_sync(group, "g1-a", "g1-b")
        await group.promote("g1-b")
        async with client_of(group.broker("g1-b")) as client:
            await traffic.check_idle(client)
