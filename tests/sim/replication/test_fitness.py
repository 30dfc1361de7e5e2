"""Groups whose members run, and of which one can't lead, hangs or is cut off: another one leads, and nothing is lost."""

import asyncio
import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from metaserver.choices import GroupState
from metaserver.memory.fitness import PAUSE_SECONDS
from metaserver.server import Metaserver
from qmq import Producer, Timeouts
from qmq.errors import LogError
from qmq.protocol.codes import SendResult
from qmq_node.commits.write_watch import CHECK_SECONDS, STUCK_SECONDS
from qmq_node.member.role_shell import MemberShell
from qmq_node.replication.master.in_sync_set import PROGRESS_SECONDS, SLOW_SECONDS
from qmq_node.replication.master.leading import Leading
from qmq_node.replication.rules.membership import Membership
from tests.sim.replication.groups import Group, begun, cluster_of, received
from tests.sim.replication.pair import client_of, send
from tests.support.drivers.in_process import message
from tests.support.waiting import eventually_async

REPLACED_SECONDS = 12.0
"""Another master serves within this, whatever happens to the one before."""


def promoted(group: Group) -> list[str]:
    """The nodes that are promoted from now on, one for each epoch."""
    found: list[str] = []

    def changed(_: str, before: Membership, after: Membership) -> None:
        if after.epoch > before.epoch:
            found.append(after.master)

    group.cluster.database.on_membership.append(changed)
    return found


@asynccontextmanager
async def producing(group: Group) -> AsyncIterator[list[str]]:
    """Send message after message inside the block; the IDs of those that are acknowledged. Only at its end may one be lost."""
    async with Producer(group.cluster.meta_url, timeouts=Timeouts(delivery=60.0)) as producer:
        sent: list[str] = []

        async def produce() -> None:
            while True:
                sent.append((await producer.send("orders", {"number": len(sent)})).message_id)
                await asyncio.sleep(0.05)

        task = asyncio.create_task(produce())
        try:
            await eventually_async(lambda: len(sent) > 20)
            yield sent
        finally:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task


async def replaced(group: Group, sent: list[str], *nodes: str) -> None:
    """Wait until one of these nodes serves as master and messages are acknowledged."""
    began = group.cluster.loop.now
    await eventually_async(
        lambda: (
            group.membership.master in nodes and group.runs(group.membership.master) and not group.master.readiness()
        ),
        REPLACED_SECONDS,
    )
    count = len(sent)
    await eventually_async(lambda: len(sent) > count + 20, began + REPLACED_SECONDS - group.cluster.loop.now)


async def nothing_is_lost(group: Group, sent: list[str]) -> None:
    await group.in_sync(*group.hosts)
    assert set(sent) <= set(await received(group))
    await group.all_equal()


# --- a member that can't lead ------------------------------------------------------------------------------------------


async def test_a_member_with_a_full_disk_is_not_promoted_while_another_one_can_lead() -> None:
    async with cluster_of(3) as group:
        sent = await begun(group)
        disk = group.hosts["g1-b"].disk
        disk.capacity_bytes = disk.used_bytes - 1
        await asyncio.sleep(3.0)
        found = promoted(group)
        group.hosts["g1-a"].kill()
        await eventually_async(
            lambda: group.membership.master == "g1-c" and not group.master.readiness(), REPLACED_SECONDS
        )
        assert found == ["g1-c"]
        group.hosts["g1-b"].disk.capacity_bytes = None
        group.hosts["g1-a"].start()
        await nothing_is_lost(group, sent)


async def test_a_member_with_a_full_disk_is_promoted_if_no_other_one_can_lead() -> None:
    """It refuses sends, and serves what is stored."""
    async with cluster_of(2) as group:
        sent = await begun(group)
        disk = group.hosts["g1-b"].disk
        disk.capacity_bytes = disk.used_bytes + (32 << 10)
        await asyncio.sleep(3.0)
        group.hosts["g1-a"].kill()
        await group.serves("g1-b")
        assert group.broker("g1-b").storage.space.is_disk_full
        assert await received(group) == sent


def fail_to_lead(monkeypatch: pytest.MonkeyPatch, node: str) -> None:
    """Let each promotion of a node end with an error of its disk."""
    begin_epoch = MemberShell.begin_epoch

    async def begin(self: MemberShell, membership: Membership) -> tuple[Leading, int]:
        if self.identity.node_id == node:
            raise OSError(errno.EIO, "Input/output error")
        return await begin_epoch(self, membership)

    monkeypatch.setattr(MemberShell, "begin_epoch", begin)


@pytest.mark.parametrize("metas", [1, 2])
async def test_a_member_that_could_not_lead_is_not_promoted_again_while_another_one_can(
    monkeypatch: pytest.MonkeyPatch, metas: int
) -> None:
    async with cluster_of(3, metas) as group:
        sent = await begun(group)
        fail_to_lead(monkeypatch, "g1-b")
        found = promoted(group)
        group.hosts["g1-a"].kill()
        await eventually_async(
            lambda: group.membership.master == "g1-c" and not group.master.readiness(), REPLACED_SECONDS
        )
        assert found == ["g1-b", "g1-c"]
        group.hosts["g1-a"].start()
        await nothing_is_lost(group, sent)


async def test_the_only_candidate_is_promoted_again_after_pauses_that_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    async with cluster_of(2) as group:
        sent = await begun(group)
        fail_to_lead(monkeypatch, "g1-b")
        found = promoted(group)
        group.hosts["g1-a"].kill()
        await asyncio.sleep(60.0)
        # Pauses of 0.5, 1, 2, 4, 8, 16 and 30 s.
        assert 5 <= len(found) <= 8
        assert PAUSE_SECONDS == 0.5
        monkeypatch.undo()
        await group.serves("g1-b")
        group.hosts["g1-a"].start()
        await nothing_is_lost(group, sent)


# --- a disk that hangs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copies", [2, 3])
async def test_a_master_whose_disk_hangs_refuses_sends_and_is_replaced(copies: int) -> None:
    async with cluster_of(copies) as group:
        group.set(in_sync_min=copies - 1)
        others = [node for node in group.hosts if node != "g1-a"]
        sent = await begun(group)
        found = promoted(group)
        old = group.master
        group.hosts["g1-a"].weather.hang_seconds = 60.0
        began = group.cluster.loop.now
        async with client_of(old) as waiting, client_of(old) as client:
            hanging = asyncio.create_task(waiting.send(message(100)))
            await eventually_async(lambda: old.registration.refuse_sends())
            assert group.cluster.loop.now - began == pytest.approx(STUCK_SECONDS, abs=2 * CHECK_SECONDS)
            failures = await client.send(message(101))
            assert failures["m101"].result == SendResult.STORE_ERROR
            assert failures["m101"].remark.startswith("read only: the disk has not completed a write for 2.")
            metaserver = group.cluster.meta.server
            assert isinstance(metaserver, Metaserver)
            live = metaserver.directory.groups["g1"]
            await eventually_async(lambda: live.state is GroupState.READ_ONLY, 1.0)
            assert live.membership.master == "g1-a"
            await eventually_async(
                lambda: group.membership.master in others and not group.master.readiness(),
                REPLACED_SECONDS - STUCK_SECONDS,
            )
            assert await asyncio.wait_for(asyncio.gather(hanging, return_exceptions=True), 1.0)
            assert not hanging.done() or hanging.exception() is not None, "its outcome is unknown"
        assert found == [group.membership.master]
        async with client_of(group.master) as client:
            sent += await send(client, range(20, 30))
        # The old master ends when its disk responds.
        await asyncio.sleep(60.0)
        await nothing_is_lost(group, sent)
        assert len(found) == 1


async def test_a_master_that_is_stopped_while_its_disk_hangs_is_replaced() -> None:
    """It can't resign, because its slaves do not have what it has not stored."""
    async with cluster_of(2) as group:
        sent = await begun(group)
        group.set(in_sync_min=1)
        group.hosts["g1-a"].weather.hang_seconds = 30.0
        async with client_of(group.master) as client:
            sending = asyncio.create_task(client.send(message(100)))
            await asyncio.sleep(0.5)
            stopping = asyncio.create_task(group.hosts["g1-a"].stop())
            await eventually_async(
                lambda: group.membership.master == "g1-b" and not group.master.readiness(), REPLACED_SECONDS
            )
            sending.cancel()
        await stopping
        group.hosts["g1-a"].start()
        await nothing_is_lost(group, sent)


async def test_a_disk_that_hangs_while_the_node_stands_still_is_no_reason_to_refuse_sends() -> None:
    async with cluster_of(2) as group:
        await begun(group)
        broker, process = group.master, group.hosts[group.membership.master].process
        assert process is not None
        group.hosts["g1-a"].weather.hang_seconds = 1.0
        async with client_of(broker) as client:
            sending = asyncio.create_task(client.send(message(100)))
            await asyncio.sleep(0.1)
            process.pause()
            await asyncio.sleep(3.0)
            process.resume()
            assert await sending == {}
        assert not broker.storage.write_watch.is_stuck
        assert group.membership.master == "g1-a"


async def test_a_slave_whose_disk_hangs_is_not_promoted() -> None:
    async with cluster_of(3) as group:
        sent = await begun(group)
        for name in ("g1-a", "g1-b"):
            group.hosts[name].weather.hang_seconds = 30.0
        found = promoted(group)
        async with client_of(group.master) as client:
            sending = asyncio.create_task(client.send(message(100)))
            await eventually_async(
                lambda: group.membership.master == "g1-c" and not group.master.readiness(), REPLACED_SECONDS
            )
            sending.cancel()
        assert found == ["g1-c"]
        await asyncio.sleep(30.0)
        await nothing_is_lost(group, sent)


# --- a master that is cut off from its slaves --------------------------------------------------------------------------


async def test_a_master_that_is_cut_off_from_slaves_that_run_is_replaced() -> None:
    async with cluster_of(3) as group:
        found, network = promoted(group), group.cluster.network
        async with producing(group) as sent:
            for name in ("g1-b", "g1-c"):
                network.cut("g1", name)
            await replaced(group, sent, "g1-b", "g1-c")
            await asyncio.sleep(60.0)
            assert found == [group.membership.master], "it does not flap"
            network.heal()
            await asyncio.sleep(PROGRESS_SECONDS + SLOW_SECONDS)
        await nothing_is_lost(group, sent)
        assert len(found) == 1


async def test_members_that_are_all_cut_off_from_each_other_change_their_master_once_or_twice() -> None:
    async with cluster_of(3) as group:
        sent = await begun(group)
        found, network = promoted(group), group.cluster.network
        for one, other in (("g1", "g1-b"), ("g1", "g1-c"), ("g1-b", "g1-c")):
            network.cut(one, other)
        async with client_of(group.master) as client:
            sending = asyncio.create_task(client.send(message(100)))
            await asyncio.sleep(60.0)
            sending.cancel()
        assert len(found) <= 2
        network.heal()
        await nothing_is_lost(group, sent)
        assert len(found) <= 2


@pytest.mark.parametrize("in_sync_min", [1, 2])
async def test_a_pair_that_is_cut_keeps_its_master(in_sync_min: int) -> None:
    """With another master it would not accept sends either, or it does in any case."""
    async with cluster_of(2) as group:
        sent = await begun(group)
        group.set(in_sync_min=in_sync_min)
        found = promoted(group)
        group.cluster.network.cut("g1", "g1-b")
        await asyncio.sleep(30.0)
        assert found == []
        group.cluster.network.heal()
        await nothing_is_lost(group, sent)


# --- slow slaves -------------------------------------------------------------------------------------------------------


async def test_a_slave_that_is_slow_again_and_again_delays_few_sends() -> None:
    async with cluster_of(2) as group:
        sent = await begun(group)
        group.set(in_sync_min=1)
        group.hosts["g1-b"].weather.sync_seconds = 4.0
        loop, slow, version = group.cluster.loop, 0, group.membership.version
        async with client_of(group.master) as client:
            for number in range(100, 120):
                began = loop.now
                assert await client.send(message(number)) == {}
                slow += loop.now - began > PROGRESS_SECONDS - 0.5
                await asyncio.sleep(began + 8.0 - loop.now)
                sent.append(f"m{number}")
        assert slow == 1
        assert group.membership.version == version + 1
        group.hosts["g1-b"].weather.sync_seconds = 0.0
        await nothing_is_lost(group, sent)


# --- the database is away ----------------------------------------------------------------------------------------------


async def test_no_slave_is_added_while_the_database_is_away() -> None:
    async with cluster_of(2) as group:
        sent = await begun(group)
        group.set(in_sync_min=1)
        group.hosts["g1-b"].kill()
        await group.in_sync("g1-a")
        group.cluster.database.is_away = True
        await asyncio.sleep(6.0)
        group.hosts["g1-b"].start()
        master = group.master
        assert master.replication.member.leading is not None
        await eventually_async(
            lambda: bool(master.replication.member.leading and master.replication.member.leading.slaves())
        )
        await asyncio.sleep(10.0)
        assert master.replication.member.leading.counted == ("g1-a",)
        group.hosts["g1-b"].kill()
        async with client_of(master) as client:
            sent += await send(client, range(20, 30))
        group.cluster.database.is_away = False
        group.hosts["g1-b"].start()
        await nothing_is_lost(group, sent)


# --- a promotion that ends early ---------------------------------------------------------------------------------------


async def with_a_tail(group: Group) -> list[str]:
    """Kill the master when the slave has stored messages above the high watermark that it knows; those acknowledged before."""
    sent = await begun(group)
    await group.all_equal()
    group.cluster.network.cut("g1-b", "g1", one_way=True)
    slave = group.broker("g1-b")
    end = slave.log.written_end
    async with client_of(group.master) as client:
        sending = asyncio.create_task(client.send(*(message(number) for number in range(100, 120))))
        await eventually_async(lambda: slave.log.synced_end > end)
        sending.cancel()
    group.hosts["g1-a"].kill()
    group.cluster.network.heal()
    assert slave.log.high_watermark <= end < slave.log.synced_end
    return sent


async def test_a_member_that_is_stopped_while_it_applies_its_tail_ends_at_once() -> None:
    async with cluster_of(2, checkpoint_seconds=600.0) as group:
        sent = await with_a_tail(group)
        slave, begins = group.broker("g1-b"), asyncio.Event()
        assert slave.replication.shell.applying is not None

        async def spend(_: int) -> None:
            # The first record of the tail is in the store.
            begins.set()
            await asyncio.sleep(5.0)

        slave.replication.shell.applying._pacer.spend = spend  # type: ignore[method-assign]
        await asyncio.wait_for(begins.wait(), REPLACED_SECONDS)
        saved = slave.checkpoints.saved
        await asyncio.wait_for(group.hosts["g1-b"].stop(), 3.0)
        assert slave.checkpoints.saved == saved
        for host in group.hosts.values():
            host.start()
        await nothing_is_lost(group, sent)


async def test_no_checkpoint_is_saved_when_the_tail_can_not_be_applied() -> None:
    async with cluster_of(2, checkpoint_seconds=600.0) as group:
        sent = await with_a_tail(group)
        slave, host = group.broker("g1-b"), group.hosts["g1-b"]
        assert slave.replication.shell.applying is not None
        saved, process = [0], host.process

        async def spend(_: int) -> None:
            # The first record of the tail is in the store.
            saved[0] = slave.checkpoints.saved
            raise LogError("the tail can't be read")

        slave.replication.shell.applying._pacer.spend = spend  # type: ignore[method-assign]
        await eventually_async(lambda: host.process is not process, REPLACED_SECONDS)
        assert saved == [slave.checkpoints.saved]
        group.hosts["g1-a"].start()
        await nothing_is_lost(group, sent)
