"""Consumers with many messages in flight that leave or jump: moved in slices, off the disk's back, answered when on disk."""

import asyncio
from pathlib import Path

import pytest

from broker_node.delivery import rejections
from broker_node.delivery.retry_writer import BATCH_MESSAGES_MAX
from broker_node.storage.store import MessageStore
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.extensions import LeaveGroupRequest
from tests.sim.world.disk import only_in_threads
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.in_process import Client, connected, message, running_broker
from tests.support.waiting import eventually_async

RETRY = "%RETRY%orders%g"
MESSAGES = 3 * BATCH_MESSAGES_MAX + 100


def ids(begin: int, end: int) -> list[str]:
    return [f"m{n}" for n in range(begin, end)]


async def hold(client: Client, count: int, consumer: str = "c1") -> None:
    """Have a consumer pull so many messages, and ack none."""
    await client.begin()
    for begin in range(0, count, 100):
        await client.send(*(message(n) for n in range(begin, min(begin + 100, count))))
    last = -1
    while last + 1 < count:
        begin, got = await client.pull(consumer=consumer, limit=1000, last=last)
        last = begin + len(got) - 1


async def all_of(client: Client, subject: str, consumer: str = "reader") -> list[str]:
    found: list[str] = []
    while got := (await client.pull(subject, consumer=consumer, limit=1000, last=len(found) - 1))[1]:
        found += got
    return found


def appended_a_turn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Messages appended in each turn of the event loop that appended any."""
    turns: list[int] = []
    append, is_new = MessageStore.append_run, [True]

    def begin_turn() -> None:
        is_new[0] = True

    def counted(self, subject, run, *arguments):  # type: ignore[no-untyped-def]
        if is_new[0]:
            is_new[0] = False
            turns.append(0)
            asyncio.get_running_loop().call_soon(begin_turn)
        turns[-1] += run.count
        return append(self, subject, run, *arguments)

    monkeypatch.setattr(MessageStore, "append_run", counted)
    return turns


async def test_a_consumer_with_many_messages_in_flight_leaves_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await hold(client, MESSAGES)
        turns = appended_a_turn(monkeypatch)
        leave = LeaveGroupRequest("orders", "g", "c1").encode()
        # A pull sent behind it is answered for the consumer as it begins again.
        left, again = await asyncio.gather(
            client.raw(Command.LEAVE_GROUP, leave), client.pull(consumer="c1", last=MESSAGES - 1)
        )
        assert left.code == ResponseCode.SUCCESS
        assert again == (-1, [])
        assert max(turns) <= BATCH_MESSAGES_MAX
        assert sum(turns) == MESSAGES
        assert broker.store.log.synced_end == broker.store.log.gather.appended_end
        assert broker.delivery.settlements.running == {}
        consumers = broker.store.subjects["orders"].groups["g"].progress.consumers
        assert "c1" not in consumers or consumers["c1"].log.in_flight == 0
        assert await all_of(client, RETRY) == ids(0, MESSAGES)


async def test_acks_that_jump_are_answered_in_turn_and_each_when_its_part_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await hold(client, MESSAGES)
        turns = appended_a_turn(monkeypatch)
        seen: list[tuple[int, int]] = []

        async def ack(begin: int, last: int) -> None:
            assert await client.ack(begin, last) == ResponseCode.SUCCESS
            log = broker.store.subjects["orders"].groups["g"].progress.consumers["c1"].log
            seen.append((last, log.acked))

        await asyncio.gather(ack(1200, 1209), ack(1210, 1219), ack(1500, 1599))
        assert [last for last, _ in seen] == [1209, 1219, 1599]
        assert all(acked > last for last, acked in seen)
        assert max(turns) <= BATCH_MESSAGES_MAX
        assert broker.delivery.counters.acked == 120
        assert await all_of(client, RETRY) == ids(0, 1200) + ids(1220, 1500)


async def test_a_settlement_reads_what_is_not_in_memory_in_a_thread(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with running_broker(tmp_path, disk=disk) as broker, connected(broker) as client:
        await hold(client, MESSAGES)
        disk.chill(f"{broker.options.data_dir}/log/")
        reads = disk.reads
        disk.observe = only_in_threads("/log/", "read")
        assert await client.ack(MESSAGES - 1, MESSAGES - 1) == ResponseCode.SUCCESS
        disk.observe = None
        assert disk.reads > reads
        assert await all_of(client, RETRY) == ids(0, MESSAGES - 1)


async def test_a_stop_ends_settlements_and_the_next_start_goes_on_with_the_rest(tmp_path: Path) -> None:
    disk = MemoryDisk()
    async with running_broker(tmp_path, disk=disk) as broker:
        async with connected(broker) as client:
            await hold(client, MESSAGES)
        subject = broker.store.subjects["orders"]
        group = subject.groups["g"]
        settlement = broker.delivery.settlements.settle(subject, group, group.progress.consumers["c1"])
        assert settlement is not None
        ended: list[object] = []
        settlement.then(ended.append)
        broker.handlers.settlements.run(settlement)
        broker.handlers.stop()
        assert len(ended) == 1
        assert 0 < settlement.settled < MESSAGES
        rest = settlement.consumer.log.in_flight
    async with running_broker(tmp_path, disk=disk) as broker, connected(broker) as client:
        held = broker.store.subjects["orders"].groups["g"].progress.consumers["c1"].log.in_flight
        assert held == rest
        assert (await client.raw(Command.LEAVE_GROUP, LeaveGroupRequest("orders", "g", "c1").encode())).code == 0
        assert sorted(await all_of(client, RETRY)) == sorted(ids(0, MESSAGES))


@pytest.mark.parametrize("subject", ["orders", RETRY])
async def test_a_waiting_pull_of_a_consumer_that_left_gets_nothing_that_is_stored_later(
    tmp_path: Path, subject: str
) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client, connected(broker) as other:
        await client.begin()
        await client.send(message(0, subject))
        assert (await client.pull(subject, consumer="c1"))[1] == ["m0"]
        await client.ack(0, 0, subject=subject)
        waiting = asyncio.ensure_future(client.pull(subject, consumer="c1", last=0, timeout_ms=20_000))
        stays = asyncio.ensure_future(other.pull(subject, consumer="c1", last=0, timeout_ms=20_000))
        await eventually_async(lambda: broker.handlers.polls.held == 2, what="both connections wait")
        assert (await client.leave("c1", subject)).code == ResponseCode.SUCCESS
        await client.send(message(1, subject))
        assert (await stays)[1] == ["m1"], "what waits on another connection stays"
        assert await waiting == (-1, [])


async def test_a_pull_of_a_consumer_that_holds_too_many_is_answered_late_with_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejections, "ERROR_HOLD_SECONDS", 0.0)
    async with running_broker(tmp_path, consumer_in_flight_max=3) as broker, connected(broker) as client:
        await client.begin()
        await client.send(*(message(n) for n in range(5)))
        assert await client.pull() == (0, ids(0, 3))
        assert await client.pull(last=2, timeout_ms=20_000) == (-1, [])
        assert broker.handlers.counters.full_pulls == 1
        assert await client.pull(consumer="c2") == (0, ids(3, 5))
        await client.send(message(5), message(6))
        assert await client.ack(0, 0) == ResponseCode.SUCCESS
        assert await client.pull(last=2) == (3, ids(5, 6))
