"""Whole delay groups with damaged files of hours: members repair them from each other, and messages are delivered."""

import asyncio
import contextlib
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from delay_node.delay_node import DelayNode
from delay_node.hour import Hour
from delay_node.hour_checks import HourFile, damaged_ranges, files_of
from delay_node.records import RecordKind
from delay_node.schedule_log import INDEX_BYTES
from qmq.protocol.codes import ReplicaRole
from qmq.protocol.delayed import ListDelayedRequest
from qmq_node.replication.rules.roles import CopyPhase
from qmq_node.slices import run_to_end
from tests.sim.replication.copying import assert_no_failures, in_sync, make_copies_small
from tests.sim.replication.delay_copying import HOUR_MS, SETTINGS, SLOW, Schedule, ahead, all_equal, copies, delay_node
from tests.sim.replication.delivering import arrived, delay_group, serving
from tests.sim.replication.pair import DELAY_NODES, Members, client_of, members
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import connected, delayed, now_ms
from tests.support.waiting import eventually_async

COUNT = 240
KINDS = (".index", ".data", "dispatch")
EVERYTHING = ListDelayedRequest("orders", 0, 1 << 47)


@asynccontextmanager
async def scheduled(count: int = 2, starts: tuple[str, ...] = ()) -> AsyncIterator[tuple[Members, Schedule]]:
    """Members that have the same messages in hours to come, on disk, some of them claimed."""
    loop = running_loop()
    async with members(loop, count, in_sync_min=1, starts=starts, kind=DELAY_NODES, **SETTINGS) as group:
        schedule = Schedule()
        await group.promote("g1-a")
        await in_sync(group, *(starts or tuple(group.hosts)))
        master = delay_node(group, "g1-a")
        async with client_of(master) as client:
            await schedule.send(client, COUNT)
            for hour in list(master.store.hours.values()):
                async with master.store.open_hours.use(hour.number):
                    refs = [hour.number << 32 | number for number in range(6)]
                    master.store.act(RecordKind.CLAIMED, refs, now_ms())
            await master.committer.synced(master.log.gather.records_end - 1)
        await group.all_equal()
        await on_disk(group)
        yield group, schedule
        assert_no_failures(group)


async def on_disk(group: Members) -> None:
    """Wait until nothing of the hours is in memory only."""
    nodes = [delay_node(group, name) for name, host in group.hosts.items() if host.server is not None]
    await eventually_async(lambda: not any(node.store.hours.unwritten_bytes for node in nodes), 60)


def files(node: DelayNode, kind: str = "") -> list[HourFile]:
    return [file for hour in node.store.hours.values() for file in files_of(hour) if kind in file.name and file.end]


def flip(group: Members, name: str, file: HourFile, at: int) -> None:
    inode = group.hosts[name].disk.names[file.file.path()]
    for content in (inode.content, inode.synced):
        content[at] ^= 4


def check(node: DelayNode) -> None:
    """Have all files checked, as it happens within days."""
    for file in files(node):
        node.data.damage.suspect(file.name, 0, file.end)


def is_whole(node: DelayNode) -> bool:
    return not any(run_to_end(damaged_ranges(file, 0, file.end)) for file in files(node))


async def repaired(group: Members, *names: str) -> None:
    """Wait until nothing is damaged at these members, and it is known there."""

    def done() -> bool:
        nodes = [delay_node(group, name) for name in names if group.hosts[name].server is not None]
        return len(nodes) == len(names) and all(
            not list(node.data.hour_ranges.damaged()) and is_whole(node) for node in nodes
        )

    await eventually_async(done, 120)
    await asyncio.sleep(2)
    for name in names:
        store = delay_node(group, name).store
        assert (store.counters.lost, store.bodies.unreadable) == (0, 0)


async def assert_equal(group: Members) -> None:
    """All members have the same state, and the same bytes on their disks."""
    await all_equal(group)
    await on_disk(group)
    contents = [
        {
            file.name: bytes(group.hosts[name].disk.names[file.file.path()].content[: file.end])
            for file in files(delay_node(group, name))
        }
        for name in group.hosts
    ]
    assert contents[0]
    assert all(content == contents[0] for content in contents)
    assert not any(host.disk.unreadable_pages for host in group.hosts.values())


@pytest.mark.parametrize("is_unreadable", [False, True], ids=["flipped", "unreadable"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_slave_repairs_what_is_damaged_on_its_disk(kind: str, is_unreadable: bool) -> None:
    async with scheduled() as (group, schedule):
        slave = delay_node(group, "g1-b")
        for file in files(slave, kind)[:3]:
            if is_unreadable:
                group.hosts["g1-b"].disk.break_pages(file.file.path(), file.end - 1, file.end)
            else:
                flip(group, "g1-b", file, file.end // 2)
        check(slave)
        await repaired(group, "g1-b")
        assert slave.replication.member.role is ReplicaRole.IN_SYNC
        await assert_equal(group)
        await group.promote("g1-b")
        async with client_of(delay_node(group, "g1-b")) as client:
            await schedule.check(client)


@pytest.mark.parametrize("is_unreadable", [False, True], ids=["flipped", "unreadable"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_master_that_reads_damage_has_its_slave_lead_and_repairs(kind: str, is_unreadable: bool) -> None:
    async with scheduled() as (group, schedule):
        master = delay_node(group, "g1-a")
        for file in files(master, kind)[:3]:
            if is_unreadable:
                group.hosts["g1-a"].disk.break_pages(file.file.path(), 0, 1)
            else:
                flip(group, "g1-a", file, 40)
            # So that they are read again.
            if not file.hour.users:
                file.hour.close()
                master.store.open_hours._far.pop(file.hour.number, None)
        async with client_of(master) as client:
            with contextlib.suppress(AssertionError):
                # Not answered: what is listed can't be read.
                await client.listed(EVERYTHING)
        await eventually_async(lambda: group.is_master("g1-b"), 60)
        async with client_of(delay_node(group, "g1-b")) as client:
            await schedule.check(client)
        # The master did not come to all of it.
        check(delay_node(group, "g1-a"))
        await repaired(group, "g1-a")
        await in_sync(group, "g1-a", "g1-b")
        await assert_equal(group)


async def test_a_master_without_a_slave_in_sync_repairs_in_place() -> None:
    async with scheduled() as (group, schedule):
        master, slave = delay_node(group, "g1-a"), delay_node(group, "g1-b")
        for name, node, kind in (("g1-a", master, ".data"), ("g1-b", slave, ".index")):
            for file in files(node, kind)[:4]:
                flip(group, name, file, 40)
        check(slave)
        await eventually_async(lambda: bool(list(slave.data.hour_ranges.damaged())), 60)
        check(master)
        await repaired(group, "g1-a", "g1-b")
        await assert_equal(group)
        async with client_of(delay_node(group, group.membership.value.master)) as client:
            await schedule.check(client)


@pytest.mark.parametrize("name", ["g1-a", "g1-b"])
async def test_damage_in_200_places_of_one_member_is_repaired(name: str) -> None:
    async with scheduled() as (group, schedule):
        node, rng = delay_node(group, name), random.Random(7)
        every = files(node)
        for number in range(200):
            file = rng.choices(every, [file.end for file in every])[0]
            at = rng.randrange(file.end)
            if number % 20:
                flip(group, name, file, at)
            else:
                group.hosts[name].disk.break_pages(file.file.path(), at, at + 1)
        check(node)
        await eventually_async(lambda: bool(list(node.data.hour_ranges.damaged())), 60)
        await repaired(group, name)
        await in_sync(group, "g1-a", "g1-b")
        await assert_equal(group)
        master = delay_node(group, group.membership.value.master)
        assert (master.store.counters.lost, master.store.bodies.unreadable) == (0, 0)
        async with client_of(master) as client:
            await schedule.check(client)


async def test_what_is_damaged_at_both_members_stays_and_is_named() -> None:
    async with scheduled() as (group, _):
        nodes = {name: delay_node(group, name) for name in group.hosts}
        name = files(nodes["g1-a"], ".index")[0].name
        for member, node in nodes.items():
            (file,) = [file for file in files(node) if file.name == name]
            flip(group, member, file, 40)
            check(node)

        def tried() -> bool:
            if any(host.server is None for host in group.hosts.values()):
                return False
            pending = [delay_node(group, one).replication.repairs.report().get("pending") for one in group.hosts]
            return all(ranges and "damaged at this node, too" in ranges[0]["problem"] for ranges in pending)

        await eventually_async(tried, 60)
        for one in group.hosts:
            (damaged,) = delay_node(group, one).data.hour_ranges.damaged()
            assert (damaged.file, damaged.begin, damaged.end) == (name, INDEX_BYTES, 2 * INDEX_BYTES)
        # The other messages are served.
        async with client_of(delay_node(group, group.membership.value.master)) as client:
            found = (await client.listed(ListDelayedRequest("orders", 0, 1 << 47, limit=1_000))).items
            assert len(found) > 0


async def test_an_hour_whose_lost_messages_were_repaired_ends_on_all_members() -> None:
    async with scheduled() as (group, _):
        master = delay_node(group, "g1-a")
        (file, *_) = files(master, ".index")
        hour: Hour = file.hour
        master.store.open_hours._far.clear()
        hour.close()
        flip(group, "g1-a", file, (hour.schedule.count - 1) * INDEX_BYTES)
        async with master.store.open_hours.use(hour.number):
            assert hour.lost == 1
        await eventually_async(lambda: group.is_master("g1-b"), 60)
        await repaired(group, "g1-a")
        await in_sync(group, "g1-a", "g1-b")
        await group.promote("g1-a")
        master = delay_node(group, "g1-a")
        hour = master.store.hours[hour.number]
        assert hour.lost == 0
        async with master.store.open_hours.use(hour.number):
            refs = [hour.number << 32 | number for number in range(hour.schedule.count)]
            master.store.act(RecordKind.CANCELLED, refs, now_ms())
            await master.committer.synced(master.log.gather.records_end - 1)
        master.data.trusted.now_ms = lambda: hour.end_ms + 48 * HOUR_MS  # type: ignore[method-assign]
        await eventually_async(lambda: hour.number not in master.store.hours, 60)
        await group.all_equal()
        assert hour.number not in delay_node(group, "g1-b").store.hours


@pytest.mark.parametrize("copies", [2, 3])
async def test_due_messages_that_the_master_can_t_read_are_delivered(copies: int) -> None:
    async with delay_group(copies) as (cluster, master):
        begin = now_ms() + 30_000
        sent = [delayed(number, begin + number * 10) for number in range(200)]
        async with connected(master) as client:
            assert await client.send(*sent) == {}
        hosts = cluster.members("d1")
        nodes = [host.server for host in hosts.values()]
        stores = [node.store for node in nodes if isinstance(node, DelayNode)]
        await eventually_async(lambda: not any(store.hours.unwritten_bytes for store in stores), 25)
        host = serving(cluster)
        for file in files(master):
            inode = host.disk.names[file.file.path()]
            for at in range(2_000, file.file.written_end, 700 if file.entries is None else 7 * INDEX_BYTES):
                inode.content[at] ^= 8
                inode.synced[at] ^= 8
        assert not is_whole(master)
        await eventually_async(lambda: len({message.message_id for message in arrived(cluster)}) == 201, 90)
        counts = Counter(message.message_id for message in arrived(cluster))
        assert set(counts.values()) == {1}
        due = {message.message_id: message.time_ms for message in sent}
        assert serving(cluster) is not host
        assert len(due) == 200

        def is_repaired() -> bool:
            node = host.server
            return isinstance(node, DelayNode) and not node.data.hour_ranges.damaged() and node.store.hours != {}

        await eventually_async(is_repaired, 120)
        now = host.server
        assert isinstance(now, DelayNode)
        check(now)
        await eventually_async(lambda: is_repaired() and is_whole(now), 120)


async def test_a_copying_slave_gets_from_a_third_member_what_is_damaged_at_the_master(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make_copies_small(monkeypatch)
    async with ahead(running_loop(), 3, settings=SLOW) as (group, schedule):
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        await on_disk(group)
        master = delay_node(group, "g1-a")
        for file in files(master):
            if file.end > 100:
                flip(group, "g1-a", file, 40)
                flip(group, "g1-a", file, file.end // 2)
        # It repairs nothing itself, and leads.
        master.replication.repairs.repairs._may_repair = never  # type: ignore[union-attr]
        with caplog.at_level(logging.WARNING):
            group.hosts["g1-c"].start()
            await copies(group, "g1-c", CopyPhase.FILES)
            await in_sync(group, "g1-a", "g1-b", "g1-c")
        named = [record.getMessage() for record in caplog.records if record.name == "qmq.delay.copying"]
        assert any("entries fail their checks at the master, and come from another member" in text for text in named)
        assert not any("copied as they are" in text for text in named)
        await on_disk(group)
        assert is_whole(delay_node(group, "g1-c"))
        await group.promote("g1-c")
        async with client_of(delay_node(group, "g1-c")) as client:
            await schedule.check(client)


async def never() -> bool:
    return False
