"""Batches: how they end, what their acks and retries become, and how they leave."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from qmq import Consumer, Limits
from qmq.client.delivery import Batch
from qmq.errors import ClientFailed, LocalProtocolError
from qmq.net.timing import Backoff
from tests.support.drivers.in_process import message
from tests.support.official.server import OfficialSystem, official_system
from tests.support.waiting import eventually_async

QUICK = Backoff(first=0.001, longest=0.01)
RETRY_SUBJECT = "%RETRY%orders%g"


@pytest_asyncio.fixture
async def system() -> AsyncIterator[OfficialSystem]:
    async with official_system() as running:
        yield running


def consumer_of(system: OfficialSystem, **options: object) -> Consumer:
    return Consumer(system.address, "orders", "g", consumer_id="c@@1", backoff=QUICK, **options)  # type: ignore[arg-type]


def fill(system: OfficialSystem, *numbers: int) -> None:
    system.store("orders", "g", *(message(number) for number in numbers))


async def arrive(system: OfficialSystem, *numbers: int) -> None:
    """As `fill`, for pulls that wait."""
    fill(system, *numbers)
    system.waiting = [item for item in system.waiting if not system._pull(*item)]


def ids(batch: Batch) -> list[int]:
    return [int(delivery.message_id[1:]) for delivery in batch]


async def test_a_batch_ends_when_it_is_full_or_some_time_after_its_first_delivery(system: OfficialSystem) -> None:
    fill(system, *range(25))
    loop = asyncio.get_running_loop()
    async with consumer_of(system) as consumer:
        batches = consumer.batches(10, 5.0)
        found = [ids(await anext(batches)), ids(await anext(batches))]
        began = loop.time()
        found.append(ids(await anext(batches)))
        assert loop.time() == pytest.approx(began + 5.0)
        following = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(60)
        assert not following.done(), "a batch is never empty"
        await arrive(system, 25)
        await eventually_async(lambda: len(consumer._ready.deliveries) == 0 and system.stored["orders"])
        await asyncio.sleep(2)
        await arrive(system, 26)
        found.append(ids(await following))
    assert found == [[*range(10)], [*range(10, 20)], [*range(20, 25)], [25, 26]]


async def test_a_batch_spans_answers_and_is_acked_with_one_range(system: OfficialSystem) -> None:
    fill(system, *range(20))
    async with consumer_of(system, limits=Limits(pull_messages=8)) as consumer:
        (batch,) = [await anext(consumer.batches(20, 60.0))]
        assert ids(batch) == [*range(20)]
        await batch.ack()
        await eventually_async(lambda: system.events)
        assert system.events == ["ack orders 0-19"]


async def test_the_deliveries_that_are_not_retried_stay_open_and_are_not_acked(system: OfficialSystem) -> None:
    fill(system, *range(6))
    async with consumer_of(system) as consumer:
        batch = await anext(consumer.batches(6))
        await batch.retry([batch[1], batch[4]], cause="TooBusy")
        assert [delivery.is_settled for delivery in batch] == [False, True, False, False, True, False]
        await batch[0].ack()
        await eventually_async(lambda: "ack orders 0-1" in system.events)
        await batch.ack()
        await eventually_async(lambda: "ack orders 2-5" in system.events)
        retried = system.stored[RETRY_SUBJECT]
        assert {(one.message_id, one.properties["qmq_retryCause"]) for one in retried} == {
            ("m1", "TooBusy"),
            ("m4", "TooBusy"),
        }


async def test_what_a_cancelled_iteration_has_collected_goes_to_the_next_who_asks(system: OfficialSystem) -> None:
    fill(system, *range(3))
    async with consumer_of(system) as consumer:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(consumer.batches(10, 60.0)), 5)
        batch = await asyncio.wait_for(anext(consumer.batches(10, 1.0)), 60)
        assert ids(batch) == [0, 1, 2]
        await batch.ack()


async def test_closing_ends_the_iteration_without_what_it_hands_back(system: OfficialSystem) -> None:
    fill(system, *range(3))
    async with consumer_of(system) as consumer:

        async def collect() -> list[list[int]]:
            return [ids(batch) async for batch in consumer.batches(2, 60.0)]

        collecting = asyncio.ensure_future(collect())
        await eventually_async(lambda: system.pulls and not consumer._ready.deliveries and consumer._ready.waiters)
        assert sorted(await consumer.close()) == ["m0", "m1", "m2"], "those of the first batch were not acked either"
        assert await collecting == [[0, 1]], "the one that it collected goes to other consumers"


async def test_a_failure_ends_the_iteration(system: OfficialSystem) -> None:
    system.store("orders", "g", *(message(number, size=20_000) for number in range(4)))
    consumer = consumer_of(system, limits=Limits(pull_messages=4, answer_bytes=10_000))
    await consumer.start()
    with pytest.raises(ClientFailed, match="answer_bytes"):
        await asyncio.wait_for(anext(consumer.batches()), 60)
    with pytest.raises(ClientFailed):
        await consumer.close()


async def test_sizes_that_make_no_sense_are_refused(system: OfficialSystem) -> None:
    consumer = consumer_of(system)
    for arguments in ((0, 1.0), (1, -1.0), (1, float("nan"))):
        with pytest.raises(LocalProtocolError, match="must be at least"):
            consumer.batches(*arguments)
