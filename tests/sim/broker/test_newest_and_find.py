"""A broker's pages of messages newest first, and messages found by their IDs alone; over its admin port."""

from pathlib import Path
from typing import Any

import pytest

from broker_node.admin import find, newest, search
from broker_node.storage.consume_log import ENTRY
from qmq.node_admin import NodeRefused
from qmq_node.log import stored as stored_segments
from tests.sim.broker.admin import asked, sequences
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.in_process import message
from tests.support.manual_clock import ManualClock

START_MS = 1_700_000_000_000


# --- newest first ---------------------------------------------------------------------------------------------------


async def test_pages_go_back_from_the_newest_message_and_each_comes_once(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, client, admin):
        await client.send(*(message(n) for n in range(10)))
        page = await admin.newest_messages("orders", limit=4)
        assert (sequences(page), page["next_sequence"]) == ([9, 8, 7, 6], 6)
        assert (page["begin_sequence"], page["end_sequence"]) == (0, 10)
        await client.send(message(10))
        page = await admin.newest_messages("orders", until_sequence=6, limit=4)
        assert (sequences(page), page["next_sequence"]) == ([5, 4, 3, 2], 2)
        page = await admin.newest_messages("orders", until_sequence=2, limit=4)
        assert (sequences(page), page["next_sequence"]) == ([1, 0], None)
        assert sequences(await admin.newest_messages("orders", until_sequence=0)) == []
        assert sequences(await admin.newest_messages("orders", until_sequence=10**15, limit=1)) == [10]


async def test_pages_go_back_from_a_time(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    async with asked(tmp_path, clock=clock) as (_, client, admin):
        for n in range(5):
            await client.send(message(n))
            clock.advance(1)
        assert sequences(await admin.newest_messages("orders", to_time=START_MS + 3000)) == [2, 1, 0]
        assert sequences(await admin.newest_messages("orders", to_time=START_MS)) == []
        assert sequences(await admin.newest_messages("orders", to_time=START_MS + 60_000, until_sequence=1)) == [0]


async def test_a_page_has_the_newest_messages_that_fit_and_at_least_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (newest, search):
        monkeypatch.setattr(module, "FOUND_BYTES_MAX", 5_000)
    async with asked(tmp_path) as (_, client, admin):
        await client.send(*(message(n, size=size) for n, size in enumerate([10, 9000, 2000, 2000, 2000, 10])))
        seen: list[list[int]] = []
        until: int | None = None
        while not seen or until is not None:
            page = await admin.newest_messages("orders", until_sequence=until)
            seen.append(sequences(page))
            until = page["next_sequence"]
        assert seen == [[5, 4, 3], [2], [1], [0]]


async def test_wrong_sizes_in_the_index_lose_no_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all were small: the messages that an answer has no room for are the older ones."""
    monkeypatch.setattr(search, "FOUND_BYTES_MAX", 5_000)
    async with asked(tmp_path) as (_, client, admin):
        await client.send(*(message(n, size=2_000) for n in range(5)))
        page = await admin.newest_messages("orders")
        assert (sequences(page), page["next_sequence"]) == ([4], 4)
        assert sequences(await admin.newest_messages("orders", until_sequence=4)) == [3, 2]


async def test_a_page_reads_no_more_of_a_large_subject_than_of_a_small_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanned: list[tuple[int, int]] = []
    scan = newest.scan

    async def counted(store: Any, subject: Any, criteria: Any, begin: int, end: int, **limits: int) -> Any:
        scanned.append((begin, end))
        return await scan(store, subject, criteria, begin, end, **limits)

    monkeypatch.setattr(newest, "scan", counted)
    async with asked(tmp_path) as (_, client, admin):
        for begin in range(0, 3000, 500):
            await client.send(*(message(n) for n in range(begin, begin + 500)))
        await admin.newest_messages("orders", limit=10)
        assert scanned == [(2990, 3000)]


# --- found by their IDs alone ---------------------------------------------------------------------------------------


def places(page: dict[str, Any]) -> list[tuple[str, int]]:
    return [(item["subject"], item["sequence"]) for item in page["messages"]]


async def test_a_message_is_found_in_its_window_whatever_its_subject(tmp_path: Path) -> None:
    clock = ManualClock(START_MS)
    async with asked(tmp_path, clock=clock) as (_, client, admin):
        for n in range(30):
            await client.send(message(n, f"s{n % 7}"))
            clock.advance(1)
        await client.send(message(11, "late"))
        found = await admin.find("m11", START_MS + 10_000, START_MS + 13_000)
        assert (places(found), found["next_offset"], found["progress"]) == ([("s4", 1)], None, 1.0)
        assert found["messages"][0]["stored_at_ms"] == START_MS + 11_000
        assert places(await admin.find("m11", START_MS, START_MS + 11_000)) == [], "the end is excluded"
        assert places(await admin.find("m11", START_MS + 12_000, START_MS + 60_000)) == [("late", 0)]
        assert places(await admin.find("m1", START_MS, START_MS + 60_000)) == [("s1", 0)], "not a part of an ID"


async def test_a_search_of_the_log_ends_at_its_limit_and_goes_on_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "FIND_BYTES_MAX", 2_000)
    monkeypatch.setattr(find, "FIND_SLICE_BYTES", 1_000)
    clock = ManualClock(START_MS)
    async with asked(tmp_path, clock=clock) as (_, client, admin):
        for n in range(20):
            await client.send(message(n, size=300))
            clock.advance(1)
        offset, progress, found = None, [0.0], []
        while not found or offset is not None:
            page = await admin.find("m15", START_MS, START_MS + 20_000, offset=offset)
            offset, found = page["next_offset"], [*found, *places(page)]
            progress.append(page["progress"])
            assert page["scanned_bytes"] < 4_000
        assert found == [("orders", 15)]
        assert progress == sorted(progress)
        assert len(progress) > 4


async def test_the_window_is_found_without_reading_what_is_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments are passed over by their first record, and the rest by bisection."""
    monkeypatch.setattr(find, "BISECTED_BYTES", 4_096)
    monkeypatch.setattr(stored_segments, "PIECE_BYTES", 4_096)
    clock = ManualClock(START_MS)
    async with asked(tmp_path, clock=clock, segment_bytes=4 << 20) as (_, client, admin):
        for n in range(60):
            await client.send(*(message(n, size=30_000) for _ in range(3)))
            clock.advance(1)
        found = await admin.find("m50", START_MS + 49_500, START_MS + 52_000)
        assert places(found) == [("orders", 150), ("orders", 151), ("orders", 152)]
        assert found["scanned_bytes"] < 500_000
        found = await admin.find("m3", START_MS + 49_500, START_MS + 52_000)
        assert (places(found), found["next_offset"]) == ([], None)


async def test_a_damaged_part_of_the_log_is_passed_over(tmp_path: Path) -> None:
    clock, disk = ManualClock(START_MS), MemoryDisk()
    async with asked(tmp_path, clock=clock, disk=disk) as (broker, client, admin):
        for n in range(5):
            await client.send(message(n))
            clock.advance(1)
        entry = broker.store.subjects["orders"].consume_log.read(2, 3)
        file = disk.open(broker.log.stored.files.path(0), writable=True)
        file.pwritev([b"\xff\xff"], ENTRY.unpack(entry)[0])
        assert places(await admin.find("m4", START_MS, START_MS + 9_000)) == [("orders", 4)]
        assert places(await admin.find("m2", START_MS, START_MS + 9_000)) == []


@pytest.mark.parametrize(
    "path",
    [
        "/subjects/orders/messages?order=best",
        "/subjects/orders/messages?order=newest&sequence=1",
        "/subjects/orders/messages?order=newest&message_id=m1",
        "/subjects/orders/messages?until_sequence=1",
        f"/messages?message_id=m1&from_time={START_MS}&to_time={START_MS}",
        f"/messages?message_id=m1&from_time={START_MS}&to_time={START_MS + 10**9}",
        f"/messages?message_id=m1&from_time={START_MS}&to_time={START_MS + 1}&offset=-1",
    ],
)
async def test_requests_that_make_no_sense_are_refused(tmp_path: Path, path: str) -> None:
    async with asked(tmp_path) as (_, client, admin):
        await client.send(message(0))
        with pytest.raises(NodeRefused) as caught:
            await admin._get(path, {})
        assert (caught.value.status, caught.value.code) == (400, "parameter.wrong")
