"""Clients when their broker group gets another master, while the former one is killed, hangs or has no power."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from qmq import Backoff, Consumer, Delivery, Limits, Producer, Timeouts
from qmq.net.caller import Caller
from qmq.net.failure_log import BRIEF_SECONDS
from qmq.protocol.codes import Command
from tests.sim.replication.failures import FAILURES, address_of, fail
from tests.sim.replication.groups import Group, cluster_of
from tests.sim.world.cluster import Cluster
from tests.sim.world.loop import running_loop
from tests.sim.world.network import TEST_HOST
from tests.support.waiting import eventually_async

BATCH = 3
ROUTE_SECONDS = 0.2
"""Within so long of the start of service of the new master, clients use it: the push of a route, and a few round trips."""


@asynccontextmanager
async def group_and_producer(**options: Any) -> AsyncIterator[tuple[Group, Producer]]:
    """A broker group that is writable without its master g1-a, and a producer."""
    async with cluster_of(copies=3) as group, Producer(group.cluster.meta_url, **options) as producer:
        yield group, producer


async def failed_over(group: Group) -> float:
    """Wait until another member serves, and return the time of the loop."""
    await group.serves("g1-b", "g1-c")
    return running_loop().now


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_consumer_pulls_from_the_new_master_at_once(failure: str) -> None:
    """Its pull is in flight to a master that hangs, or its failed pulls have made the pause 0.8 s or longer."""
    async with (
        group_and_producer() as (group, producer),
        Consumer(group.cluster.meta_url, "orders", "g") as consumer,
    ):
        await producer.send("orders", {})
        await anext(aiter(consumer))
        fail(group.hosts["g1-a"], failure)
        served_at = await failed_over(group)
        polls = group.master.handlers.polls
        await eventually_async(lambda: polls.oldest("orders", "g") is not None, 60)
        assert running_loop().now - served_at < ROUTE_SECONDS
        assert consumer._pool.connected(address_of(group.hosts["g1-a"])) is None


@pytest.mark.parametrize("failure", FAILURES)
async def test_acks_in_flight_are_made_at_the_new_master_at_once(failure: str) -> None:
    async with (
        group_and_producer() as (group, producer),
        Consumer(group.cluster.meta_url, "orders", "g", consumer_id="c@@1", start="earliest") as consumer,
    ):
        await asyncio.gather(*(producer.send("orders", {"number": number}) for number in range(10)))
        deliveries = [await anext(aiter(consumer)) for _ in range(10)]
        fail(group.hosts["g1-a"], failure)
        for delivery in deliveries:
            await delivery.ack()
        served_at = await failed_over(group)
        await eventually_async(lambda: acked(group) == 10, 60)
        assert running_loop().now - served_at < ROUTE_SECONDS
        assert not consumer._ready.deliveries


def acked(group: Group) -> int:
    """Return the first pull sequence of the consumer that the master has no ack for."""
    return group.master.store.subjects["orders"].groups["g"].progress.consumers["c@@1"].log.acked


@pytest.mark.parametrize("failure", FAILURES)
async def test_sends_in_flight_and_sends_that_failed_are_repeated_at_the_new_master_at_once(failure: str) -> None:
    """With pauses and time limits that are longer than the failover takes."""
    timeouts, backoff = Timeouts(connect=50, send=50), Backoff(first=40, longest=40)
    async with group_and_producer(timeouts=timeouts, backoff=backoff) as (group, producer):
        await producer.send("orders", {})
        fail(group.hosts["g1-a"], failure)
        early = [producer.send_soon("orders", {}, message_id=f"early{number}") for number in range(3)]
        await asyncio.sleep(1.0)
        late = [producer.send_soon("orders", {}, message_id=f"late{number}") for number in range(3)]
        served_at = await failed_over(group)
        receipts = await asyncio.gather(*early, *late)
        assert running_loop().now - served_at < ROUTE_SECONDS
        assert {receipt.broker_group for receipt in receipts} == {"g1"}
        assert producer._pool.connected(address_of(group.hosts["g1-a"])) is None
        assert not producer._sender._choice.breaker._failing
        assert producer.waiting == 0


def reset_first_request(group: Group) -> None:
    """Reset the connection of the first request to another member than g1-a."""
    first = iter([True])
    group.cluster.network.resets = lambda source, target: (
        (source, target[:3]) == (TEST_HOST, "g1-") and next(first, False)
    )


async def test_failed_sends_to_the_former_master_do_not_lengthen_the_pause_after_one_to_the_new_master() -> None:
    backoff = Backoff(first=0.1, factor=10, longest=40)
    async with group_and_producer(backoff=backoff) as (group, producer):
        await producer.send("orders", {})
        group.hosts["g1-a"].kill()
        reset_first_request(group)
        waiting = producer.send_soon("orders", {})
        served_at = await failed_over(group)
        receipt = await waiting
        assert receipt.attempts == 3
        assert running_loop().now - served_at < 1.0


async def test_failed_pulls_from_the_former_master_do_not_lengthen_the_pause_after_one_from_the_new_master() -> None:
    backoff = Backoff(first=0.1, factor=10, longest=40)
    async with (
        group_and_producer() as (group, producer),
        Consumer(group.cluster.meta_url, "orders", "g", consumer_id="c@@1", backoff=backoff) as consumer,
    ):
        await producer.send("orders", {})
        delivery = await anext(aiter(consumer))
        group.hosts["g1-a"].kill()
        await delivery.ack()
        reset_first_request(group)
        served_at = await failed_over(group)
        polls = group.master.handlers.polls
        await eventually_async(lambda: polls.oldest("orders", "g") is not None and acked(group) == 1, 60)
        assert running_loop().now - served_at < 1.0


async def test_a_consumer_that_is_closing_sends_its_acks_to_the_new_master() -> None:
    """Its handler ends after the failover."""
    has_begun, may_end = asyncio.Event(), asyncio.Event()

    async def handle(delivery: Delivery) -> None:
        has_begun.set()
        await may_end.wait()

    async with group_and_producer() as (group, producer):
        consumer = Consumer(group.cluster.meta_url, "orders", "g", consumer_id="c@@1", start="earliest")
        await consumer.start()
        running = asyncio.create_task(consumer.run(handle))
        await producer.send("orders", {})
        await has_begun.wait()
        closing = asyncio.create_task(consumer.close(timeout=60))
        fail(group.hosts["g1-a"], "killed")
        await failed_over(group)
        await asyncio.sleep(ROUTE_SECONDS)
        may_end.set()
        assert await closing == []
        await running
        assert not group.master.store.subjects["orders"].groups["g"].progress.consumers, "it has left"
        async with Consumer(group.cluster.meta_url, "orders", "g") as other:
            assert await other.pull(timeout=60) == [], "nothing is delivered again"


@pytest.mark.parametrize("before", [5, 16, 27, 38])
@pytest.mark.parametrize("failure", FAILURES)
async def test_a_consumer_that_receives_at_most_once_receives_nothing_twice_at_a_failover(
    failure: str, before: int
) -> None:
    """The master fails at another step of pulls and acks in each case."""
    received: Counter[str] = Counter()

    async def receive(consumer: Consumer) -> None:
        async for delivery in consumer:
            received[delivery.message_id] += 1
            await delivery.ack()

    limits = Limits(pull_messages=BATCH)
    async with (
        group_and_producer() as (group, producer),
        Consumer(group.cluster.meta_url, "orders", "g", start="earliest", at_most_once=True, limits=limits) as consumer,
    ):
        sent = await asyncio.gather(*(producer.send("orders", {}) for _ in range(60)))
        receiving = asyncio.create_task(receive(consumer))
        await eventually_async(lambda: received.total() >= before, 60)
        fail(group.hosts["g1-a"], failure)
        await failed_over(group)
        later = [await producer.send("orders", {}) for _ in range(10)]
        await eventually_async(lambda: {receipt.message_id for receipt in later} <= received.keys(), 60)
        receiving.cancel()
        missing = {receipt.message_id for receipt in sent} - received.keys()
    assert set(received.values()) == {1}
    assert len(missing) in (0, BATCH), "only the batch whose ack was in flight, if that was executed"


async def test_a_group_that_hangs_and_keeps_its_master_keeps_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pull in flight is answered when the node of a one-member group continues."""
    pulls: list[int] = []
    call_soon = Caller.call_soon

    def counted(caller: Caller, code: int, *body: bytes, version: int = 9) -> "asyncio.Future[object]":
        pulls.extend([code] if code == Command.PULL_MESSAGE else [])
        return call_soon(caller, code, *body, version=version)  # type: ignore[return-value]

    async with (
        Cluster(running_loop(), brokers=1, delays=0) as cluster,
        Producer(cluster.meta_url) as producer,
        Consumer(cluster.meta_url, "orders", "g") as consumer,
    ):
        await producer.send("orders", {})
        await anext(aiter(consumer))
        host = cluster.brokers["g1"]
        connection = consumer._pool.connected(address_of(host))
        assert connection is not None
        assert host.process is not None
        monkeypatch.setattr(Caller, "call_soon", counted)
        host.process.pause()
        await asyncio.sleep(9.0)
        assert len(pulls) <= 2, "a long poll of the subject and one of its retry subject may have ended just before"
        host.process.resume()
        await producer.send("orders", {})
        await anext(aiter(consumer))
        assert consumer._pool.connected(address_of(host)) is connection


@asynccontextmanager
async def many_consumers(group: Group) -> AsyncIterator[list[Consumer]]:
    """Consumers of many consumer groups that pull, and acknowledge what they receive."""
    async with AsyncExitStack() as stack:
        consumers = [
            await stack.enter_async_context(Consumer(group.cluster.meta_url, "orders", f"g{number}", consumer_id="c"))
            for number in range(30)
        ]
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        handled = Counter[int]()

        async def consume(number: int) -> None:
            async for delivery in consumers[number]:
                await delivery.ack()
                handled[number] += 1

        for number in range(len(consumers)):
            tasks.create_task(consume(number))
        async with Producer(group.cluster.meta_url) as producer:
            while len(handled) < len(consumers):
                await producer.send("orders", {})
                await asyncio.sleep(0.1)
        yield consumers
        await asyncio.gather(*(consumer.close() for consumer in consumers))


def client_lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Level and text of what the clients have logged."""
    return [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "qmq.client"]


async def test_a_planned_switch_over_is_one_line_at_info_for_all_clients(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with group_and_producer() as (group, producer):
        await producer.send("orders", {})
        async with many_consumers(group):
            caplog.clear()
            await group.master.replication.switch_over("")
            await failed_over(group)
            await asyncio.sleep(20)
            lines = client_lines(caplog)
            assert [level for level, _ in lines] == ["INFO"], lines
            assert lines[0][1].startswith("g1 has another master: pulling ")
            assert "other requests" in lines[0][1]


async def test_a_broker_group_and_a_metaserver_that_stay_away_are_a_warning_each_and_a_line_when_they_are_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with group_and_producer() as (group, producer):
        await producer.send("orders", {})
        async with many_consumers(group):
            caplog.clear()
            hosts = [*group.hosts.values(), group.cluster.hosts["meta"]]
            for host in hosts:
                host.kill()
            await asyncio.sleep(BRIEF_SECONDS + 5)
            lines = client_lines(caplog)
            assert [(level, text.split(":")[0].split(" at ")[0]) for level, text in sorted(lines)] == [
                ("WARNING", "g1"),
                ("WARNING", "the metaserver"),
            ], lines
            caplog.clear()
            for host in hosts:
                host.start()
            await asyncio.sleep(30)
            levels = Counter(level for level, _ in client_lines(caplog))
            assert levels["WARNING"] == 0
            assert levels["INFO"] in (2, 3), "both are back; the group perhaps with another master first"
