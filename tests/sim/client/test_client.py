"""Producer and Consumer against a whole system in virtual time."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from qmq import App, Consumer, Delivery, Limits, Producer, Timeouts
from qmq.errors import (
    ClientClosed,
    DeliveryAlreadySettled,
    IllegalName,
    LocalProtocolError,
    QueueFull,
    RouteUnknown,
    SendFailed,
)
from tests.sim.world.cluster import Cluster
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import SmallSystem, small_system
from tests.support.promises import judging
from tests.support.waiting import eventually_async

RETRY_SECONDS = 0.1
"""A send that failed at once is repeated within it."""


@pytest_asyncio.fixture
async def system(tmp_path: Path) -> AsyncIterator[SmallSystem]:
    async with small_system(tmp_path, groups=2, with_delay=False) as running:
        yield running


async def test_failing_handlers_see_the_next_attempt_and_then_a_dead_letter(system: SmallSystem) -> None:
    seen: list[tuple[str, int]] = []
    app = App(system.meta_url, app="test")

    @app.consumer("orders", group="billing", start="earliest", attempts_max=2, consumer_id="c@@1")
    async def charge(delivery: Delivery) -> None:
        seen.append((delivery.properties["kind"], delivery.attempt))
        assert delivery.retry_cause == ("" if delivery.attempt == 1 else "RuntimeError")
        if delivery.properties["kind"] == "poison" or delivery.attempt == 1:
            raise RuntimeError("told to fail")

    running = asyncio.create_task(app.run())
    async with Producer(system.meta_url, app="test") as producer:
        await producer.send("orders", {"kind": "poison"})
        await producer.send("orders", {"kind": "good"})
    await eventually_async(lambda: len(seen) >= 4, 20)
    async with Consumer(system.meta_url, "%DEAD_RETRY%orders%billing", "ops", start="earliest") as dead:
        (letter,) = await dead.pull(1, timeout=10)
        assert letter.properties == {"kind": "poison"}
        assert (letter.attempt, letter.retry_cause) == (3, "RuntimeError")
        await letter.ack()
    assert Counter(seen) == Counter({("poison", 1): 1, ("poison", 2): 1, ("good", 1): 1, ("good", 2): 1})
    app.stop()
    await asyncio.wait_for(running, 20)


async def test_a_retry_says_why_and_the_next_one_does_not_repeat_it(system: SmallSystem) -> None:
    options: dict[str, Any] = {"start": "earliest", "attempts_max": 3}
    async with (
        Producer(system.meta_url, app="test") as producer,
        Consumer(system.meta_url, "orders", "billing", **options) as consumer,
    ):
        with pytest.raises(LocalProtocolError, match="is reserved by the protocol"):
            await producer.send("orders", {"qmq_retryCause": "mine"})
        await producer.send("orders", {"number": 1})
        causes = []
        for cause in ("  Payment\ndeclined\ud800 ", "", "x" * 200):
            (delivery,) = await consumer.pull(1, timeout=20)
            causes.append(delivery.retry_cause)
            assert delivery.properties == {"number": "1"}
            await delivery.retry(cause=cause)
        async with Consumer(system.meta_url, "%DEAD_RETRY%orders%billing", "ops", start="earliest") as dead:
            (letter,) = await dead.pull(1, timeout=20)
        assert [*causes, letter.retry_cause] == ["", "Payment declined?", "", "x" * 120]


async def test_a_dead_broker_group_is_left_for_the_other_and_everything_arrives() -> None:
    async with Cluster(running_loop(), brokers=2, delays=0) as cluster:
        timeouts = Timeouts(connect=1, send=2, delivery=30)
        async with Producer(cluster.meta_url, app="test", timeouts=timeouts) as producer:
            await producer.send("orders", "first")
            cluster.brokers["g1"].kill()
            began = running_loop().time()
            receipts = await asyncio.gather(*(producer.send("orders", {"number": n}) for n in range(200)))
            assert {receipt.broker_group for receipt in receipts} == {"g2"}
            assert running_loop().time() < began + RETRY_SECONDS, "before the lease of g1 ended"
        received: set[str] = set()
        async with Consumer(cluster.meta_url, "orders", "g", start="earliest", timeouts=timeouts) as consumer:

            async def take() -> None:
                while len(received) < 200:
                    for delivery in await consumer.pull(100, timeout=5):
                        if delivery.body != "first":  # on g1 or g2
                            received.add(delivery.properties["number"])
                        await delivery.ack()

            await asyncio.wait_for(take(), 30)
        with judging():
            assert received == {str(number) for number in range(200)}


async def test_a_send_to_a_broker_that_stands_still_fails_at_its_delivery_timeout() -> None:
    loop = running_loop()
    async with Cluster(loop, brokers=1, delays=0) as cluster:
        timeouts = Timeouts(send=5, delivery=7)
        async with Producer(cluster.meta_url, timeouts=timeouts) as producer:
            await producer.send("orders", "stored")
            broker = cluster.brokers["g1"].process
            assert broker is not None
            broker.pause()
            began = loop.time()
            with pytest.raises(SendFailed, match="not confirmed in 7 s and 2 attempts"):
                await producer.send("orders", "lost or not")
            assert loop.time() == pytest.approx(began + timeouts.delivery)
            broker.resume()
            await producer.send("orders", "stored")


async def test_closing_a_consumer_hands_back_what_it_did_not_settle(system: SmallSystem) -> None:
    async with Producer(system.meta_url) as producer:
        await asyncio.gather(*(producer.send("orders", {"number": n}) for n in range(20)))
    async with Consumer(system.meta_url, "orders", "g", consumer_id="a", start="earliest") as first:
        taken: list[Delivery] = []
        while len(taken) < 20:
            taken += await first.pull(20, timeout=10)
        for delivery in taken[:5]:
            await delivery.ack()
        with pytest.raises(DeliveryAlreadySettled):
            await taken[0].ack()
    with pytest.raises(ClientClosed):
        await first.pull()
    rest: set[str] = set()
    began = running_loop().time()
    async with Consumer(system.meta_url, "orders", "g", consumer_id="b", start="earliest") as second:
        while len(rest) < 15:
            for delivery in await second.pull(20, timeout=10):
                assert delivery.attempt == 1
                rest.add(delivery.properties["number"])
                await delivery.ack()
        assert running_loop().time() < began + 10, "long before the first consumer's lease ends"
    with judging():
        assert rest == {delivery.properties["number"] for delivery in taken[5:]}


async def test_a_closed_consumer_yields_nothing_of_what_it_handed_back(system: SmallSystem) -> None:
    async with (
        Producer(system.meta_url) as producer,
        Consumer(system.meta_url, "orders", "billing", start="earliest") as consumer,
    ):
        for number in range(5):
            await producer.send("orders", {"number": number})
        await eventually_async(lambda: len(consumer._ready.deliveries) == 5, 20)
        await consumer.close()
        with judging():
            assert [delivery async for delivery in consumer] == [], "doubled: other consumers get them"


async def test_a_consumer_that_got_nothing_says_goodbye_too(system: SmallSystem) -> None:
    async with Consumer(system.meta_url, "orders", "billing"):
        # No retry subject: the first retry makes it.
        everywhere = {(name, "orders") for name in system.brokers}
        await eventually_async(lambda: _online(system) == everywhere, 20)
    assert _online(system) == set()


def _online(system: SmallSystem) -> set[tuple[str, str]]:
    """Brokers and subjects that know of a consumer."""
    return {
        (name, subject.name)
        for name, broker in system.brokers.items()
        for subject in broker.store.subjects.values()
        for group in subject.groups.values()
        if group.progress.consumers
    }


async def test_pause_tags_and_broadcast(system: SmallSystem) -> None:
    async with (
        Producer(system.meta_url) as producer,
        Consumer(system.meta_url, "orders", "tagged", start="earliest", tags=["a"], consumer_id="t") as tagged,
        Consumer(system.meta_url, "orders", broadcast=True, consumer_id="x", start="earliest") as x,
        Consumer(system.meta_url, "orders", broadcast=True, consumer_id="y", start="earliest") as y,
    ):
        for number, tag in enumerate("abab"):
            await producer.send("orders", {"number": number}, tags=[tag])
        got = []
        while len(got) < 2:
            got += await tagged.pull(10, timeout=10)
        assert {delivery.properties["number"] for delivery in got} == {"0", "2"}
        for consumer in (x, y):
            every: list[Delivery] = []
            while len(every) < 4:
                every += await consumer.pull(10, timeout=10)
            assert {delivery.properties["number"] for delivery in every} == {"0", "1", "2", "3"}


async def test_what_can_not_be_sent_is_refused_with_the_reason(system: SmallSystem) -> None:
    async with Producer(system.meta_url, limits=Limits(queue_messages=5)) as producer:
        with pytest.raises(IllegalName):
            await producer.send("a b", "x")
        with pytest.raises(LocalProtocolError, match="32767"):
            await producer.send("orders", {"text": "x" * 40_000})
        with pytest.raises(LocalProtocolError, match="qmq_createTime"):
            await producer.send("orders", {"qmq_createTime": "1"})
        with pytest.raises(LocalProtocolError, match="list"):
            await producer.send("orders", {"a": ["x"]})  # type: ignore[dict-item]
        with pytest.raises(QueueFull, match="raise Limits"):
            for _ in range(10):
                producer.send_soon("orders", "x")
        # Waiting for room instead of failing:
        await asyncio.gather(*(producer.send("orders", "x") for _ in range(50)))
    with pytest.raises(ClientClosed):
        await producer.send("orders", "x")


async def test_without_a_system_sends_fail_in_time_and_say_why() -> None:
    url, loop = "127.0.0.1:1", asyncio.get_running_loop()
    timeouts = Timeouts(connect=0.2, route=0.3, delivery=0.8)
    async with Producer(url, timeouts=timeouts) as producer:
        began = loop.time()
        with pytest.raises(SendFailed, match="can't be reached"):
            await producer.send("orders", "x")
        assert loop.time() == pytest.approx(began + timeouts.delivery)
        waiting = producer.send_soon("orders", "x", message_id="left")
        assert await producer.close(timeout=0.1) == ["left"]
        with pytest.raises(SendFailed):
            await waiting
    assert RouteUnknown("x").retriable
