"""Closing a consumer ends within its timeout, whatever does not respond, and reports what was not processed."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from qmq import Consumer, Delivery, Limits
from qmq.net.timing import Backoff, Timeouts
from tests.support.drivers.in_process import message
from tests.support.official.server import OfficialSystem, official_system
from tests.support.waiting import eventually_async

QUICK = Backoff(first=0.001, longest=0.01)
NUMBERS = range(5)


@pytest_asyncio.fixture
async def system() -> AsyncIterator[OfficialSystem]:
    async with official_system() as running:
        running.store("orders", "g", *(message(number) for number in NUMBERS))
        yield running


async def consumer_with_two(system: OfficialSystem, **options: Any) -> tuple[Consumer, list[Delivery]]:
    """A consumer that has handed out two deliveries and holds three."""
    consumer = Consumer(system.address, "orders", "g", consumer_id="c@@1", backoff=QUICK, **options)
    await consumer.start()
    taken = await asyncio.wait_for(consumer.pull(2, timeout=60), 60)
    await eventually_async(lambda: len(taken) + len(consumer._ready.deliveries) == len(NUMBERS))
    return consumer, taken


async def seconds_of(consumer: Consumer, **options: Any) -> tuple[float, list[str]]:
    loop = asyncio.get_running_loop()
    began = loop.time()
    return [*await asyncio.wait_for(consumer.close(**options), 600)], loop.time() - began  # type: ignore[return-value]


async def test_close_returns_the_ids_of_what_was_not_processed(system: OfficialSystem) -> None:
    consumer, taken = await consumer_with_two(system)
    await taken[0].ack()
    ids, _ = await seconds_of(consumer)
    assert ids == ["m1", "m2", "m3", "m4"]
    assert "ack orders 0-0" in system.events
    assert await consumer.close() == [], "it is closed"


@pytest.mark.parametrize(("options", "limit"), [({}, 6.0), ({"timeout": 1.5}, 1.5), ({"timeout": 0.0}, 0.0)])
async def test_close_ends_in_time_although_the_broker_answers_nothing(
    system: OfficialSystem, caplog: pytest.LogCaptureFixture, options: dict[str, float], limit: float
) -> None:
    caplog.set_level(logging.WARNING)
    consumer, taken = await consumer_with_two(system, timeouts=Timeouts(ack=3))
    system.is_silent = True
    await taken[0].ack()
    ids, took = await seconds_of(consumer, **options)
    assert ids == ["m1", "m2", "m3", "m4"]
    assert took <= limit + 0.01, "in virtual time"
    assert (
        "the acks of 1 messages and the end of this consumer could not be stored; 4 messages were not processed"
        in caplog.text
    )
    assert not consumer.supervisor._tasks
    assert not consumer._producer.supervisor._tasks


async def test_close_ends_in_time_although_the_metaserver_and_the_broker_are_gone(system: OfficialSystem) -> None:
    consumer, taken = await consumer_with_two(system, timeouts=Timeouts(ack=3))
    system.http.close()
    await system.meta.close(0)
    await system.broker.close(0)
    await taken[0].ack()
    ids, took = await seconds_of(consumer)
    assert ids == ["m1", "m2", "m3", "m4"]
    assert took <= 6.0
    assert not consumer.supervisor._tasks


async def test_a_consumer_that_never_reached_a_metaserver_closes() -> None:
    consumer = Consumer("127.0.0.1:1", "orders", "g", consumer_id="c@@1", timeouts=Timeouts(ack=3))
    await consumer.start()
    await asyncio.sleep(1)
    ids, took = await seconds_of(consumer)
    assert (ids, took <= 6.0) == ([], True)


async def test_a_retry_that_is_under_way_does_not_hold_up_close(system: OfficialSystem) -> None:
    timeouts = Timeouts(ack=3, send=1, delivery=600)
    consumer, taken = await consumer_with_two(system, timeouts=timeouts)
    system.is_silent = True
    retrying = asyncio.ensure_future(taken[1].retry(cause="x"))
    await asyncio.sleep(5)
    _, took = await seconds_of(consumer)
    assert took <= 6.0
    with pytest.raises(Exception, match="closed"):
        await asyncio.wait_for(retrying, 1)
    assert not taken[1].is_settled


async def test_at_most_once_nothing_of_what_is_lost_comes_again(system: OfficialSystem) -> None:
    consumer, _ = await consumer_with_two(system, at_most_once=True, limits=Limits(pull_messages=5))
    ids, _ = await seconds_of(consumer)
    assert ids == []
