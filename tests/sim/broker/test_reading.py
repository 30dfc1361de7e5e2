"""Reads in bulk from a broker: what they give is what is stored, acked and synced, no more and no less."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from broker_node.broker import Broker
from broker_node.retention.subject_retention import LOOK_SECONDS
from broker_node.storage.actions import Ack, RecordKind
from broker_node.storage.consume_log import ENTRY, Entry
from broker_node.storage.progress_log import PROGRESS_ENTRY, consumer_key, is_whole
from qmq.errors import ReadRefused
from qmq.protocol import bulk_read
from qmq.protocol.bulk_read import ListRangesRequest, RangesPage, ReadRequest
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import TagFilter
from qmq.protocol.extensions import LeaveGroupRequest, Refusal
from qmq.protocol.messages import decode_raw
from qmq_node.log.index import DenseIndex
from qmq_node.log.unreadable_pages import PAGE_BYTES, RETRY_SECONDS_MAX
from spark_analytics.source.node_reader import NodeReader
from tests.sim.broker.reading import ranges, read
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.in_process import (
    connected,
    files_in,
    message,
    remove_files,
    run_jobs,
    running_broker,
    write_file,
)
from tests.support.drivers.indexes import read_entries
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async


async def index(broker: Broker, subject: str, begin: int, end: int, **settings: object) -> list[Entry]:
    pages = await read(broker, lambda r: list(r.index(subject, begin, end)), **settings)
    return [Entry(*entry) for page in pages for entry in ENTRY.iter_unpack(page.data)]


async def progress(broker: Broker, group: str = "g", subject: str = "orders") -> list[tuple[int, ...]]:
    """(kind, pull begin, pull end, next sequence) of a whole history."""
    pages = await read(broker, lambda r: list(r.progress(subject, group, 0, 1 << 40)))
    rows = [row for page in pages for row in PROGRESS_ENTRY.iter_unpack(page.data)]
    return [(kind, begin, end, next_sequence) for _, _, begin, end, next_sequence, kind, _ in rows]


async def test_index_and_messages_are_what_was_sent(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        for n in range(0, 300, 3):
            await client.send(message(n, tags=("a",)), message(n + 1, "other"), message(n + 2, size=1000))
        stored = broker.store.subjects["orders"].consume_log
        whole = await index(broker, "orders", 0, 10_000, bytes_max=32 * 7)
        assert whole == read_entries(stored, 0, 200)
        assert await index(broker, "orders", 11, 13) == whole[11:13]
        assert await index(broker, "orders", 200, 300) == []
        pages = await read(broker, lambda r: list(r.messages("orders", 3, 10_000)), bytes_max=10_000)
        assert len(pages) > 10
        assert [page.first for page in pages[:1]] == [3]
        found = []
        for page in pages:
            at = 0
            for entry in map(Entry._make, ENTRY.iter_unpack(page.entries)):
                found.append(decode_raw(page.raws[at : at + entry.size])[0].message_id)
                at += entry.size
            assert at == len(page.raws)
        assert found == [f"m{n}" for n in range(300) if n % 3 != 1][3:]
        assert broker.bulk_reads.counters.reads["read_index"] > 28


async def test_ranges_tell_what_is_there_and_what_lies_in_a_time(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock, read_bytes_per_second=0) as broker, connected(broker) as client:
        times = []
        for n in range(6):
            times.append(clock.wall_ms())
            await client.send(message(n), message(100 + n, "other"))
            if n == 0:
                await client.begin()
            await client.pull(limit=1, last=n - 1)
            clock.advance(10)
        await client.ack(0, 3)
        found = await ranges(broker)
        assert list(found) == ["orders", "other"]
        orders = found["orders"]
        assert (orders.begin, orders.end, orders.range_begin, orders.range_end) == (0, 6, 0, 6)
        (group,) = orders.groups
        assert (group.name, group.broadcast, group.next_sequence, group.begin, group.end) == ("g", False, 6, 0, 8)
        assert group.consumers == ((consumer_key("c1"), "c1"),)
        some = (await ranges(broker, times[2], times[4]))["orders"]
        assert (some.begin, some.end, some.range_begin, some.range_end) == (0, 6, 2, 4)
        assert (some.groups[0].range_begin, some.groups[0].range_end) == (3, 5)
        later = (await ranges(broker, times[5] + 1))["orders"]
        assert (later.range_begin, later.range_end) == (6, 6)
        assert (later.groups[0].range_begin, later.groups[0].range_end) == (7, 8)
        earlier = (await ranges(broker, -1, times[0]))["other"]
        assert (earlier.range_begin, earlier.range_end, earlier.groups) == (0, 0, ())


async def test_a_history_is_read_behind_a_page_that_the_disk_can_not_read(tmp_path: Path) -> None:
    clock, disk = ManualClock(), MemoryDisk()
    async with (
        running_broker(tmp_path, clock=clock, disk=disk, read_bytes_per_second=0) as broker,
        connected(broker) as client,
    ):
        await client.begin()
        await client.send(*(message(n) for n in range(300)))
        times = []
        for n in range(300):
            clock.advance(1)
            times.append(clock.wall_ms())
            await client.pull(limit=1, last=n - 1)
        await broker.checkpoints.finish()
        whole = await progress(broker)
        (path,) = [path for path in disk.names if path.startswith(f"{broker.options.data_dir}/progress/")]
        for page in (1, 0):
            disk.break_pages(path, page * PAGE_BYTES, page * PAGE_BYTES + 1)
            hole = range(page * PAGE_BYTES // 48, -(-(page + 1) * PAGE_BYTES // 48))
            clock.advance(RETRY_SECONDS_MAX)
            for _ in range(3):
                pages = await read(broker, lambda r: list(r.progress("orders", "g", 0, 1 << 40)))
                found = b"".join(page.data for page in pages)
                holes = [n for n in range(len(whole)) if not is_whole(found, n * 48)]
                assert holes == [n for n in hole if n < len(whole)]
                assert [row for n, row in enumerate(await progress(broker)) if n not in hole] == [
                    row for n, row in enumerate(whole) if n not in hole
                ]
            disk.unreadable_pages.clear()
        clock.advance(RETRY_SECONDS_MAX)
        disk.break_pages(path, 0, 1)
        (group,) = (await ranges(broker, times[200], times[250]))["orders"].groups
        assert (group.range_begin, group.range_end, group.began_at_ms) == (201, 251, -1)
        disk.unreadable_pages.clear()
        clock.advance(RETRY_SECONDS_MAX)
        assert await progress(broker) == whole
        assert (await ranges(broker))["orders"].groups[0].began_at_ms >= 0


async def test_an_index_page_that_the_disk_can_not_read_is_repaired_by_a_read_of_it(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with running_broker(tmp_path, disk=disk, read_bytes_per_second=0) as broker, connected(broker) as client:
        for begin in range(0, 2000, 100):
            await client.send(*(message(n) for n in range(begin, begin + 100)))
        await broker.checkpoints.finish()
        whole = await index(broker, "orders", 0, 2000)
        (path,) = [path for path in disk.names if path.startswith(f"{broker.options.data_dir}/consume/")]
        disk.break_pages(path, 0, 10 * PAGE_BYTES)
        assert await index(broker, "orders", 0, 2000) == whole
        assert len(disk.unreadable_pages) == 0
        disk.break_pages(path, 3 * PAGE_BYTES, 4 * PAGE_BYTES)
        pages = await read(broker, lambda r: list(r.messages("orders", 0, 2000)))
        assert b"".join(page.entries for page in pages) == b"".join(ENTRY.pack(*entry) for entry in whole)
        disk.break_pages(path, PAGE_BYTES, PAGE_BYTES + 1)
        disk.is_worn_out = True
        for _ in range(3):
            found = await index(broker, "orders", 0, 2000)
            assert found[:128] + found[256:] == whole[:128] + whole[256:]
            assert [entry.size for entry in found[128:256]] == [0] * 128


async def test_ranges_come_in_pages_that_split_subjects_with_many_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_node.reads.bulk_read.PAGE_BYTES", 1500)
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        for n in range(9):
            await client.send(message(n, f"s{n}"))
        for group in range(20):
            await client.begin("s4", f"g{group:02}")
        pages = await read(broker, lambda r: list(r.range_pages()))
        assert len(pages) == 4
        assert all(len(page.encode()) < 4000 for page in pages)
        assert "s4/g" in "".join(page.next_after for page in pages)
        found = await read(broker, lambda r: list(r.ranges()))
        assert [subject.name for subject in found] == [f"s{n}" for n in range(9)]
        assert [group.name for group in found[4].groups] == [f"g{n:02}" for n in range(20)]
        one = (await client.raw(Command.LIST_RANGES, ListRangesRequest(limit=1, after="s2").encode())).body
        page = RangesPage.decode(one)
        assert ([subject.name for subject in page.subjects], page.next_after) == (["s3"], "s3")


async def test_a_hole_that_retention_made_is_seen(tmp_path: Path) -> None:
    clock = ManualClock()
    settings = {
        "segment_bytes": 1 << 20,
        "retention_hours": 1.0,
        "checkpoint_bytes": 1 << 20,
        "read_bytes_per_second": 0,
    }
    async with running_broker(tmp_path, clock=clock, **settings) as broker, connected(broker) as client:
        for n in range(60):
            await client.send(message(n, size=30_000), message(1000 + n, size=30_000))
        clock.advance(2 * 3600)
        await client.send(message(7777))
        # A checkpoint under way may have begun before the last sends: retention needs one behind them.
        await broker.checkpoints.finish()
        await run_jobs(broker)
        pages = await read(broker, lambda r: list(r.index("orders", 0, 121)))
        subject = broker.store.subjects["orders"]
        assert pages[0].first == pages[0].begin == subject.begin > 30
        assert [page.first for page in pages[1:]] == [page.end for page in pages[:-1]]
        assert pages[-1].end == 121
        assert sum(len(page.data) for page in pages) == 32 * (121 - pages[0].first)
        (gone,) = await read(broker, lambda r: list(r.index("orders", 0, 10)))
        assert (gone.first, gone.begin, len(gone.data)) == (10, subject.begin, 0)
        assert (await ranges(broker))["orders"].begin == subject.begin


async def test_retention_in_the_middle_of_a_read_hands_nothing_out_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(*(message(n) for n in range(50)))
        subject = broker.store.subjects["orders"].consume_log
        in_thread, calls = broker.bulk_reads.in_thread, 0

        async def slow(work: Callable[..., bytes], *args: int) -> bytes:
            nonlocal calls
            calls += 1
            found = await in_thread(work, *args)
            if calls == 1:
                subject.hide_before(20)
            return found

        monkeypatch.setattr(broker.bulk_reads, "in_thread", slow)
        (page,) = await read(broker, lambda r: list(r.index("orders", 10, 40)))
        assert (page.first, len(page.data), calls) == (20, 32 * 20, 2)


async def test_nothing_is_read_that_is_not_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client, connected(broker) as other:
        await client.begin()
        await client.send(message(0))
        with monkeypatch.context() as stopped:
            stopped.setattr(broker.committer, "kick", lambda: None)
            stopped.setattr(broker.committer, "_begin", lambda: None)
            pulled = asyncio.create_task(client.pull())
            await eventually_async(lambda: broker.store.subjects["orders"].groups["g"].history.end == 2)
            asked = asyncio.create_task(
                other.raw(Command.READ_PROGRESS, ReadRequest("orders", 0, 10, group="g").encode())
            )
            await asyncio.sleep(5)
            assert broker.committer.waiting >= 2
            assert not asked.done()
            assert not pulled.done()
        broker.committer.kick()
        page = bulk_read.ProgressPage.decode((await asked).body)
        assert (page.end, len(page.data)) == (2, 96)
        assert await pulled == (0, ["m0"])


async def test_a_range_holds_all_that_was_done_before_its_time(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client, connected(broker) as other:
        for n in range(50):
            sent = asyncio.create_task(client.send(message(n)))
            await asyncio.sleep(0)
            page = RangesPage.decode((await other.raw(Command.LIST_RANGES, ListRangesRequest().encode())).body)
            await sent
            if page.subjects:
                entries = await index(broker, "orders", page.subjects[0].end, 1000)
                assert all(entry.stored_at_ms >= page.read_at_ms for entry in entries)


async def test_a_damaged_message_is_withheld_and_the_others_come(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(*(message(n, size=50) for n in range(5)))
        (entry,) = read_entries(broker.store.subjects["orders"].consume_log, 2, 3)
        segment = files_in(tmp_path / "broker" / "log")[0]
    write_file(segment, b"\xff\xfe", at=entry.log_offset + 40)
    async with running_broker(tmp_path) as broker:
        (page,) = await read(broker, lambda r: list(r.messages("orders", 0, 5)))
        sizes = [Entry(*row).size for row in ENTRY.iter_unpack(page.entries)]
        assert sizes[2] == 0
        assert sum(sizes) == len(page.raws) > 0
        assert all(sizes[n] for n in (0, 1, 3, 4))


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda r: list(r.index("nothing", 0, 1)), bulk_read.UNKNOWN_SUBJECT),
        (lambda r: list(r.messages("nothing", 0, 1)), bulk_read.UNKNOWN_SUBJECT),
        (lambda r: list(r.progress("orders", "nobody", 0, 1)), bulk_read.UNKNOWN_GROUP),
        (lambda r: list(r.index("orders", -1, 1)), bulk_read.WRONG_RANGE),
        (lambda r: r.call(Command.READ_INDEX, ReadRequest("orders", 5, 4).encode()), bulk_read.WRONG_RANGE),
    ],
)
async def test_what_is_not_there_is_said(tmp_path: Path, ask: Callable[[NodeReader], object], code: str) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(message(0))
        with pytest.raises(ReadRefused) as refused:
            await read(broker, ask)
        assert refused.value.code == code
        assert broker.bulk_reads.counters.refused[code] == 1


async def test_a_token_is_asked_of_every_read(tmp_path: Path) -> None:
    async with running_broker(tmp_path, read_token="secret") as broker, connected(broker) as client:
        await client.begin()
        await client.send(message(0))
        for ask in (
            lambda r: list(r.ranges()), lambda r: list(r.index("orders", 0, 1)),
            lambda r: list(r.progress("orders", "g", 0, 1)), lambda r: list(r.messages("orders", 0, 1)),
        ):  # fmt: skip
            with pytest.raises(ReadRefused) as refused:
                await read(broker, ask, token="guess")
            assert refused.value.code == bulk_read.FORBIDDEN
            assert await read(broker, ask, token="secret")
        frame = await client.raw(Command.LIST_RANGES, b"")
        assert frame.code == ResponseCode.BROKER_ERROR
        assert Refusal.decode((await client.raw(Command.LIST_RANGES, b"\0\0")).body).code == bulk_read.FORBIDDEN


async def test_reads_go_on_while_the_index_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that follows producers gets each message once, over memory, file and the change between them."""
    monkeypatch.setattr("broker_node.recovery.checkpoint.TAILS_BYTES_MAX", 0)
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(message(0))

        def follow(reader: NodeReader) -> list[int]:
            found: list[int] = []
            while len(found) < 2001:
                for page in reader.index("orders", len(found), 2001):
                    assert page.first == len(found)
                    found += [row[0] for row in ENTRY.iter_unpack(page.data)]
            return found

        following = asyncio.create_task(read(broker, follow, bytes_max=32 * 64))
        for n in range(100):
            await client.send(*(message(1 + n * 20 + m) for m in range(20)))
            if n % 3 == 0:
                await broker.checkpoints.finish()
        offsets = await following
        assert offsets == [
            entry.log_offset for entry in read_entries(broker.store.subjects["orders"].consume_log, 0, 2001)
        ]


async def test_a_history_tells_who_took_which_messages_and_who_said_they_are_done(tmp_path: Path) -> None:
    tags = dict.fromkeys((1, 2, 5), ("t",))
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(*(message(n, tags=tags.get(n, ())) for n in range(8)))
        assert await client.pull(filters=(TagFilter(1, ("t",)),)) == (0, ["m1", "m2", "m5"])
        await client.send(*(message(n) for n in range(8, 12)))
        assert await client.pull(last=2) == (3, [f"m{n}" for n in range(8, 12)])
        await client.ack(0, 0)
        await client.ack(3, 4)
        await client.raw(Command.LEAVE_GROUP, LeaveGroupRequest("orders", "g", "c1").encode())
        expected = [
            (RecordKind.START, 0, 0, 0),
            (RecordKind.PULL, 0, 2, 3),
            (RecordKind.PULL, 2, 3, 6),
            (RecordKind.PULL, 3, 3, 8),
            (RecordKind.PULL, 3, 7, 12),
            (RecordKind.ACK, 0, 1, 12),
            (RecordKind.SETTLE, 1, 3, 12),
            (RecordKind.ACK, 3, 5, 12),
            (RecordKind.SETTLE, 5, 7, 12),
            (RecordKind.OFFLINE, 0, 0, 12),
        ]
        assert await progress(broker) == expected
        assert (broker.delivery.counters.acked, broker.delivery.counters.settled) == (3, 4)
        assert await client.pull("%RETRY%orders%g") == (0, ["m2", "m5", "m10", "m11"])
    for made_again in (False, True):
        if made_again:
            remove_files(tmp_path / "broker" / "checkpoint")
        async with running_broker(tmp_path) as broker:
            assert broker.data.recovery.rebuilt is made_again
            assert await progress(broker) == expected


async def test_an_ack_beyond_all_that_was_pulled_settles_and_acks_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(message(0), message(1))
        await client.pull()
        await client.ack(7, 9)
        assert [row[:3] for row in await progress(broker)][2:] == [(RecordKind.SETTLE, 0, 2)]
        assert await client.pull("%RETRY%orders%g") == (0, ["m0", "m1"])
        assert broker.delivery.counters.acked == 0


async def test_a_log_of_before_settlements_is_read_as_acks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_node.delivery.settlement.Settle", Ack)
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(*(message(n) for n in range(4)))
        await client.pull()
        await client.ack(2, 2)
    remove_files(tmp_path / "broker" / "checkpoint")
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        assert broker.data.recovery.rebuilt
        assert [row[:3] for row in await progress(broker)][2:] == [(RecordKind.ACK, 0, 2), (RecordKind.ACK, 2, 3)]
        assert await client.pull() == (3, ["m3"])
        assert await client.pull("%RETRY%orders%g") == (0, ["m0", "m1"])


async def test_old_files_of_a_history_go_when_no_checkpoint_counts_on_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_node.recovery.checkpoint.TAILS_BYTES_MAX", 0)
    monkeypatch.setattr(
        "broker_node.storage.subject_table.DenseIndex", partial(DenseIndex, segment_entries=10), raising=True
    )
    clock = ManualClock()

    async with (
        running_broker(tmp_path, clock=clock, retention_hours=1.0, read_bytes_per_second=0) as broker,
        connected(broker) as client,
    ):

        def files() -> int:
            return len(files_in(f"{broker.options.data_dir}/progress", broker.disk))

        await client.begin()
        await client.send(*(message(n) for n in range(40)))
        for n in range(24):
            await client.pull(limit=1, last=n - 1)
        await broker.checkpoints.finish()
        clock.advance(2 * 3600)
        await client.pull(limit=1, last=23)
        group = broker.store.subjects["orders"].groups["g"]
        await broker.checkpoints.finish()
        history, n = group.history, 24
        clock.advance(LOOK_SECONDS)
        await broker.data.history_retention.tick()
        assert (history.begin, broker.store.counters.expired_history_entries) == (20, 20)
        assert files() == 3, "two files of ten are old, and a crash may need them"
        await client.pull(limit=1, last=n)
        await broker.checkpoints.finish()
        assert files() == 1
        n += 1
        left = list(range(20, n + 2))
        assert [row[3] for row in await progress(broker)] == left
        (told,) = (await ranges(broker))["orders"].groups
        assert (told.begin, told.end) == (20, n + 2)
    async with running_broker(tmp_path, clock=clock, read_bytes_per_second=0) as broker, connected(broker) as client:
        assert not broker.data.recovery.rebuilt
        assert [row[3] for row in await progress(broker)] == left
        assert await client.pull(limit=1, last=n) == (n + 1, [f"m{n + 1}"])


async def test_a_group_that_is_made_again_soon_has_its_end_in_its_history(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(message(0), message(1))
        await client.pull(limit=1)
        subject = broker.store.subjects["orders"]
        broker.store.forget_group(subject, subject.groups["g"])
        broker.committer.kick()
        await client.begin()
        expected = [
            (RecordKind.START, 0, 0, 0),
            (RecordKind.PULL, 0, 1, 1),
            (RecordKind.FORGET, 0, 0, -1),
            (RecordKind.START, 0, 0, 0),
        ]
        assert (await progress(broker))[:4] == expected
    remove_files(tmp_path / "broker" / "checkpoint")
    async with running_broker(tmp_path) as broker:
        assert broker.data.recovery.rebuilt
        assert (await progress(broker))[:4] == expected


async def test_consumers_that_left_last_are_still_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_node.storage.subject.DEPARTED_MAX", 2)
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(message(0))
        for consumer in ("c1", "c2", "c3", "c2", "c4"):
            await client.pull(consumer=consumer)
            await client.raw(Command.LEAVE_GROUP, LeaveGroupRequest("orders", "g", consumer).encode())
            await client.send(message(0))
        await client.pull(consumer="c5")
        (group,) = (await ranges(broker))["orders"].groups
        assert group.consumers == tuple((consumer_key(name), name) for name in ("c2", "c4", "c5"))


async def test_the_groups_of_one_subject_can_be_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker_node.reads.bulk_read.PAGE_BYTES", 1)
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock, read_bytes_per_second=0) as broker, connected(broker) as client:
        for subject in ("a", "orders", "orders2"):
            for group in ("g", "h"):
                await client.begin(subject, group)
        clock.advance(5)
        await client.begin("orders", "i")
        late = clock.wall_ms()
        groups = await read(broker, lambda reader: list(reader.groups("orders", from_ms=late)))
        assert [(group.name, group.range_begin, group.end) for group in groups] == [
            ("g", 1, 1),
            ("h", 1, 1),
            ("i", 0, 1),
        ]
        assert await read(broker, lambda reader: list(reader.groups("order", from_ms=late))) == []


async def test_a_history_that_is_another_one_can_be_told(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock, read_bytes_per_second=0) as broker, connected(broker) as client:
        begun = clock.wall_ms()
        await client.begin()
        await client.send(message(0))
        clock.advance(5)
        await client.pull()
        (group,) = (await ranges(broker))["orders"].groups
        assert (group.begin, group.end, group.began_at_ms) == (0, 2, begun)
        subject = broker.store.subjects["orders"]
        broker.store.forget_group(subject, subject.groups["g"])
        broker.committer.kick()
        await broker.checkpoints.finish()
        await client.begin()
        (group,) = (await ranges(broker))["orders"].groups
        assert (group.begin, group.end, group.began_at_ms) == (0, 1, begun + 5000)


async def test_ranges_report_the_id_of_the_log(tmp_path: Path) -> None:
    async def log_id(folder: Path) -> str:
        async with running_broker(folder, read_bytes_per_second=0) as broker:
            (page,) = await read(broker, lambda r: list(r.range_pages()))
            return page.log_id

    first = await log_id(tmp_path / "a")
    assert first
    assert await log_id(tmp_path / "a") == first, "a restart keeps it"
    assert await log_id(tmp_path / "b") != first, "an empty folder gets another one"
