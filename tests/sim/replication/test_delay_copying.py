"""Delay nodes that copy state, files of hours and log, because the master does not have what follows on their log any more."""

import asyncio

import pytest

from delay_node import files_copy
from delay_node.records import RecordKind
from qmq.protocol.codes import ReplicaRole
from qmq_node.replication.master import state_reads
from qmq_node.replication.rules.roles import CopyPhase
from tests.sim.replication.copying import crash, in_sync, make_copies_small
from tests.sim.replication.delay_copying import HOUR_MS, SLOW, ahead, check_promoted, copies, delay_node
from tests.sim.replication.log_damage import commits, damage, flip
from tests.sim.replication.pair import client_of
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import now_ms
from tests.support.waiting import eventually_async


@pytest.fixture(autouse=True)
def small_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    make_copies_small(monkeypatch)
    monkeypatch.setattr(files_copy, "FILES_PER_SYNC", 3)
    monkeypatch.setattr(files_copy, "BYTES_PER_SYNC", 64 << 10)
    monkeypatch.setattr(state_reads, "PIECE_BYTES", 16 << 10)


async def test_an_empty_slave_knows_everything_that_the_master_knows() -> None:
    async with ahead(running_loop()) as (group, schedule):
        master = delay_node(group, "g1-a")
        assert master.log.begin > 0
        assert not master.replication.holds_files
        await group.start("g1-b")
        await copies(group, "g1-b", CopyPhase.FILES)
        slave = delay_node(group, "g1-b")
        assert slave.replication.member.role is ReplicaRole.COPYING
        assert (len(slave.store.hours), slave.store.pending) == (0, 0), "its state is not usable yet"
        assert master.replication.holds_files
        await in_sync(group, "g1-a", "g1-b")
        await check_promoted(group, schedule)


async def test_a_slave_that_was_away_for_too_long_copies_what_was_added() -> None:
    async with ahead(running_loop()) as (group, schedule):
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        # With a checkpoint of its own.
        await group.hosts["g1-b"].stop()
        await in_sync(group, "g1-a")
        master = delay_node(group, "g1-a")
        whole = sum(hour.schedule.data.end for hour in master.store.hours.values())
        async with client_of(master) as client:
            await schedule.fill(client, master, away=True)
        added = sum(hour.schedule.data.end for hour in master.store.hours.values()) - whole
        sent_before = master.replication.member.leading.counters.sent_bytes["state"]  # type: ignore[union-attr]
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        copied = master.replication.member.leading.counters.sent_bytes["state"] - sent_before  # type: ignore[union-attr]
        assert copied < added + 100_000 < whole
        await check_promoted(group, schedule)


@pytest.mark.parametrize("is_power_cut", [False, True], ids=["kill", "power cut"])
@pytest.mark.parametrize("phase", [CopyPhase.FILES, CopyPhase.LOG, CopyPhase.CATCHING_UP])
async def test_a_slave_that_crashes_while_it_copies_continues(phase: CopyPhase, is_power_cut: bool) -> None:
    async with ahead(running_loop(), settings=SLOW) as (group, schedule):
        host = group.hosts["g1-b"]
        crashes = 0
        host.start()
        while crashes < 3 and group.membership.value.in_sync != ("g1-a", "g1-b"):
            await asyncio.sleep(0.001)
            copying = delay_node(group, "g1-b").folder.replica.state.copying if host.server is not None else None
            if copying is not None and copying.phase is phase:
                await asyncio.sleep(0.5 * crashes)
                crash(group, "g1-b", is_power_cut=is_power_cut)
                crashes += 1
                host.start()
        assert crashes
        await in_sync(group, "g1-a", "g1-b")
        await check_promoted(group, schedule)


@pytest.mark.parametrize("phase", [CopyPhase.FILES, CopyPhase.LOG])
async def test_the_copy_continues_when_the_master_returns(phase: CopyPhase) -> None:
    async with ahead(running_loop(), settings=SLOW) as (group, schedule):
        group.hosts["g1-b"].start()
        await copies(group, "g1-b", phase)
        group.hosts["g1-a"].cut_power()
        running_loop().network.power_on("g1-a")
        await group.start("g1-a")
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        await check_promoted(group, schedule)


@pytest.mark.parametrize("phase", [CopyPhase.FILES, CopyPhase.LOG])
async def test_the_copy_continues_from_a_new_master(phase: CopyPhase) -> None:
    async with ahead(running_loop(), 3, settings=SLOW) as (group, schedule):
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        group.hosts["g1-c"].start()
        await copies(group, "g1-c", phase)
        group.hosts["g1-a"].kill()
        await group.promote("g1-b")
        async with client_of(group.node("g1-b")) as client:
            await schedule.send(client, 50)
        await in_sync(group, "g1-b", "g1-c")
        await check_promoted(group, schedule, "g1-c")


async def test_no_hour_ends_while_a_slave_copies() -> None:
    async with ahead(running_loop(), settings=SLOW) as (group, schedule):
        master = delay_node(group, "g1-a")
        number = schedule.first_hour_ms // HOUR_MS
        hour = master.store.hours[number]
        async with master.store.open_hours.use(number):
            refs = [number << 32 | n for n in range(hour.schedule.count)]
            master.store.act(RecordKind.CANCELLED, refs, now_ms())
            await master.committer.synced(master.log.gather.records_end - 1)
        schedule.due = {name: at for name, at in schedule.due.items() if at // HOUR_MS != number}
        master.data.trusted.now_ms = lambda: hour.end_ms + 48 * HOUR_MS  # type: ignore[method-assign]
        group.hosts["g1-b"].start()
        await copies(group, "g1-b", CopyPhase.FILES)
        await asyncio.sleep(3)
        assert master.replication.holds_files
        assert number in master.store.hours
        await in_sync(group, "g1-a", "g1-b")
        await eventually_async(lambda: number not in master.store.hours, 120)
        await group.all_equal()
        assert number not in delay_node(group, "g1-b").store.hours


async def test_a_slave_continues_with_a_newer_state_when_its_master_keeps_the_older_one_no_more() -> None:
    async with ahead(running_loop(), settings=SLOW) as (group, schedule):
        master = delay_node(group, "g1-a")
        group.hosts["g1-b"].start()
        await copies(group, "g1-b", CopyPhase.FILES)
        follower = delay_node(group, "g1-b").replication.member.follower
        assert follower is not None
        first = follower.copy.state_offset
        saved = master.checkpoints.saved
        async with client_of(master) as client:
            await schedule.send(client, 10)
        await eventually_async(lambda: master.checkpoints.saved > saved)
        assert master.replication.member.leading is not None
        # As after a read of an hour that was used again.
        master.replication.member.leading._state_reads._kept = None
        await eventually_async(lambda: follower.copy.state_offset > first, 60)
        progress = follower.copy.progress
        assert progress is not None
        assert progress.phase is CopyPhase.FILES
        await in_sync(group, "g1-a", "g1-b")
        await check_promoted(group, schedule)


async def test_a_slave_copies_the_log_around_damage_that_the_state_stands_behind() -> None:
    async with ahead(running_loop()) as (group, schedule):
        master = delay_node(group, "g1-a")
        end = master.checkpoints.last_position.offset
        found = [commit for commit in commits(master.log, master.log.begin) if commit[1] <= end]
        lost = found[-2]
        flip(group.hosts["g1-a"], sum(lost) // 2)
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        slave = delay_node(group, "g1-b")
        assert damage(master.log) == damage(slave.log) == [lost]
        assert slave.log.stored.own_damage == ()
        # Every message is in the state, so nothing is withheld.
        await check_promoted(group, schedule)
        await group.hosts["g1-b"].stop()
        await group.start("g1-b")
        assert damage(slave.log) == [lost] or slave.log.begin >= lost[1]
        await group.promote("g1-b")
        async with client_of(delay_node(group, "g1-b")) as client:
            await schedule.check(client)
