"""What the event loop must not wait for: disk operations that are forbidden on its thread."""

import asyncio
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from broker_node.admin import metrics, pages, stats
from broker_node.delivery import pulls
from broker_node.storage.subject import Subject
from qmq.protocol.codes import ResponseCode
from qmq_node.log.index import IndexView
from qmq_node.log.stored import StoredSegments
from tests.sim.world.disk import only_in_threads
from tests.sim.world.loop import running_loop
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.in_process import connected, get_json, get_page, message, running_broker
from tests.support.drivers.indexes import flush, read_entries
from tests.support.drivers.peers import Peers
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async


async def answer_of(peers: Peers, path: str) -> bytes:
    """The answer of an admin page, with its head."""
    reader, _ = await peers.connect(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    return await reader.read()


class Turns:
    """Counts the calls of a module's function in each turn of the event loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> None:
        self.calls: list[int] = []
        self._is_new = True
        self._function = getattr(module, name)
        monkeypatch.setattr(module, name, self._count)

    def _count(self, *arguments: Any) -> Any:
        if self._is_new:
            self._is_new = False
            self.calls.append(0)
            asyncio.get_running_loop().call_soon(self._end)
        self.calls[-1] += 1
        return self._function(*arguments)

    def _end(self) -> None:
        self._is_new = True


async def test_a_message_is_found_by_its_id_without_reading_on_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = MemoryDisk()
    async with running_broker(tmp_path, disk=disk) as broker, connected(broker) as client:
        await client.send(*(message(n) for n in range(50)), message(7))
        path = "/subjects/orders/messages?message_id=m7"
        disk.observe = only_in_threads("/log/", "read")
        _, found = await get_json(broker, path)
        assert [m["sequence"] for m in found["messages"]] == [7, 50]
        assert found["next_sequence"] is None
        monkeypatch.setattr(pages, "ID_SCAN_MESSAGES_MAX", 40)
        _, found = await get_json(broker, path)
        assert ([m["sequence"] for m in found["messages"]], found["next_sequence"]) == ([7], 40)
        _, found = await get_json(broker, f"{path}&sequence=40")
        assert ([m["sequence"] for m in found["messages"]], found["next_sequence"]) == ([50], None)


@pytest.mark.parametrize(
    "path",
    [
        "/stats",
        "/stats?subject=orders",
        "/subjects/orders/messages",
        "/subjects/orders/messages?from_time=1",
        "/subjects/orders/messages/1/trace",
        "/subjects/orders/messages/9/trace",
        "/subjects/orders/groups/g",
        "/subjects/orders/groups/g/reset-preview?to=time&value=1",
    ],
)
async def test_pages_read_index_files_and_messages_in_threads_only(tmp_path: Path, path: str) -> None:
    disk = MemoryDisk()
    async with running_broker(tmp_path, disk=disk) as broker, connected(broker) as client:
        await client.send(*(message(n) for n in range(20)))
        await client.begin(start="earliest")
        await client.pull(limit=5)
        subject = broker.store.subjects["orders"]
        for index in (subject.consume_log, subject.groups["g"].history):
            flush(index)
        disk.observe = only_in_threads("/", "read")
        status, found = await get_json(broker, path)
        assert (status, "can't be read" in str(found)) == (200, False)


async def test_retention_deletes_segments_in_a_thread(tmp_path: Path) -> None:
    clock, disk = ManualClock(), MemoryDisk()
    settings = {"segment_bytes": 1 << 20, "retention_hours": 1.0, "checkpoint_bytes": 1 << 30}
    async with running_broker(tmp_path, clock=clock, disk=disk, **settings) as broker, connected(broker) as client:
        for number in range(60):
            await client.send(message(2 * number, size=30_000), message(2 * number + 1, size=30_000))
            if number % 20 == 19:
                await broker.checkpoints.finish()
        clock.advance(2 * 3600)
        await client.send(message(999))
        disk.observe = only_in_threads("/log", "remove", "sync_dir")
        folder = f"{broker.options.data_dir}/log/"
        files = [path for path in disk.names if path.startswith(folder)]
        broker.serving._retain()
        begin = broker.store.log.begin
        assert begin >= 2 << 20
        await eventually_async(lambda: broker.store.log.stored.hidden_segments == 0)
        left = sorted(path for path in disk.names if path.startswith(folder))
        assert left == sorted(path for path in files if int(path.removeprefix(folder)) >= begin)


async def test_a_damaged_page_of_an_index_is_made_again_by_one_walk_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, walks, in_threads = MemoryDisk(), [], []
    walk = StoredSegments.walk

    def counted(self, begin, *arguments, **more):  # type: ignore[no-untyped-def]
        walks.append(begin)
        in_threads.append(running_loop().is_in_thread)
        return walk(self, begin, *arguments, **more)

    monkeypatch.setattr(StoredSegments, "walk", counted)
    async with running_broker(tmp_path, disk=disk) as broker, connected(broker) as client:
        await client.begin()
        for begin in range(0, 400, 100):
            await client.send(*(message(n) for n in range(begin, begin + 100)))
        subject = broker.store.subjects["orders"]
        index = subject.consume_log
        right = index.read(0, 400)
        for sequence in range(128, 256):
            index.repair(sequence, bytes(32))
        # Less than the page is asked for, and another pull asks for the rest of it.
        got = [await client.pull(limit=150, last=-1), await client.pull(limit=300, last=149)]
        assert [item for _, batch in got for item in batch] == [f"m{n}" for n in range(400)]
        assert len(walks) == 1
        assert in_threads == [True]
        assert index.read(0, 400) == right
        assert broker.store.counters.repaired_entries == 128


@pytest.mark.parametrize("is_worn_out", [False, True])
async def test_an_unreadable_page_of_an_index_is_synced_and_read_back_in_a_thread(
    tmp_path: Path, is_worn_out: bool
) -> None:
    disk = MemoryDisk()
    async with running_broker(tmp_path, disk=disk) as broker, connected(broker) as client:
        await client.begin()
        for begin in range(0, 400, 100):
            await client.send(*(message(n) for n in range(begin, begin + 100)))
        await broker.checkpoints.finish()
        (path,) = [path for path in disk.names if path.startswith(f"{broker.options.data_dir}/consume/")]
        disk.break_pages(path, 4096, 4097)
        disk.is_worn_out = is_worn_out
        disk.observe = only_in_threads("/consume/", "sync")
        got: list[str] = []
        for _ in range(8):
            got += (await client.pull(limit=50, last=len(got) - 1))[1]
        assert got == [f"m{n}" for n in range(400) if not is_worn_out or not 128 <= n < 256]
        assert broker.handlers.counters.bad_requests == {}
        assert len(broker.store.handles.unreadable) == is_worn_out
        pages = (
            f'qmq_broker_unreadable_index_pages{{broker_group="{broker.options.broker_group}"}} {float(is_worn_out)}'
        )
        assert pages in (await get_page(broker, "/metrics"))[1].decode()


async def test_messages_that_the_log_lost_are_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, walks = MemoryDisk(), []
    walk = StoredSegments.walk

    def counted(self, begin, *arguments, **more):  # type: ignore[no-untyped-def]
        walks.append(begin)
        return walk(self, begin, *arguments, **more)

    monkeypatch.setattr(StoredSegments, "walk", counted)
    async with running_broker(tmp_path, disk=disk) as broker, connected(broker) as client:
        for number in range(10):
            await client.send(message(number))
        (entry,) = read_entries(broker.store.subjects["orders"].consume_log, 4, 5)
        (path,) = [p for p in disk.names if p.startswith(f"{broker.options.data_dir}/log/") and p.endswith("0" * 20)]
        disk.names[path].content[entry.log_offset + 20] ^= 1
        for group in ("a", "b", "c"):
            await client.begin(group=group)
            assert (await client.pull(group=group))[1] == [f"m{n}" for n in range(10) if n != 4]
        assert len(walks) == 1
        assert broker.store.withheld == {("orders", 4)}
        assert broker.store.counters.withheld_messages == 1


async def test_stats_of_many_subjects_are_read_in_slices_and_only_where_there_is_a_lag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []
    turns, stored_at_ms = Turns(monkeypatch, stats, "lag_of"), stats.stored_at_ms

    def read(view: IndexView, sequence: int) -> int | None:
        reads.append(running_loop().is_in_thread)
        return stored_at_ms(view, sequence)

    monkeypatch.setattr(stats, "stored_at_ms", read)
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        for number in range(90):
            await client.send(message(number, f"s{number:02}"), message(number, f"s{number:02}"))
            await client.begin(f"s{number:02}", start="earliest" if number < 3 else "latest")
        _, found = await get_json(broker, "/stats")
        assert [item["subject"] for item in found["subjects"]] == [f"s{n:02}" for n in range(90)]
        lags = [item["groups"][0]["time_lag_seconds"] for item in found["subjects"]]
        assert [lag is not None and lag >= 0 for lag in lags[:3]] == [True] * 3
        assert max(turns.calls) <= stats.PACE_UNITS // 2
        assert sum(turns.calls) == 90
        assert reads == [True] * 3


async def test_metrics_of_many_subjects_are_read_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(monkeypatch, metrics, "lag_of")
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        for number in range(120):
            await client.begin(f"s{number}")
        async with Peers(broker.admin.address) as peers:
            text = await answer_of(peers, "/metrics")
        assert text.count(b"\nqmq_broker_backlog_messages{") == 120
        assert (max(turns.calls), sum(turns.calls)) == (metrics.PACE_UNITS // 2, 120)


@pytest.mark.parametrize(("path", "module", "name"), [("/metrics", metrics, "lag_of"), ("/stats", stats, "lag_of")])
async def test_requests_at_the_same_time_are_answered_with_one_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, module: ModuleType, name: str
) -> None:
    turns = Turns(monkeypatch, module, name)
    # By this clock no page becomes too old for a further request.
    async with running_broker(tmp_path, clock=ManualClock()) as broker, connected(broker) as client:
        for number in range(3):
            await client.begin(f"s{number}")
        async with Peers(broker.admin.address) as peers:
            answers = await asyncio.gather(*(answer_of(peers, path) for _ in range(4)))
        assert [answer[:12] for answer in answers] == [b"HTTP/1.1 200"] * 4
        assert sum(turns.calls) == 3, "subjects of one page"


async def test_so_many_pulls_read_from_the_disk_at_a_time_and_the_others_get_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulls, "COLD_READS_MAX", 2)
    disk = MemoryDisk()
    async with running_broker(tmp_path, disk=disk) as broker, connected(broker) as client:
        for group in "abcd":
            await client.begin(group=group)
        await client.send(*(message(n) for n in range(5)))
        disk.chill(f"{broker.options.data_dir}/log/")
        with monkeypatch.context() as patch:
            # All pulls arrive while the first ones read: each read takes a second, and leaves nothing in the cache.
            patch.setattr(disk, "is_cached", lambda *_: False)
            patch.setattr(disk, "observe", lambda operation, path: running_loop().block(operation == "read"))
            got = await asyncio.gather(*(client.pull(group=group) for group in "abcd"))
        assert [len(messages) for _, messages in got] == [5, 5, 0, 0]
        assert broker.handlers.counters.cold_pulls == 4
        assert [len((await client.pull(group=group))[1]) for group in "cd"] == [5, 5]


async def test_a_pull_that_reads_from_the_disk_gets_nothing_when_its_consumer_has_left_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = MemoryDisk()
    async with running_broker(tmp_path, disk=disk) as broker, connected(broker) as client:
        await client.begin()
        await client.send(*(message(n) for n in range(5)))
        disk.chill(f"{broker.options.data_dir}/log/")
        with monkeypatch.context() as patch:
            patch.setattr(disk, "observe", lambda operation, path: running_loop().block(operation == "read"))
            pulled, left = await asyncio.gather(client.pull(consumer="c1"), client.leave("c1"))
        assert broker.handlers.counters.cold_pulls == 1
        assert left.code == ResponseCode.SUCCESS
        assert pulled == (-1, [])
        assert (await client.pull(consumer="c2"))[1] == [f"m{n}" for n in range(5)]


async def test_waiting_pulls_whose_message_is_on_the_disk_are_answered_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulls, "COLD_READS_MAX", 1)
    disk = MemoryDisk()
    async with running_broker(tmp_path, disk=disk) as broker, connected(broker) as client:
        await client.begin()
        waiting = [asyncio.ensure_future(client.pull(consumer=f"c{n}", limit=1, timeout_ms=20_000)) for n in range(4)]
        await eventually_async(lambda: broker.handlers.polls.held == 4)
        synced = broker.handlers.synced

        def chilled(touched: list[Subject]) -> None:
            disk.chill(f"{broker.options.data_dir}/log/")
            synced(touched)

        monkeypatch.setattr(broker.handlers, "synced", chilled)
        await client.send(*(message(n) for n in range(3)))
        await eventually_async(lambda: broker.handlers.polls.held == 1)
        got = [await pull for pull in waiting[:3]]
        assert [messages for _, messages in got] == [["m0"], ["m1"], ["m2"]]
        assert broker.handlers.polls.held == 1
        waiting[3].cancel()
