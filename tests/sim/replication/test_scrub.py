"""Members find what their disks have damaged by reading all stored data again, and repair it from each other."""

import asyncio
from typing import Any

import pytest

from qmq.protocol.delayed import DelayedTarget, Operation
from qmq_node.log.checking import segments_below
from qmq_node.repair.scrub import DAY_SECONDS
from tests.sim.replication.copying import Traffic, assert_no_failures, in_sync
from tests.sim.replication.damaging import segment
from tests.sim.replication.delay_copying import Schedule, delay_node
from tests.sim.replication.groups import cluster_of
from tests.sim.replication.pair import DELAY_NODES, Members, client_of, members
from tests.sim.world.loop import running_loop
from tests.support.waiting import eventually_async

PASS_SECONDS = 60.0
SETTINGS: dict[str, Any] = {"scrub_days": PASS_SECONDS / DAY_SECONDS, "checkpoint_seconds": 1.0}


def content(group: Members, name: str, path: str) -> bytearray:
    """The bytes of a file of a node."""
    return group.hosts[name].disk.names[f"/{name}/{path}"].content


def segments(group: Members, name: str) -> list[str]:
    """The segments of a node's log."""
    log = group.node(name).log
    return [f"log/{info.base:020d}" for info in segments_below(log.stored, log.high_watermark)]


async def repaired(group: Members, name: str, count: int) -> None:
    """Wait until so many ranges were repaired, and nothing is damaged."""

    def is_whole() -> bool:
        replication = group.node(name).replication
        return replication.repairs.repaired_ranges >= count and not replication.damaged_ranges

    await eventually_async(is_whole, 4 * PASS_SECONDS)


async def test_a_slave_repairs_what_it_finds_in_its_log() -> None:
    async with members(running_loop(), **SETTINGS) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        traffic = Traffic()
        async with client_of(group.broker("g1-a")) as client:
            await traffic.send(client, 100)
        await group.all_equal()
        paths = segments(group, "g1-b")
        for n, path in enumerate(paths):
            content(group, "g1-b", path)[20_000 + n] ^= 1
        await repaired(group, "g1-b", len(paths))
        for path in paths:
            assert content(group, "g1-b", path) == content(group, "g1-a", path)
        page = (await group.node("g1-b").admin.metrics_text()).decode()
        assert f'qmq_broker_repaired_ranges_total{{broker_group="g1",kind="log"}} {len(paths)}.0' in page
        assert 'qmq_broker_damaged_ranges{broker_group="g1"} 0.0' in page
        # What it has is served.
        await group.promote("g1-b")
        async with client_of(group.broker("g1-b")) as client:
            await client.begin("large", "all")
            assert (await client.pull("large", "all", limit=1000))[1][:30] == traffic.sent["large"][:30]
        assert_no_failures(group)


async def test_a_master_that_finds_damage_has_a_slave_lead_and_repairs_it() -> None:
    async with cluster_of(**SETTINGS, segment_bytes=128 << 10) as group:
        async with client_of(group.master) as client:
            await Traffic().send(client, 60)
        await group.all_equal()
        info = segments_below(group.master.log.stored, group.master.log.high_watermark)[0]
        first, second = (host.disk.names[segment(host, info.base)] for host in group.hosts.values())
        first.content[20_000] ^= 1
        await group.serves("g1-b")
        await group.in_sync("g1-a", "g1-b")
        await eventually_async(lambda: first.content == second.content, 4 * PASS_SECONDS)
        await eventually_async(lambda: not group.broker("g1-a").replication.damaged_ranges, 60)


@pytest.mark.parametrize("kind", [".index", ".data", "dispatch"])
async def test_a_delay_slave_repairs_what_it_finds_in_the_files_of_hours(kind: str) -> None:
    async with members(running_loop(), kind=DELAY_NODES, **SETTINGS) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        schedule = Schedule()
        async with client_of(group.node("g1-a")) as client:
            await schedule.send(client, 60)
            for target in list(schedule.due)[:12]:
                await client.change(Operation.CANCEL, DelayedTarget(target, "orders", schedule.due.pop(target)))
        await group.all_equal()
        await asyncio.sleep(3)
        store = delay_node(group, "g1-b").store
        hour = store.hours[sorted(store.hours)[-3]]
        file = {".index": hour.schedule.index, ".data": hour.schedule.data, "dispatch": hour.dispatch.file}[kind]
        path = file.path().removeprefix("/g1-b/")
        assert file.written_end > 20
        content(group, "g1-b", path)[file.written_end - 9] ^= 1
        await repaired(group, "g1-b", 1)
        end = file.written_end
        assert content(group, "g1-b", path)[:end] == content(group, "g1-a", path)[:end]
        await group.promote("g1-b")
        async with client_of(group.node("g1-b")) as client:
            await schedule.check(client)
        assert_no_failures(group)
