"""A delay node reads the files of its hours again: what is damaged in them is found with its exact range."""

import asyncio
from pathlib import Path

import pytest

from delay_node.delay_node import DelayNode
from delay_node.hour import Hour
from delay_node.hour_scrub import ScrubbedHours
from delay_node.schedule_log import DISPATCH_BYTES, INDEX_BYTES, hour_name
from qmq_node.repair.ranges import DamagedRange
from qmq_node.repair.scrub import DAY_SECONDS, PLANNED_SHARE, Scrub
from tests.support.disks.memory_disk import PAGE_BYTES, MemoryDisk
from tests.support.drivers.delay_driver import DelayDriver
from tests.support.drivers.in_process import connected, delayed, get_json, get_page, now_ms, small_system

HOUR_MS = 3_600_000
PASS_SECONDS = 105.0
PLANNED_SECONDS = PASS_SECONDS * PLANNED_SHARE


def driven(seed: int) -> DelayDriver:
    """A store with files of some hours."""
    driver = DelayDriver(MemoryDisk(), seed)
    driver.run(120)
    driver.commit()
    driver.checkpoint()
    return driver


def found_in(driver: DelayDriver) -> list[DamagedRange]:
    """What is found in all hours, which are read in the order of their numbers and whole."""
    hours = driver.store.hours
    scrubbed, key, size, found = ScrubbedHours(lambda: hours), 0, 0, []
    while (unit := scrubbed.next_unit(key)) is not None:
        assert unit.key >= key
        key = unit.key + 1
        for step in unit.steps():
            size += step.bytes
            found += [one.damaged for one in step.found]
        assert unit.is_current()
    assert size == scrubbed.bytes_from(0) > 0
    return found


def largest(driver: DelayDriver) -> Hour:
    hour: Hour = max(driver.store.hours.values(), key=lambda hour: hour.dispatch.file.written_end)
    return hour


def flip(driver: DelayDriver, path: str, at: int) -> None:
    driver.disk.names[path].content[at] ^= 0x20


@pytest.mark.parametrize("seed", range(5))
def test_files_that_are_whole_have_no_damage(seed: int) -> None:
    driver = driven(seed)
    assert found_in(driver) == []
    # What is not in the files yet is not read there.
    driver.run(20)
    assert found_in(driver) == []


def test_a_flipped_bit_is_found_with_the_range_of_its_entry() -> None:
    driver = driven(1)
    hour = largest(driver)
    name = hour_name(hour.number)
    index, dispatch, data = hour.schedule.index, hour.dispatch.file, hour.schedule.data
    entries = hour.schedule.read_index(0, 3)
    place, size = int(entries["place"][2]), int(entries["size"][2])
    for file, at, called, begin, end in (
        (index, 5 * INDEX_BYTES + 7, f"schedule/{name}.index", 5 * INDEX_BYTES, 6 * INDEX_BYTES),
        (dispatch, 2 * DISPATCH_BYTES + 9, f"dispatch/{name}", 2 * DISPATCH_BYTES, 3 * DISPATCH_BYTES),
        (data, place + size - 1, f"schedule/{name}.data", place, place + size),
    ):
        flip(driver, file.path(), at)
        (found,) = found_in(driver)
        assert found.place == (called, hour.begins_at, begin, end)
        flip(driver, file.path(), at)
    assert found_in(driver) == []


def test_an_unreadable_page_and_a_lost_file_are_found() -> None:
    driver = driven(2)
    hour = largest(driver)
    data, index = hour.schedule.data, hour.schedule.index
    assert data.written_end > PAGE_BYTES
    driver.disk.break_pages(data.path(), 0, 1)
    found = found_in(driver)
    assert {one.file for one in found} == {f"schedule/{hour_name(hour.number)}.data"}
    assert min(one.begin for one in found) == 0
    assert max(one.end for one in found) >= PAGE_BYTES
    driver.disk.unreadable_pages.clear()
    driver.store.hours.handles.drop(index.path())
    driver.disk.remove(index.path())
    assert (found_in(driver)[0].begin, found_in(driver)[0].end) == (0, index.written_end)


def test_what_the_page_cache_has_does_not_hide_a_page_that_the_disk_has_lost() -> None:
    driver = driven(3)
    path = largest(driver).schedule.data.path()
    driver.disk.is_worn_out = True
    driver.disk.break_pages(path, 0, 1)
    driver.disk.open(path, writable=True).pwritev([bytes(driver.disk.names[path].content[:PAGE_BYTES])], 0)
    assert largest(driver).schedule.data.read(0, 100), "in memory"
    assert found_in(driver)


def test_what_an_ended_hour_has_left_is_no_damage() -> None:
    driver = driven(4)
    hour = largest(driver)
    hours = driver.store.hours
    unit = ScrubbedHours(lambda: hours).next_unit(hour.number)
    assert unit is not None
    steps = unit.steps()
    next(steps)
    hours.forget(hour)
    for file in hour.files:
        driver.disk.remove(file.path())
        hours.handles.drop(file.path())
    assert not unit.is_current()
    assert [one for step in steps for one in step.found], "what is found means nothing"
    # Used again with the same number.
    hours.make(hour.number)
    assert not unit.is_current()


async def test_a_node_finds_what_is_damaged_within_a_pass(tmp_path: Path) -> None:
    async with small_system(tmp_path) as system:
        await system.delay.close()
        delay = await system.start_delay(scrub_days=PASS_SECONDS / DAY_SECONDS, checkpoint_seconds=1.0)
        async with connected(delay) as client:
            first_ms = (now_ms() // HOUR_MS + 3) * HOUR_MS
            for number in range(200):
                due = first_ms + number % 5 * HOUR_MS + number
                assert await client.send(delayed(number, due, data="x" * 500)) == {}
        await asyncio.sleep(10)
        hour = delay.store.hours[first_ms // HOUR_MS + 2]
        path = hour.schedule.data.path()
        assert hour.schedule.data.written_end
        file = delay.disk.open(path, writable=True)
        before = file.pread(1, 700)
        file.pwritev([bytes([before[0] ^ 1])], 700)
        await asyncio.sleep(PLANNED_SECONDS)
        assert scrub_of(delay).counters.passes == 1
        assert scrub_of(delay).counters.read_bytes > 100_000
        (found,) = delay.data.damage.known
        assert (found.file, found.since) == (f"schedule/{hour_name(hour.number)}.data", hour.begins_at)
        assert found.begin <= 700 < found.end
        _, stats = await get_json(delay, "/stats")
        assert stats["replication"]["damaged_ranges"] == 1
        _, page = await get_page(delay, "/metrics")
        assert 'qmq_delay_damaged_ranges{broker_group="d1"} 1.0' in page.decode()


def scrub_of(node: DelayNode) -> Scrub:
    found = node.replication.scrubbing.scrub
    assert found is not None
    return found
