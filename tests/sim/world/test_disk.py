"""What the simulated disk promises: waits in virtual time, failing syncs that lose what they were to write."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from tests.sim.world.disk import READ_SECONDS, SYNC_SECONDS, SimulatedDisk, only_in_threads
from tests.sim.world.loop import Process, running_loop
from tests.sim.world.world import World
from tests.support.drivers.in_process import (
    connected,
    copy_files,
    default_disk,
    files_in,
    message,
    read_file,
    remove_files,
    running_broker,
    write_file,
)


def world_disk() -> SimulatedDisk:
    loop = running_loop()
    assert isinstance(loop, World)
    return loop.disk


@pytest.mark.parametrize("slowness", [1.0, 1000.0])
async def test_a_sync_takes_its_time_in_a_thread(slowness: float) -> None:
    disk, loop = world_disk(), running_loop()
    disk.weather.slowness = slowness
    file = disk.create("/d/a", 0)
    file.pwritev([b"x"], 0)
    began = loop.time()
    await asyncio.to_thread(file.datasync)
    low, high = SYNC_SECONDS
    assert low * slowness <= loop.time() - began <= high * slowness + 0.001


async def test_a_sync_on_the_event_loop_stops_the_process() -> None:
    disk, loop, ran_at = world_disk(), running_loop(), []
    disk.weather.slowness = 1000.0
    process, began = Process(loop, "a"), loop.time()

    async def syncs() -> None:
        disk.create("/d/a", 0).datasync()
        await asyncio.sleep(0)
        ran_at.append(loop.time() - began)

    process.start(syncs())
    await asyncio.sleep(10)
    assert ran_at[0] >= SYNC_SECONDS[0] * 1000


async def test_reads_wait_only_for_what_is_not_cached() -> None:
    disk, loop = world_disk(), running_loop()
    file = disk.create("/d/a", 0)
    file.pwritev([bytes(10_000)], 0)
    began = loop.time()
    await asyncio.to_thread(file.pread, 100, 0)
    warm, began = loop.time() - began, loop.time()
    disk.chill("/d/")
    disk.weather.slowness = 1000.0
    await asyncio.to_thread(file.pread, 100, 0)
    assert warm < READ_SECONDS[0] + 0.001
    assert loop.time() - began >= READ_SECONDS[0] * 1000


async def test_what_a_failing_sync_was_to_write_is_lost_although_a_later_sync_succeeds() -> None:
    disk = world_disk()
    file = disk.create("/d/a", 4)
    disk.sync_dir("/d")
    disk.weather.failing_syncs = 1
    file.pwritev([b"lost"], 0)
    with pytest.raises(OSError, match="Input/output error"):
        file.datasync()
    assert file.pread(4, 0) == b"lost", "it is in the page cache"
    file.datasync()
    assert disk.after_kill().open("/d/a", writable=False).pread(4, 0) == b"lost"
    assert disk.after_power_cut().open("/d/a", writable=False).pread(4, 0) != b"lost"


async def test_a_disk_after_a_crash_has_the_same_weather() -> None:
    disk = world_disk()
    disk.weather.slowness = 7.0
    after = disk.after_power_cut()
    assert isinstance(after, SimulatedDisk)
    assert after.weather is disk.weather


async def test_operations_on_the_event_loop_are_noticed() -> None:
    disk = world_disk()
    disk.observe = only_in_threads("/d/", "sync")
    file = disk.create("/d/a", 0)
    await asyncio.to_thread(file.datasync)
    with pytest.raises(AssertionError, match="sync of /d/a on the event loop"):
        file.datasync()


async def test_files_of_a_node_are_written_copied_and_removed() -> None:
    write_file("/d/one/a", b"first")
    write_file("/d/one/sub/b", b"second")
    write_file("/d/one/a", b"XX", at=1)
    assert files_in("/d") == ["/d/one/a", "/d/one/sub/b"]
    assert read_file("/d/one/a") == b"fXXst"
    write_file("/d/one/a", b"new")
    copy_files("/d/one", "/d/two")
    remove_files("/d/one")
    assert files_in("/d") == ["/d/two/a", "/d/two/sub/b"]
    assert (read_file("/d/two/a"), read_file("/d/two/sub/b")) == (b"new", b"second")
    assert default_disk() is world_disk()


async def test_a_node_that_waits_for_the_disk_on_its_event_loop_fails_its_test(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(message(1))
        broker.disk.list_dir(broker.options.data_dir)
        await asyncio.to_thread(broker.data.gap_file.keep, (), 0)
    with pytest.raises(AssertionError, match="called on the event loop") as failure:
        async with running_broker(tmp_path) as broker:
            broker.supervisor.later(0, "gaps", partial(broker.data.gap_file.keep, (), 0))
            await asyncio.sleep(1)
    operations = {line.partition(" < ")[0] for line in str(failure.value).splitlines()[1:]}
    assert {"create", "datasync", "rename", "sync_dir"} <= operations
