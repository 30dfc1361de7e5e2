"""Two processes with one consumer id: each message goes to one of them, and the broker reports it."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from broker_node.admin.trace import delivery_state
from broker_node.broker import Broker
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import TagFilter
from qmq.protocol.extensions import LeaveGroupRequest
from tests.support.drivers.in_process import (
    Client,
    connected,
    get_json,
    message,
    remove_files,
    run_jobs,
    running_broker,
)
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async

RETRY = "%RETRY%orders%g"
LEASE = 180


def ids(*numbers: int) -> list[str]:
    return [f"m{n}" for n in numbers]


async def test_a_parked_pull_gets_nothing_that_another_connection_holds_until_that_closes(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as b, AsyncExitStack() as stack:
        a = await stack.enter_async_context(connected(broker))
        await a.begin()
        first = asyncio.create_task(a.pull(timeout_ms=20_000))
        await eventually_async(lambda: broker.handlers.polls.held == 1)
        second = asyncio.create_task(b.pull(timeout_ms=1_000))
        await eventually_async(lambda: broker.handlers.polls.held == 2)
        await b.send(*(message(n) for n in range(5)))
        assert await asyncio.wait_for(first, 5) == (0, ids(0, 1, 2, 3, 4))
        assert await asyncio.wait_for(second, 10) == (-1, [])
        assert await b.pull() == (-1, []), "the first connection is alive and holds them"
        await stack.aclose()
        await eventually_async(lambda: len(broker.server.connections) == 1)
        assert await b.pull() == (0, ids(0, 1, 2, 3, 4))


async def test_two_clients_of_one_id_share_a_hundred_messages_without_a_repetition(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as a, connected(broker) as b:
        await a.begin()
        await a.send(*(message(n) for n in range(100)))
        got: list[str] = []
        last = {a: -1, b: -1}
        for _ in range(10):
            ranges = {}
            for client in (a, b):
                begin, found = await client.pull(limit=5, last=last[client])
                got += found
                last[client] = begin + len(found) - 1
                ranges[client] = (begin, last[client])
            # The later one acks first: what it jumps over is in the other's hands.
            for client in (b, a):
                assert await client.ack(*ranges[client]) == ResponseCode.SUCCESS
        assert sorted(got) == sorted(ids(*range(100)))
        assert await a.pull(RETRY) == (-1, [])
        assert await b.pull() == (-1, [])
        assert broker.delivery.counters.redelivered == broker.delivery.counters.settled == 0
        progress = broker.store.subjects["orders"].groups["g"].progress
        log = progress.consumers["c1"].log
        assert (log.acked, log.pulled, log.in_flight) == (100, 100, 0)


async def test_acks_out_of_order_leave_the_same_over_a_restart_and_in_a_trace(tmp_path: Path) -> None:
    async def check(broker: Broker) -> None:
        subject = broker.store.subjects["orders"]
        group = subject.groups["g"]
        log = group.progress.consumers["c1"].log
        assert [(run.pull_begin, run.begin, run.count) for run in log.runs()] == [(0, 0, 5), (8, 8, 2)]
        assert (log.acked, log.pulled, group.progress.in_flight, group.progress.lowest_not_done()) == (0, 10, 7, 0)
        states = [(await delivery_state(broker.store, subject, group, n)).state for n in range(11)]
        assert states == ["in_flight"] * 5 + ["acked"] * 3 + ["in_flight"] * 2 + ["waiting"]

    async with running_broker(tmp_path) as broker, connected(broker) as a, connected(broker) as b:
        await a.begin()
        await a.send(*(message(n) for n in range(11)))
        assert await a.pull(limit=5) == (0, ids(0, 1, 2, 3, 4))
        assert await b.pull(limit=5) == (5, ids(5, 6, 7, 8, 9))
        assert await b.ack(5, 7) == ResponseCode.SUCCESS
        await check(broker)
    async with running_broker(tmp_path) as broker:
        assert not broker.data.recovery.rebuilt
        await check(broker)
    remove_files(tmp_path / "broker" / "checkpoint")
    async with running_broker(tmp_path) as broker, connected(broker) as a:
        assert broker.data.recovery.rebuilt
        await check(broker)
        assert await a.pull(limit=20) == (0, ids(0, 1, 2, 3, 4))
        assert await a.pull(limit=20, last=4) == (8, ids(8, 9))
        assert await a.ack(0, 4) == ResponseCode.SUCCESS
        assert await a.ack(8, 9) == ResponseCode.SUCCESS
        assert await a.pull(RETRY) == (-1, [])
        assert await a.pull(limit=20, last=9) == (10, ids(10))


async def test_what_a_silent_connection_holds_moves_to_the_one_that_pulls_after_the_lease(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as a, connected(broker) as b:
        await a.begin()
        await a.send(*(message(n) for n in range(3)))
        assert await a.pull() == (0, ids(0, 1, 2))
        clock.advance(LEASE - 10)
        assert await b.pull() == (-1, [])
        clock.advance(20)
        assert await b.pull() == (0, ids(0, 1, 2))
        # The first one was slow only: its late ack confirms nothing that the second one holds now.
        assert await a.ack(0, 2) == ResponseCode.SUCCESS
        assert broker.store.subjects["orders"].groups["g"].progress.in_flight == 3
        assert await b.ack(0, 2) == ResponseCode.SUCCESS
        assert broker.store.subjects["orders"].groups["g"].progress.in_flight == 0


async def test_a_process_that_reconnects_gets_what_was_lost_with_its_old_connection_at_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as old, connected(broker) as new:
        await old.begin()
        await old.send(*(message(n) for n in range(10)))
        assert await old.pull(limit=4) == (0, ids(0, 1, 2, 3))
        lost = await old.pull(limit=4, last=3)
        # The broker takes the old connection for alive. Only the process that received sequence 3 can name it.
        assert await new.pull(limit=4, last=3) == lost == (4, ids(4, 5, 6, 7))
        assert await new.pull(limit=4, last=7) == (8, ids(8, 9))
        assert await new.ack(0, 9) == ResponseCode.SUCCESS
        assert broker.store.subjects["orders"].groups["g"].progress.in_flight == 0
        assert broker.delivery.duplicates.count(broker.clock.monotonic()) == 0


async def test_an_ack_on_a_new_connection_says_that_its_process_reconnected(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as old, connected(broker) as new:
        await old.begin()
        await old.send(*(message(n) for n in range(4)))
        assert await old.pull() == (0, ids(0, 1, 2, 3))
        assert await new.ack(0, 1) == ResponseCode.SUCCESS
        assert await new.pull(last=-1) == (2, ids(2, 3))


async def test_one_connection_with_two_pulls_gets_its_messages_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        pulls = [asyncio.create_task(client.pull(timeout_ms=1_000)) for _ in range(2)]
        await eventually_async(lambda: broker.handlers.polls.held == 2)
        await client.send(message(0))
        assert sorted([await asyncio.wait_for(task, 10) for task in pulls]) == [(-1, []), (0, ids(0))]
        assert await client.pull() == (0, ids(0)), "a pull that arrives gets what its connection has not acked"


async def test_one_that_leaves_hands_back_its_own_messages_only(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as a, connected(broker) as b:
        await a.begin()
        await a.send(*(message(n) for n in range(4)))
        assert await a.pull(limit=2) == (0, ids(0, 1))
        assert await b.pull(limit=2) == (2, ids(2, 3))
        leave = LeaveGroupRequest("orders", "g", "c1").encode()
        assert (await b.raw(Command.LEAVE_GROUP, leave)).code == ResponseCode.SUCCESS
        assert await a.pull(RETRY) == (0, ids(2, 3))
        assert await a.ack(0, 1) == ResponseCode.SUCCESS
        assert broker.store.subjects["orders"].groups["g"].progress.in_flight == 0


async def test_what_a_dead_connection_held_is_retried_although_its_id_lives_on(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as b:
        async with connected(broker) as a:
            await a.begin()
            await a.send(*(message(n) for n in range(4)))
            assert await a.pull(limit=2) == (0, ids(0, 1))
            assert await b.pull(limit=2) == (2, ids(2, 3))
        clock.advance(LEASE - 10)
        await b.ack(-1, -1)
        await run_jobs(broker)
        assert await b.pull(RETRY) == (-1, [])
        clock.advance(20)
        await b.ack(-1, -1)
        await run_jobs(broker)
        assert await b.pull(RETRY, timeout_ms=20_000) == (0, ids(0, 1))
        assert broker.store.subjects["orders"].groups["g"].progress.in_flight == 2


async def test_two_live_connections_of_one_id_are_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()

    async def page() -> list[str]:
        _, group = await get_json(broker, "/subjects/orders/groups/g")
        (member,) = group["members"]
        return list(member["duplicate_addresses"])

    async def work(*clients: Client) -> None:
        for client in clients:
            await client.pull()

    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as a:
        await a.begin()
        async with connected(broker) as b:
            await work(a, b)
            assert await page() == [], "the old connection of a restarted process would look like this"
            await work(a, b, a, b)
            assert broker.delivery.duplicates.count(clock.monotonic()) == 1
            assert len(await page()) == 2
            _, stats = await get_json(broker, "/stats")
            (consumer,) = stats["subjects"][0]["groups"][0]["consumers"]
            assert consumer["duplicate"]
            lines = [line for line in caplog.messages if "used by several connections" in line]
            assert len(lines) == 1
            clock.advance(61)
            await work(a, b, a, b)
            assert len([line for line in caplog.messages if "used by several connections" in line]) == 2
        await eventually_async(lambda: len(broker.server.connections) == 1)
        assert broker.delivery.duplicates.count(clock.monotonic()) == 0
        assert await page() == []


async def test_redelivery_passes_over_what_the_filter_does_not_match_and_counts_it_as_acked(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.begin(group="other")
        await client.send(*(message(n, tags=("a",) if n != 3 else ("a", "b")) for n in range(6)))
        assert (await client.pull(filters=(TagFilter(1, ("a",)),)))[1] == ids(0, 1, 2, 3, 4, 5)
        only_b = (TagFilter(1, ("b",)),)
        assert await client.pull(filters=only_b) == (3, ids(3))
        assert await client.pull(filters=only_b, last=3) == (-1, [])
        progress = broker.store.subjects["orders"].groups["g"].progress
        assert progress.in_flight == 1
        assert await client.ack(3, 3) == ResponseCode.SUCCESS
        assert await client.pull(RETRY) == (-1, [])
        assert (await client.pull(group="other"))[1] == ids(0, 1, 2, 3, 4, 5)
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        assert await client.pull() == (-1, []), "what was passed over stays acked"


async def test_a_long_stretch_that_does_not_match_is_passed_in_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_node.delivery.delivery.FILTER_SCAN_MAX", 10)
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(*(message(n, tags=("a",) if n < 25 else ("b",)) for n in range(26)))
        assert len((await client.pull())[1]) == 26
        only_b = (TagFilter(1, ("b",)),)
        answers = [await client.pull(filters=only_b, timeout_ms=20_000) for _ in range(3)]
        assert answers == [(-1, []), (-1, []), (25, ids(25))]
