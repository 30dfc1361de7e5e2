"""A full disk: what consumers hold stays with them until there is space, acks and pulls continue, and nothing ends the node."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker_node import serving as broker_module
from broker_node.broker import Broker
from broker_node.delivery.settlement import Holder
from broker_node.storage.actions import StartReason
from qmq.errors import NoSpace
from qmq.protocol.codes import Command, ResponseCode, SendResult
from qmq.protocol.extensions import LeaveGroupRequest
from qmq.protocol.reasons import Code
from qmq_node.commits.write_watch import CHECK_SECONDS, STUCK_SECONDS
from qmq_node.requests import sends
from tests.sim.world.loop import running_loop
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.in_process import Client, connected, message, running_broker
from tests.support.waiting import eventually_async

SIZE = 20_000
PREFETCHED = 40
GROUPS = [f"g{n}" for n in range(12)]


@asynccontextmanager
async def small_broker(folder: Path, disk: MemoryDisk, **settings: Any) -> AsyncIterator[Broker]:
    """A broker whose disk ends after three segments."""
    disk.capacity_bytes = disk.capacity_bytes or 15 << 20
    async with running_broker(
        folder, disk=disk, segment_bytes=4 << 20, disk_reserve_bytes=2 << 20, checkpoint_bytes=1 << 20, **settings
    ) as broker:
        yield broker


async def fill(client: Client) -> int:
    """Send until the broker has no space; the number of messages that were stored."""
    stored = 0
    while not (failures := await client.send(message(stored, size=SIZE))):
        stored += 1
    (failure,) = failures.values()
    assert failure.result == SendResult.STORE_ERROR
    while "no space" not in failure.remark:
        (failure,) = (await client.send(message(stored, size=SIZE))).values()
    return stored


async def leave(client: Client, group: str, consumer: str = "c1") -> int:
    return (await client.raw(Command.LEAVE_GROUP, LeaveGroupRequest("orders", group, consumer).encode())).code


async def all_of(client: Client, subject: str, group: str) -> list[str]:
    found: list[str] = []
    while got := (await client.pull(subject, group, "reader", limit=1000, last=len(found) - 1))[1]:
        found += got
    return found


async def test_consumers_that_leave_a_full_broker_use_no_reserve_and_their_messages_are_retried_later(
    tmp_path: Path,
) -> None:
    disk = MemoryDisk()
    async with small_broker(tmp_path, disk) as broker, connected(broker) as client:
        for group in GROUPS:
            await client.begin(group=group)
        await fill(client)
        assert broker.log.gather.room_bytes > 1 << 20
        for group in GROUPS:
            assert len((await client.pull(group=group, limit=PREFETCHED))[1]) == PREFETCHED
        room = broker.log.gather.room_bytes
        for group in GROUPS:
            assert await leave(client, group) == ResponseCode.SUCCESS
            # The sweep must not use the reserve either.
            await broker.serving.consumer_leases.check()
        assert room - broker.log.gather.room_bytes < 16 << 10, "the messages were copied into the reserve"
        assert len(broker.delivery.settlements.deferred) == len(GROUPS)
        assert {found.holder for found in broker.delivery.settlements.deferred.values()} == {Holder.LEFT}
        # A consumer that comes back gets what it held, in full.
        begin, again = await client.pull(group="g0", limit=PREFETCHED)
        assert (begin, again) == (0, [f"m{n}" for n in range(PREFETCHED)])
        assert ("orders", "g0", "c1") not in broker.delivery.settlements.deferred
        assert await client.ack(0, PREFETCHED - 1, group="g0") == ResponseCode.SUCCESS
        # Others of the group continue behind them.
        assert (await client.pull(group="g1", consumer="c2", limit=1))[1] == [f"m{PREFETCHED}"]
        disk.capacity_bytes = 128 << 20
        await eventually_async(
            lambda: not broker.delivery.settlements.deferred and not broker.delivery.settlements.running, 20
        )
        await eventually_async(
            lambda: all("c1" not in broker.store.subjects["orders"].groups[g].progress.consumers for g in GROUPS[1:]),
            20,
        )
        for group in GROUPS[1:]:
            expected = [f"m{n}" for n in range(PREFETCHED)]
            assert await all_of(client, f"%RETRY%orders%{group}", group) == expected
        assert "%RETRY%orders%g0" not in broker.store.subjects


async def test_acks_that_jump_on_a_full_broker_count_and_what_they_jumped_over_is_retried_later(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with small_broker(tmp_path, disk) as broker, connected(broker) as client:
        await client.begin()
        await fill(client)
        assert len((await client.pull(limit=100))[1]) == 100
        room = broker.log.gather.room_bytes
        assert await client.ack(50, 59) == ResponseCode.SUCCESS
        assert await client.ack(70, 79) == ResponseCode.SUCCESS
        assert room - broker.log.gather.room_bytes < 16 << 10
        log = broker.store.subjects["orders"].groups["g"].progress.consumers["c1"].log
        assert log.held(0, 100) == [(0, 50), (60, 70), (80, 100)]
        assert broker.delivery.settlements.deferred["orders", "g", "c1"].ranges == ((0, 70),)
        # A pull does not change that: the consumer does not ask for them again.
        await client.pull(limit=1, last=99)
        disk.capacity_bytes = 128 << 20
        await eventually_async(
            lambda: not broker.delivery.settlements.deferred and not broker.delivery.settlements.running, 20
        )
        expected = [f"m{n}" for n in (*range(50), *range(60, 70))]
        await eventually_async(lambda: broker.store.subjects["%RETRY%orders%g"].visible_end == len(expected), 20)
        assert await all_of(client, "%RETRY%orders%g", "g") == expected
        assert log.held(0, 100) == [(80, 100)]


async def test_a_settlement_that_meets_the_reserve_on_its_way_stops_there_and_holds_up_no_request(
    tmp_path: Path,
) -> None:
    disk = MemoryDisk()
    async with small_broker(tmp_path, disk) as broker, connected(broker) as client:
        await client.begin()
        stored = 0
        reserve = 2 << 20
        while broker.log.gather.room_bytes > reserve + (1 << 20) or not broker.log.gather.is_out_of_space:
            assert not await client.send(message(stored, size=SIZE))
            stored += 1
            await asyncio.sleep(0)
        assert len((await client.pull(limit=300))[1]) == 300
        assert await leave(client, "g") == ResponseCode.SUCCESS
        assert broker.log.gather.room_bytes >= reserve - (16 << 10)
        assert broker.delivery.settlements.running == {}
        assert broker.delivery.settlements.deferred["orders", "g", "c1"].holder is Holder.LEFT
        disk.capacity_bytes = 128 << 20
        await eventually_async(
            lambda: not broker.delivery.settlements.deferred and not broker.delivery.settlements.running, 20
        )
        await eventually_async(lambda: broker.store.subjects["%RETRY%orders%g"].visible_end == 300, 20)
        assert await all_of(client, "%RETRY%orders%g", "g") == [f"m{n}" for n in range(300)]


async def test_without_any_space_acks_are_refused_and_the_broker_stays_and_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_module, "JOB_SECONDS", 3600.0)
    disk = MemoryDisk()
    async with small_broker(tmp_path, disk) as broker, connected(broker) as client:
        await client.begin()
        await fill(client)
        acked = 0
        begin, got = await client.pull(limit=100)
        assert len(got) == 100
        # Actions use the reserve up.
        subject = broker.store.subjects["orders"]
        for size in (60_000, 10_000, 1_000):
            with pytest.raises(NoSpace):
                for _ in range(1000):
                    broker.store.start_group(subject, "other", "c" * size, 0, False, StartReason.RESET)
                    await broker.committer.drain()
        while acked < 100 and await client.ack(acked, acked) == ResponseCode.SUCCESS:
            acked += 1
        assert acked < 100
        assert broker.handlers.counters.bad_requests["no_space"] > 0
        assert broker.committer.failed is None
        assert broker.readiness() == ""
        # What it holds is still delivered again: that needs no space.
        assert (await client.pull(limit=3, last=begin + acked - 1))[1] == got[acked : acked + 3]
    async with small_broker(tmp_path, disk) as broker, connected(broker) as client:
        assert broker.registration.refuse_sends().startswith("no space"), "known before the first request"
        assert await client.ack(acked, acked) == ResponseCode.BROKER_ERROR
        assert (await client.pull(limit=3, last=acked - 1))[1] == got[acked : acked + 3]
        assert await client.pull(group="new", limit=1) == (-1, [])
        assert broker.committer.failed is None
        disk.capacity_bytes = 128 << 20
        await eventually_async(lambda: not broker.registration.refuse_sends(), 20)
        assert await client.ack(acked, acked) == ResponseCode.SUCCESS


@pytest.mark.parametrize("at_once", [1, 200])
async def test_sends_wait_for_the_next_segment_and_are_not_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(sends, "RESUMED_PER_CONFIRMATION", at_once)
    disk, loop, created_at = MemoryDisk(), running_loop(), []

    def slow(what: str, path: str) -> None:
        if what == "create" and "/log/" in path:
            loop.block(1.0)
            created_at.append(loop.time())

    disk.observe = slow
    async with small_broker(tmp_path, disk) as broker, connected(broker) as client, connected(broker) as other:
        disk.capacity_bytes = 64 << 20
        await client.begin()
        longest = 0.0

        async def send_all(sender: Client, first: int) -> None:
            nonlocal longest
            for number in range(first, first + 400, 10):
                began = loop.time()
                batches = [[message(number + i, size=SIZE)] for i in range(10)]
                answers = await asyncio.gather(*(sender.send(*batch) for batch in batches))
                assert answers == [{}] * 10, "a send was rejected"
                longest = max(longest, loop.time() - began)

        before = len(created_at)
        await asyncio.gather(send_all(client, 0), send_all(other, 1_000))
        assert len(created_at) - before >= 3
        assert 0.5 < longest < STUCK_SECONDS, "no send waited"
        assert not broker.registration.refuse_sends()
        assert broker.handlers.counters.send_failures.total() == 0
        assert len(await all_of(client, "orders", "g")) == 800


async def test_sends_wait_a_limited_time_for_a_segment_that_is_not_created(tmp_path: Path) -> None:
    disk, loop, hold = MemoryDisk(), running_loop(), False

    def hanging(what: str, path: str) -> None:
        if hold and what == "create" and "/log/" in path:
            loop.block(10.0)

    disk.observe = hanging
    async with small_broker(tmp_path, disk) as broker, connected(broker) as client:
        disk.capacity_bytes = 64 << 20
        assert not await client.send(message(0, size=SIZE))
        await eventually_async(lambda: broker.log.gather.prepared_bytes > 0)
        hold, stored = True, 1
        while broker.storage.space.lacks_space().code != Code.NO_SEGMENT:
            assert not await client.send(message(stored, size=SIZE))
            stored += 1
        began = loop.time()
        answers = await asyncio.gather(*(client.send(message(stored + i, size=SIZE)) for i in range(5)))
        assert STUCK_SECONDS - CHECK_SECONDS <= loop.time() - began <= STUCK_SECONDS + 2 * CHECK_SECONDS
        remarks = {failure.remark for failures in answers for failure in failures.values()}
        assert [len(failures) for failures in answers] == [1] * 5
        assert all("the next segment is not created yet: " in remark for remark in remarks)
        assert "the next segment is not created yet: " in broker.registration.refuse_sends(), "metaservers know"
        hold = False
        await eventually_async(lambda: not broker.registration.refuse_sends(), 20)
        assert not await client.send(message(stored, size=SIZE))
