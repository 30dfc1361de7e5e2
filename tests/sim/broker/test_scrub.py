"""A broker reads its stored data again: what is damaged is found without a reader, at a limited rate, and over restarts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_node.broker import Broker
from qmq_node.log.checking import segments_below
from qmq_node.log.segment import SegmentInfo
from qmq_node.repair import scrub
from qmq_node.repair.scrub import DAY_SECONDS, PLANNED_SHARE, Scrub
from tests.sim.world.loop import running_loop
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.in_process import Client, connected, get_json, get_page, message, running_broker
from tests.support.waiting import eventually_async

SEGMENT_BYTES = 64 << 10
PASS_SECONDS = 700.0
"""Of one pass in these tests; 600 s are planned for it."""
PLANNED_SECONDS = PASS_SECONDS * PLANNED_SHARE


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece is a small part of a segment."""
    monkeypatch.setattr("qmq_node.log.checking.PIECE_BYTES", 4 << 10)


@asynccontextmanager
async def running(folder: Path, disk: MemoryDisk, **settings: Any) -> AsyncIterator[Broker]:
    given = {"segment_bytes": SEGMENT_BYTES, "scrub_days": PASS_SECONDS / DAY_SECONDS, **settings}
    async with running_broker(folder, disk=disk, **given) as broker:
        yield broker


def scrub_of(broker: Broker) -> Scrub:
    found = broker.replication.scrubbing.scrub
    assert found is not None
    return found


def read_bytes(broker: Broker) -> int:
    return scrub_of(broker).counters.read_bytes


def segments(broker: Broker) -> list[SegmentInfo]:
    return segments_below(broker.log.stored, broker.log.high_watermark)


async def fill(client: Client, broker: Broker, count: int) -> int:
    """Send until there are so many segments; the bytes that are written."""
    number = 0
    while len(segments(broker)) < count:
        assert await client.send(*(message(number + i, size=2_000) for i in range(5))) == {}
        number += 5
    return sum(info.bytes for info in segments(broker))


def path_of(broker: Broker, info: SegmentInfo) -> str:
    return f"{broker.options.data_dir}/log/{info.base:020d}"


async def test_all_that_is_written_is_read_once_evenly_over_the_planned_time(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with running(tmp_path, disk) as broker:
        async with connected(broker) as client:
            total = await fill(client, broker, 8)
        began = running_loop().time()
        while (left := PLANNED_SECONDS - (running_loop().time() - began)) > 10:
            await asyncio.sleep(5)
            share = 1 - left / PLANNED_SECONDS
            assert abs(read_bytes(broker) / total - share) < 0.1, f"{share:.0%} of the time"
        assert scrub_of(broker).counters.passes == 0
        await asyncio.sleep(20)
        counters = scrub_of(broker).counters
        # The next pass has begun.
        assert counters.passes == 1
        assert total <= counters.read_bytes <= total + SEGMENT_BYTES
        assert counters.found == 0
        report = scrub_of(broker).report()
        assert report is not None
        assert report.pass_seconds < 25
        assert report.last_pass_age_seconds is not None
        assert report.last_pass_age_seconds < 25


async def test_the_rate_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it would have to be read within seconds."""
    rate, disk = 8 << 10, MemoryDisk()
    async with running(tmp_path, disk, scrub_bytes_per_second=rate, scrub_days=0.001) as broker:
        async with connected(broker) as client:
            total = await fill(client, broker, 24)
        assert total / rate > 1.5 * 86.4
        await asyncio.sleep(90)
        began, before = running_loop().time(), read_bytes(broker)
        for _ in range(40):
            await asyncio.sleep(1)
            allowed = rate * (running_loop().time() - began + scrub.SCRUB_SECONDS) + (8 << 10)
            assert read_bytes(broker) - before <= allowed
        assert read_bytes(broker) - before > 0.8 * rate * 40
        # It takes longer than planned, and ends.
        await eventually_async(lambda: scrub_of(broker).counters.passes, 300)
        assert read_bytes(broker) >= total


@pytest.mark.parametrize("place", [0, 3, 6])
async def test_damage_is_recorded_as_any_reader_records_it(tmp_path: Path, place: int) -> None:
    disk = MemoryDisk()
    async with running(tmp_path, disk) as broker:
        async with connected(broker) as client:
            await fill(client, broker, 7)
            for number in range(3):
                await client.send(message(1_000 + number, size=2_000))
        info = segments(broker)[place]
        middle = info.bytes * 3 // 4
        disk.names[path_of(broker, info)].content[middle] ^= 1
        await asyncio.sleep(PLANNED_SECONDS)
        (damage,) = broker.log.stored.damaged
        assert info.base < damage.begin <= info.base + middle < damage.end <= info.end
        assert "the message log is corrupted" in broker.registration.refuse_sends()
        _, stats = await get_json(broker, "/stats")
        assert [found["begin"] for found in stats["log"]["damaged"]] == [damage.begin]
        _, page = await get_page(broker, "/metrics")
        assert 'qmq_broker_damaged_ranges{broker_group="g1"} 1.0' in page.decode()
        assert 'qmq_broker_scrub_found_ranges_total{broker_group="g1"} 1.0' in page.decode()
        # The next pass names nothing again.
        await asyncio.sleep(PLANNED_SECONDS)
        assert len(broker.log.stored.damaged) == 1
    # The next start knows it without a pass.
    async with running(tmp_path, disk, scrub_bytes_per_second=0) as broker:
        assert broker.log.stored.damaged == (damage,)


async def test_what_the_disk_can_not_read_is_found_and_sends_continue(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with running(tmp_path, disk) as broker:
        async with connected(broker) as client:
            await fill(client, broker, 4)
        path = path_of(broker, segments(broker)[2])
        for _ in range(2):
            disk.break_pages(path, 30_000, 30_001)
            await asyncio.sleep(PLANNED_SECONDS + 1)
            assert broker.replication.damaged_ranges == 1
            # It may be readable later.
            assert broker.log.stored.damaged == ()
            assert not broker.registration.refuse_sends()
        assert scrub_of(broker).counters.found == 2, "once in each pass"
        disk.unreadable_pages.clear()
        await asyncio.sleep(PLANNED_SECONDS + 1)
        assert broker.replication.damaged_ranges == 0


async def test_progress_lasts_over_restarts(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with running(tmp_path, disk) as broker:
        async with connected(broker) as client:
            total = await fill(client, broker, 8)
        await asyncio.sleep(PLANNED_SECONDS / 2)
        first = read_bytes(broker)
    assert 0.4 * total < first < 0.6 * total
    async with running(tmp_path, disk) as broker:
        await asyncio.sleep(10)
        report = scrub_of(broker).report()
        assert report is not None
        assert report.pass_seconds > PLANNED_SECONDS / 2
        await asyncio.sleep(PLANNED_SECONDS / 2 + 20)
        assert scrub_of(broker).counters.passes == 1
        # At most the segment that was being read is read again, and the next pass has begun.
        assert total - first <= read_bytes(broker) <= total - first + 2 * SEGMENT_BYTES


async def test_a_kill_repeats_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "SAVE_SECONDS", 60.0)
    disk = MemoryDisk()
    async with running(tmp_path, disk) as broker:
        async with connected(broker) as client:
            total = await fill(client, broker, 8)
        await asyncio.sleep(PLANNED_SECONDS / 2)
        first, left = read_bytes(broker), disk.after_power_cut()
    async with running(tmp_path, left) as broker:
        await asyncio.sleep(PLANNED_SECONDS / 2 + 30)
        assert scrub_of(broker).counters.passes == 1
        a_minute = total * 60 / PLANNED_SECONDS
        assert total - first <= read_bytes(broker) <= total - first + a_minute + 3 * SEGMENT_BYTES


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b'{"began_at_ms": -1}'])
async def test_progress_that_can_not_be_read_begins_again(tmp_path: Path, content: bytes) -> None:
    disk = MemoryDisk()
    async with running(tmp_path, disk) as broker:
        async with connected(broker) as client:
            total = await fill(client, broker, 4)
        await asyncio.sleep(PLANNED_SECONDS / 2)
        path = f"{broker.options.data_dir}/scrub"
    disk.names[path].content[:] = content
    async with running(tmp_path, disk) as broker:
        await asyncio.sleep(PLANNED_SECONDS + 10)
        assert scrub_of(broker).counters.passes == 1
        assert read_bytes(broker) >= total


async def test_segments_that_retention_removes_while_they_are_read_are_no_damage(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with running(tmp_path, disk, retention_bytes=6 * SEGMENT_BYTES, checkpoint_seconds=1.0) as broker:
        async with connected(broker) as client:
            await fill(client, broker, 6)
            began = broker.log.begin
            for number in range(120):
                # Faster than it is read.
                await client.send(*(message(1000 + 10 * number + i, size=2_000) for i in range(4)))
                await asyncio.sleep(5)
        assert broker.log.begin > began + 6 * SEGMENT_BYTES
        counters = scrub_of(broker).counters
        assert counters.read_bytes > 3 * SEGMENT_BYTES
        assert (counters.found, broker.log.stored.damaged) == (0, ())
        assert broker.supervisor.failing() == {}


async def test_what_is_written_while_it_is_read_is_read_in_the_same_pass_once_it_is_sealed(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with running(tmp_path, disk) as broker, connected(broker) as client:
        await asyncio.sleep(PLANNED_SECONDS / 2)
        assert read_bytes(broker) == 0
        total = await fill(client, broker, 4)
        await asyncio.sleep(PLANNED_SECONDS / 2 + 10)
        assert scrub_of(broker).counters.passes == 1
        assert read_bytes(broker) >= total


async def test_it_can_be_off(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with running(tmp_path, disk, scrub_bytes_per_second=0) as broker:
        assert broker.replication.scrubbing.scrub is None
        assert "scrub" not in {job.name for job in broker.supervisor.status()}
        _, page = await get_page(broker, "/metrics")
        assert "scrub" not in page.decode()
        _, stats = await get_json(broker, "/stats")
        assert stats["replication"]["scrub"] is None
