"""Damage of the log that a reader meets: marked, visible, kept over restarts; only the damaged commit is withheld."""

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from broker_node.broker import Broker
from tests.support.in_process import Client, connected, message, running_broker
from tests.support.memory_disk import MemoryDisk

SENDS = 20
PER_SEND = 5


def flip(broker: Broker, disk: MemoryDisk, sequence: int) -> int:
    """Flip a bit of a stored message; its log offset."""
    (entry,) = broker.store.subjects["orders"].consume_log.entries(sequence, sequence + 1)
    info = broker.log.segment_holding(entry.log_offset)
    assert info is not None
    path = f"{broker.options.data_dir}/log/{info.base:020d}"
    disk.names[path].content[entry.log_offset - info.base + entry.size // 2] ^= 1
    return entry.log_offset


async def send_all(client: Client) -> None:
    await client.begin()
    for n in range(SENDS):
        await client.send(*(message(n * PER_SEND + i, size=200) for i in range(PER_SEND)))


async def page(broker: Broker, path: str) -> tuple[int, Any]:
    host, port = broker.admin.address
    async with aiohttp.ClientSession() as session, session.get(f"http://{host}:{port}{path}") as answer:
        return answer.status, await (answer.json() if path != "/metrics" else answer.text())


async def check_visible(broker: Broker, lost: int, commits: list[tuple[int, int]]) -> None:
    """The damage is on all pages."""
    assert [(found.begin, found.end) for found in broker.log.damaged] == commits
    assert "the log is damaged" in broker.refuse_sends()
    _, stats = await page(broker, "/stats")
    assert (stats["state"], len(stats["log"]["damaged"])) == ("read_only", len(commits))
    (subject,) = stats["subjects"]
    assert (subject["withheld"], subject["groups"][0]["withheld"]) == (lost, lost)
    _, metrics = await page(broker, "/metrics")
    assert f'qmq_broker_subject_withheld_messages{{broker_group="g1",subject="orders"}} {lost}.0' in metrics
    # A supervisor that restarts what is not healthy must leave the node alone, and clients are served.
    assert (await page(broker, "/healthz"))[0] == 200
    status, ready = await page(broker, "/readyz")
    assert (status, "damaged" in ready["read_only"]) == (200, True)


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
        ((begin, end),) = commits = [(damage.begin, damage.end) for damage in broker.log.damaged]
        assert begin < offset < end
        assert end - begin < 4096, "more than the commit is marked"
        await check_visible(broker, lost, commits)
        assert await client.ack(0, len(found) - 1) == 0
    async with running_broker(tmp_path, disk=disk) as broker:
        await check_visible(broker, lost, commits)


async def test_a_place_that_the_disk_cannot_read_is_no_damage(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with running_broker(tmp_path, disk=disk) as broker, connected(broker) as client:
        await send_all(client)
        (entry,) = broker.store.subjects["orders"].consume_log.entries(52, 53)
        path = f"{broker.options.data_dir}/log/{0:020d}"
        disk.break_pages(path, entry.log_offset, entry.log_offset + entry.size)
        # An entry that is wrong makes the broker walk over the unreadable place.
        index = broker.store.subjects["orders"].consume_log.index
        index.repair(60, bytes(len(index.read(60, 61))))
        last, rounds = -1, 0
        while rounds < 10:
            begin, got = await client.pull(last=last)
            last, rounds = begin + len(got) - 1 if got else last, rounds + 1
        assert broker.log.damaged == ()
        assert len(broker.store.message_log.unreadable) > 0
