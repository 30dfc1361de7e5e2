"""Handlers that are plain functions run in threads of their own."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from qmq import App, Consumer, Delivery, Producer
from tests.support.drivers.in_process import SmallSystem, small_system
from tests.support.waiting import eventually_async

CONCURRENCY = 3


@pytest_asyncio.fixture
async def system(tmp_path: Path) -> AsyncIterator[SmallSystem]:
    async with small_system(tmp_path, with_delay=False) as running, Producer(running.meta_url, app="test") as producer:
        await producer.send_many("orders", [{"number": number} for number in range(6)])
        yield running


async def test_as_many_threads_as_the_concurrency_run_at_the_same_time(system: SmallSystem) -> None:
    app = App(system.meta_url, app="test")
    together = threading.Barrier(CONCURRENCY)
    names: set[str] = set()
    attempts: list[int] = []

    @app.consumer("orders", group="g", concurrency=CONCURRENCY, start="earliest", consumer_id="c")
    def handle(delivery: Delivery) -> None:
        attempts.append(delivery.attempt)
        if delivery.attempt == 1:
            together.wait()
            names.add(threading.current_thread().name)
            if delivery.properties["number"] == "5":
                raise ValueError("the next attempt succeeds")

    running = asyncio.ensure_future(app.run())
    await eventually_async(lambda: sorted(attempts) == [1] * 6 + [2])
    app.stop()
    await running
    assert len(names) == CONCURRENCY
    assert all(name.startswith("qmq-handler") for name in names)


async def test_a_function_that_hangs_does_not_hold_up_close(
    system: SmallSystem, caplog: pytest.LogCaptureFixture
) -> None:
    released, entered = threading.Event(), threading.Event()

    def handle(delivery: Delivery) -> None:
        entered.set()
        released.wait()

    try:
        async with Consumer(system.meta_url, "orders", "g", start="earliest", consumer_id="c") as consumer:
            running = asyncio.ensure_future(consumer.run(handle))
            await eventually_async(entered.is_set)
            await eventually_async(lambda: len(consumer._ready.deliveries) == 5)
            assert len(await consumer.close(timeout=1)) == 6
            await running
        assert "1 handlers did not finish" in caplog.text
    finally:
        released.set()
    async with Consumer(system.meta_url, "orders", "g", consumer_id="d", start="earliest") as other:
        found: set[str] = set()
        while len(found) < 6:
            for delivery in await other.pull(6, timeout=20):
                found.add(delivery.properties["number"])
                assert delivery.attempt == 1
                await delivery.ack()
