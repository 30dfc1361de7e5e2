"""Reads in bulk from a delay node and the metaserver: the schedule hour by hour, and who there is."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

from delay_node import hour_reader
from delay_node.schedule_log import INDEX
from metaserver.options import MetaOptions
from metaserver.server import Metaserver
from qmq.errors import ReadRefused, Unreachable
from qmq.protocol import bulk_read
from qmq.protocol.bulk_read import SCHEDULE_STATES, ReadScheduleRequest, SchedulePage
from qmq.protocol.delayed import DelayedTarget, ListDelayedRequest, Operation
from qmq.protocol.messages import decode_raw
from qmq_testing.repository import MemoryRepository
from spark_analytics.source.node_reader import NodeReader, find_nodes, metaserver_address
from tests.support.drivers.in_process import (
    SmallSystem,
    blocking,
    connected,
    delayed,
    files_in,
    machine,
    now_ms,
    read_file,
    small_system,
    write_file,
)
from tests.support.waiting import eventually_async

T = TypeVar("T")
HOUR_MS = 3_600_000


async def read(system: SmallSystem, ask: Callable[[NodeReader], T], **settings: object) -> T:
    """What a reader of the delay node gets; executors of Spark read like this, with a blocking client."""

    def work() -> T:
        with NodeReader("{}:{}".format(*system.delay.server.address), **settings) as reader:  # type: ignore[arg-type]
            return ask(reader)

    return await blocking(work)


def rows(pages: list[SchedulePage]) -> list[tuple[int, int, str]]:
    """(due, subject number, state) of each message."""
    found: list[tuple[int, int, str]] = []
    for page in pages:
        index = np.frombuffer(page.entries, dtype=INDEX)
        states = [str(SCHEDULE_STATES[state]) for state in bytes(page.states)]
        found += zip(index["due"].tolist(), index["subject"].tolist(), states, strict=True)
    return found


def ids(pages: list[SchedulePage]) -> list[str]:
    """The messages' ids; "" for one that can't be had."""
    found = []
    for page in pages:
        at = 0
        for size in np.frombuffer(page.sizes, dtype=">u4").tolist():
            found.append(decode_raw(page.raws[at : at + size])[0].message_id if size else "")
            at += size
        assert at == len(page.raws)
    return found


async def test_hours_and_their_messages_are_what_was_scheduled(tmp_path: Path) -> None:
    hour = now_ms() // HOUR_MS + 5
    begin = hour * HOUR_MS
    async with small_system(tmp_path) as system, connected(system.delay) as client:
        for n in range(0, 60, 3):
            await client.send(
                delayed(n, begin + n),
                delayed(n + 1, begin + HOUR_MS, "other"),
                delayed(n + 2, begin + n, padding="x" * 2000),
            )
        await client.change(Operation.CANCEL, DelayedTarget("m3", "orders", begin + 3))
        hours, names = await read(system, lambda r: r.hours())
        assert [(h.hour, h.count, h.pending, h.refused) for h in hours] == [(hour, 40, 39, 0), (hour + 1, 20, 20, 0)]
        assert hours[0].data_bytes > 20 * 2000
        assert sorted(names) == ["orders", "other"]
        pages = await read(system, lambda r: list(r.schedule(hour, 0, 1000)), bytes_max=33 * 7)
        assert [page.first for page in pages] == list(range(0, 40, 7))
        assert all(not page.raws and not page.sizes for page in pages)
        sent = [(n, due) for n in range(0, 60, 3) for n, due in ((n, begin + n), (n + 2, begin + n))]
        states = ["cancelled" if n == 3 else "pending" for n, _ in sent]
        orders = names.index("orders")
        assert rows(pages) == [(due, orders, state) for (_, due), state in zip(sent, states, strict=True)]
        bodies = await read(system, lambda r: list(r.schedule(hour, 5, 33, with_data=True)), bytes_max=9_000)
        assert len(bodies) > 3
        assert ids(bodies) == [f"m{n}" for n, _ in sent[5:33]]
        assert rows(bodies) == rows(pages)[5:33]
        last = await read(system, lambda r: list(r.schedule(hour, 39, 50, with_data=True)))
        assert ids(last) == ["m59"]
    async with small_system(tmp_path) as system:
        assert rows(await read(system, lambda r: list(r.schedule(hour, 0, 1000)))) == rows(pages)
        assert system.delay.bulk_reads.counters.reads["read_schedule"] >= 1


async def test_hours_and_names_come_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("delay_node.bulk_read.NAMES_BYTES", 20)
    monkeypatch.setattr("qmq.protocol.bulk_read.HOURS_PAGE_MAX", 4)
    first = now_ms() // HOUR_MS + 5
    async with small_system(tmp_path) as system, connected(system.delay) as client:
        for n in range(10):
            await client.send(delayed(n, (first + n) * HOUR_MS, f"subject-{n}"))
        hours, names = await read(system, lambda r: r.hours())
        assert [hour.hour for hour in hours] == list(range(first, first + 10))
        assert names == [f"subject-{n}" for n in range(10)]


def body_of(data: str, number: int) -> int:
    """A place in the body of one of six messages of equal size."""
    return len(read_file(data)) // 6 * number + 60


def damage(path: str, offset: int) -> None:
    """Flip a bit of a file."""
    write_file(path, bytes([read_file(path)[offset] ^ 1]), at=offset)


async def test_a_damaged_body_or_entry_is_left_out_and_the_others_come(tmp_path: Path) -> None:
    hour = now_ms() // HOUR_MS + 5
    async with small_system(tmp_path) as system, connected(system.delay) as client:
        await client.send(*(delayed(n, hour * HOUR_MS + n, padding="x" * 100) for n in range(6)))
    data, index = files_in(tmp_path / "d1" / "schedule")
    damage(data, body_of(data, 2))
    damage(index, 32 * 4 + 3)
    async with small_system(tmp_path) as system:
        pages = await read(system, lambda r: list(r.schedule(hour, 0, 6, with_data=True)))
        assert ids(pages) == ["m0", "m1", "", "m3", "", "m5"]
        assert [state for _, _, state in rows(pages)] == ["pending"] * 4 + ["lost", "pending"]
        for _ in range(2):
            assert system.delay.serving.describe()["unreadable_messages"] == 2, "the body and the entry, each once"
            await read(system, lambda r: list(r.schedule(hour, 0, 6, with_data=True)))


async def test_a_damaged_body_that_a_query_reads_is_counted_once(tmp_path: Path) -> None:
    hour = now_ms() // HOUR_MS + 5
    async with small_system(tmp_path) as system, connected(system.delay) as client:
        await client.send(*(delayed(n, hour * HOUR_MS + n, padding="x" * 100) for n in range(6)))
    data, _ = files_in(tmp_path / "d1" / "schedule")
    damage(data, body_of(data, 2))
    async with small_system(tmp_path) as system, connected(system.delay) as client:
        for _ in range(2):
            page = await client.listed(ListDelayedRequest("orders", hour * HOUR_MS, (hour + 1) * HOUR_MS))
            assert [item.message.message_id for item in page.items] == ["m0", "m1", "m3", "m4", "m5"]
            assert system.delay.serving.describe()["unreadable_messages"] == 1


async def test_so_many_damaged_messages_are_remembered_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hour_reader, "DAMAGED_MAX", 2)
    hour = now_ms() // HOUR_MS + 5
    async with small_system(tmp_path) as system, connected(system.delay) as client:
        await client.send(*(delayed(n, hour * HOUR_MS + n, padding="x" * 100) for n in range(6)))
    data, _ = files_in(tmp_path / "d1" / "schedule")
    for n in range(4):
        damage(data, body_of(data, n))
    async with small_system(tmp_path) as system, connected(system.delay) as client:
        page = await client.listed(ListDelayedRequest("orders", hour * HOUR_MS, (hour + 1) * HOUR_MS))
        assert [item.message.message_id for item in page.items] == ["m4", "m5"]
        assert system.delay.serving.describe()["unreadable_messages"] == 2


@pytest.mark.parametrize(
    ("ask", "code"),
    [
        (lambda r: list(r.schedule(7, 0, 1)), bulk_read.UNKNOWN_HOUR),
        (lambda r: list(r.schedule(7, -1, 1)), bulk_read.WRONG_RANGE),
        (lambda r: list(r.index("orders", 0, 1)), "reading.unsupported"),
    ],
)
async def test_what_is_not_there_is_said(tmp_path: Path, ask: Callable[[NodeReader], object], code: str) -> None:
    async with small_system(tmp_path) as system:
        with pytest.raises(ReadRefused) as refused:
            await read(system, ask)
        assert refused.value.code == code


async def test_a_token_is_asked_of_every_read(tmp_path: Path) -> None:
    async with small_system(tmp_path, read_token="secret") as system:
        for ask in (lambda r: r.hours(), lambda r: list(r.schedule(7, 0, 1))):
            with pytest.raises(ReadRefused) as refused:
                await read(system, ask, token="guess")
            assert refused.value.code == bulk_read.FORBIDDEN
        assert await read(system, lambda r: r.hours(), token="secret") == ([], [])


async def test_states_leave_once_they_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hour = now_ms() // HOUR_MS + 5
    async with small_system(tmp_path) as system, connected(system.delay) as client, connected(system.delay) as other:
        await client.send(delayed(0, hour * HOUR_MS))
        await client.find("m0", "orders", hour * HOUR_MS)
        committer = system.delay.committer
        monkeypatch.setattr(committer, "kick", lambda: None)
        monkeypatch.setattr(committer, "_begin", lambda: None)
        change = asyncio.create_task(client.change(Operation.CANCEL, DelayedTarget("m0", "orders", hour * HOUR_MS)))
        await eventually_async(lambda: committer.waiting == 1)
        asked = asyncio.create_task(other.raw(214, ReadScheduleRequest(hour, 0, 1).encode()))
        await eventually_async(lambda: committer.waiting == 2)
        assert not asked.done()
        monkeypatch.undo()
        committer.kick()
        assert rows([SchedulePage.decode((await asked).body)])[0][2] == "cancelled"
        await change


async def test_the_metaserver_lists_its_nodes(tmp_path: Path) -> None:
    async with small_system(tmp_path, groups=2) as system:
        before = now_ms()
        await eventually_async(lambda: len(system.meta.directory.nodes) == 3)
        page = await blocking(lambda: find_nodes(system.meta_url))
        assert [(n.broker_group, n.node_id, n.kind, n.role, n.state) for n in page.nodes] == [
            ("d1", "d1-a", "delay", "master", "read_write"),
            ("g1", "g1-a", "broker", "master", "read_write"),
            ("g2", "g2-a", "broker", "master", "read_write"),
        ]
        for node, running in zip(page.nodes, [system.delay, *system.brokers.values()], strict=True):
            assert node.address == "{}:{}".format(*running.server.address)
            assert node.admin_address == "{}:{}".format(*running.admin.address)
            assert before - 10_000 < node.seen_at_ms <= page.read_at_ms
            assert (node.epoch, node.log_end >= 0) == (1, True)
        await system.brokers["g2"].close()
        page = await blocking(lambda: find_nodes(system.meta_url))
        assert page.nodes[2].state == "offline"
        again = await blocking(lambda: find_nodes(f"127.0.0.1:1,{system.meta_url}"))
        # When a node was seen is rounded, and heartbeats go on.
        assert [replace(n, seen_at_ms=0) for n in again.nodes] == [replace(n, seen_at_ms=0) for n in page.nodes]
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1:2/meta/address"):
            await blocking(lambda: find_nodes("127.0.0.1:1,127.0.0.1:2"))
        with pytest.raises(ReadRefused, match="LIST_NODES"):
            await read(system, lambda r: r.nodes())


async def test_the_metaserver_asks_for_its_token(tmp_path: Path) -> None:
    options = MetaOptions(data_dir=str(tmp_path), http_port=0, tcp_port=0, read_token="secret", new_groups="allow")
    meta = Metaserver(options, MemoryRepository(), machine())
    await meta.start()
    try:
        url = "{}:{}".format(*meta.admin.address)
        assert await blocking(lambda: metaserver_address(url)) == "{}:{}".format(*meta.server.address)
        with pytest.raises(ReadRefused) as refused:
            await blocking(lambda: find_nodes(url))
        assert refused.value.code == bulk_read.FORBIDDEN
        assert (await blocking(lambda: find_nodes(url, token="secret"))).nodes == ()
    finally:
        await meta.close()
