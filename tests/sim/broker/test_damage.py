"""Damage of the log that a reader meets: marked, visible, kept over restarts; only the damaged commit is withheld."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker_node.broker import Broker
from broker_node.storage.consume_log import ENTRY_BYTES
from qmq.errors import QmqError
from qmq.protocol.codes import Command
from qmq.protocol.extensions import LeaveGroupRequest
from spark_analytics.source.node_reader import NodeReader
from tests.sim.broker.admin import admin_of
from tests.sim.world.blocking import interleave_jobs, sleep
from tests.sim.world.loop import running_loop
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.in_process import Client, blocking, connected, get_json, get_page, message, running_broker
from tests.support.drivers.indexes import read_entries
from tests.support.waiting import eventually_async

SENDS = 20
PER_SEND = 5
FLIPPED = 52


def flip(broker: Broker, disk: MemoryDisk, sequence: int) -> int:
    """Flip a bit of a stored message; its log offset."""
    (entry,) = read_entries(broker.store.subjects["orders"].consume_log, sequence, sequence + 1)
    info = broker.log.stored.files.holding(entry.log_offset)
    assert info is not None
    path = f"{broker.options.data_dir}/log/{info.base:020d}"
    disk.names[path].content[entry.log_offset - info.base + entry.size // 2] ^= 1
    return entry.log_offset


async def send_all(client: Client) -> None:
    await client.begin()
    for n in range(SENDS):
        await client.send(*(message(n * PER_SEND + i, size=200) for i in range(PER_SEND)))


async def page(broker: Broker, path: str) -> tuple[int, Any]:
    if path == "/metrics":
        status, body = await get_page(broker, path)
        return status, body.decode()
    return await get_json(broker, path)


async def check_visible(broker: Broker, lost: int, commits: list[tuple[int, int]]) -> None:
    """The damage is on all pages."""
    assert [(found.begin, found.end) for found in broker.log.stored.damaged] == commits
    assert "the message log is corrupted" in broker.registration.refuse_sends()
    _, stats = await page(broker, "/stats")
    assert (stats["state"], len(stats["log"]["damaged"])) == ("read_only", len(commits))
    subject = next(item for item in stats["subjects"] if item["subject"] == "orders")
    assert (subject["withheld"], subject["groups"][0]["withheld"]) == (lost, lost)
    _, metrics = await page(broker, "/metrics")
    assert f'qmq_broker_subject_withheld_messages{{broker_group="g1",subject="orders"}} {lost}.0' in metrics
    # A supervisor that restarts what is not healthy must leave the node alone, and clients are served.
    assert (await page(broker, "/healthz"))[0] == 200
    status, ready = await page(broker, "/readyz")
    assert (status, "corrupted" in ready["read_only"]) == (200, True)


@pytest.mark.parametrize("flipped", [0, 52, SENDS * PER_SEND - 1])
async def test_damage_that_a_pull_meets_is_marked_counted_and_found_again_after_a_restart(
    tmp_path: Path, flipped: int
) -> None:
    disk = MemoryDisk()
    async with running_broker(tmp_path, disk=disk) as broker, connected(broker) as client:
        await send_all(client)
        offset = flip(broker, disk, flipped)
        found: list[str] = []
        while got := (await client.pull(last=len(found) - 1))[1]:
            found += got
        whole = [f"m{n}" for n in range(SENDS * PER_SEND) if n // PER_SEND != flipped // PER_SEND]
        assert set(whole) <= set(found)
        lost = SENDS * PER_SEND - len(found)
        assert f"m{flipped}" not in found
        ((begin, end),) = commits = [(damage.begin, damage.end) for damage in broker.log.stored.damaged]
        assert begin < offset < end
        assert end - begin < 4096, "more than the commit is marked"
        await check_visible(broker, lost, commits)
        assert await client.ack(0, len(found) - 1) == 0
    async with running_broker(tmp_path, disk=disk) as broker:
        await check_visible(broker, lost, commits)


async def bulk_read(broker: Broker, ask: Callable[[NodeReader], Any]) -> None:
    def work() -> None:
        with NodeReader("{}:{}".format(*broker.server.address)) as reader:
            list(ask(reader))

    await blocking(work)


async def read_messages(broker: Broker, client: Client) -> None:
    await bulk_read(broker, lambda reader: reader.messages("orders", 0, SENDS * PER_SEND))


async def read_index(broker: Broker, client: Client) -> None:
    broker.store.subjects["orders"].consume_log.repair(FLIPPED, bytes(ENTRY_BYTES))
    await bulk_read(broker, lambda reader: reader.index("orders", 0, SENDS * PER_SEND))


async def browse(broker: Broker, client: Client) -> None:
    status, answer = await page(broker, "/subjects/orders/messages?limit=100")
    assert (status, len(answer["messages"])) == (200, SENDS * PER_SEND)


async def search(broker: Broker, client: Client) -> None:
    answer = await admin_of(broker).search("orders", filters=["number=7"])
    assert [item["message_id"] for item in answer["messages"]] == ["m7"]
    assert (answer["scanned"], answer["unreadable"]) == (SENDS * PER_SEND, 1)


async def find_by_id(broker: Broker, client: Client) -> None:
    status, answer = await page(broker, "/subjects/orders/messages?message_id=m70")
    assert (status, [item["sequence"] for item in answer["messages"]]) == (200, [70])


async def trace(broker: Broker, client: Client) -> None:
    status, answer = await page(broker, f"/subjects/orders/messages/{FLIPPED}/trace")
    assert (status, answer["message"]["withheld"]) == (200, True)


async def copy_to_the_retry_subject(broker: Broker, client: Client) -> None:
    assert (await client.raw(Command.LEAVE_GROUP, LeaveGroupRequest("orders", "g", "c1").encode())).code == 0
    retries = "%RETRY%orders%g"
    await eventually_async(lambda: retries in broker.store.subjects and broker.log.stored.damaged != ())
    await eventually_async(lambda: broker.store.subjects[retries].visible_end == SENDS * PER_SEND - 1)


READERS = (read_messages, read_index, browse, search, find_by_id, trace, copy_to_the_retry_subject)


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
async def test_damage_is_recorded_in_the_same_way_whichever_reader_meets_it(
    tmp_path: Path, read: Callable[[Broker, Client], Awaitable[None]]
) -> None:
    disk = MemoryDisk()
    async with running_broker(tmp_path, disk=disk) as broker, connected(broker) as client:
        await send_all(client)
        assert len((await client.pull(limit=SENDS * PER_SEND))[1]) == SENDS * PER_SEND
        offset = flip(broker, disk, FLIPPED)
        for _ in range(2):
            await read(broker, client)
            ((begin, end),) = commits = [(damage.begin, damage.end) for damage in broker.log.stored.damaged]
            assert begin < offset < end
            assert end - begin < 4096, "more than the commit is marked"
            await check_visible(broker, 1, commits)
            if read is copy_to_the_retry_subject:
                break
    async with running_broker(tmp_path, disk=disk) as broker:
        await check_visible(broker, 1, commits)


async def test_damage_is_recorded_although_the_consumer_disconnects_during_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = MemoryDisk()
    async with running_broker(tmp_path, disk=disk, scrub_bytes_per_second=0) as broker:
        loop, walk = running_loop(), broker.log.stored.walk
        interleave_jobs()
        begun_at: list[float] = []

        def slow(*args: Any, **settings: Any) -> Any:
            begun_at.append(loop.time())
            assert loop.is_in_thread
            sleep(60)
            return walk(*args, **settings)

        async with connected(broker) as client:
            await send_all(client)
            flip(broker, disk, FLIPPED)
            monkeypatch.setattr(broker.log.stored, "walk", slow)
            pull = asyncio.ensure_future(client.pull(limit=SENDS * PER_SEND))
            await eventually_async(lambda: bool(begun_at))
        with pytest.raises(QmqError):
            await pull
        await eventually_async(lambda: not broker.server.connections)
        assert broker.log.stored.damaged == ()
        await asyncio.sleep(begun_at[0] + 59.9 - loop.time())
        assert broker.log.stored.damaged == ()
        await asyncio.sleep(0.2)
        assert broker.log.stored.damaged != ()
        assert broker.store.subjects["orders"].withheld_count == 1


async def test_damage_beside_entries_that_are_repaired_is_recorded(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with running_broker(tmp_path, disk=disk) as broker, connected(broker) as client:
        await client.begin()
        await client.send(message(0, "other", size=200))
        await client.send(message(1, size=200))
        (entry,) = read_entries(broker.store.subjects["other"].consume_log, 0, 1)
        path = f"{broker.options.data_dir}/log/{0:020d}"
        disk.names[path].content[entry.log_offset + entry.size // 2] ^= 1
        broker.store.subjects["orders"].consume_log.repair(0, bytes(ENTRY_BYTES))
        assert (await client.pull())[1] == ["m1"], "the entry is repaired from the log"
        ((begin, end),) = [(damage.begin, damage.end) for damage in broker.log.stored.damaged]
        assert begin < entry.log_offset < end
        assert "the message log is corrupted" in broker.registration.refuse_sends()


async def test_a_bulk_read_of_much_damage_repairs_a_part_in_each_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_node.reads.index_repair.REPAIR_ENTRIES_MAX", 128)
    disk, count = MemoryDisk(), 400
    async with running_broker(tmp_path, disk=disk, read_bytes_per_second=0) as broker, connected(broker) as client:
        await client.begin()
        for n in range(0, count, 50):
            await client.send(*(message(n + i) for i in range(50)))
        for sequence in range(count):
            if sequence not in (0, count - 1):
                flip(broker, disk, sequence)
        walks, walk = [], broker.log.stored.walk

        def counted(*args: Any, **settings: Any) -> Any:
            walks.append(args[0])
            return walk(*args, **settings)

        monkeypatch.setattr(broker.log.stored, "walk", counted)
        seen: list[int] = []

        def ask(reader: NodeReader) -> Any:
            for answer in reader.messages("orders", 0, count):
                seen.append(len(answer.entries) // ENTRY_BYTES)
                yield answer

        await bulk_read(broker, ask)
        assert sum(seen) == count
        assert len(walks) == len(seen) > 2, "one repair for each answer"
        assert broker.store.subjects["orders"].withheld_count == count - 2


async def test_a_place_that_the_disk_cannot_read_is_no_damage(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with running_broker(tmp_path, disk=disk) as broker, connected(broker) as client:
        await send_all(client)
        (entry,) = read_entries(broker.store.subjects["orders"].consume_log, 52, 53)
        path = f"{broker.options.data_dir}/log/{0:020d}"
        disk.break_pages(path, entry.log_offset, entry.log_offset + entry.size)
        # An entry that is wrong makes the broker walk over the unreadable place.
        index = broker.store.subjects["orders"].consume_log
        index.repair(60, bytes(len(index.read(60, 61))))
        last, rounds = -1, 0
        while rounds < 10:
            begin, got = await client.pull(last=last)
            last, rounds = begin + len(got) - 1 if got else last, rounds + 1
        assert broker.log.stored.damaged == ()
        assert len(broker.store.message_log.unreadable) > 0
