"""Handlers of `Consumer.run`: what becomes of a message for each way in which its handler ends."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from qmq import App, Consumer, Delivery
from qmq.client.consumer import CONCURRENCY_MAX
from qmq.client.middleware import Middleware
from qmq.errors import ClientClosed, LocalProtocolError
from qmq.net.timing import Backoff, Timeouts
from qmq.protocol.messages import Message
from tests.support.drivers.in_process import CREATED, message
from tests.support.official.server import OfficialSystem, official_system
from tests.support.waiting import eventually_async

QUICK = Backoff(first=0.001, longest=0.01)
RETRY_SUBJECT = "%RETRY%orders%g"
DEAD_SUBJECT = "%DEAD_RETRY%orders%g"


@dataclass
class Order:
    number: int


@pytest_asyncio.fixture
async def system() -> AsyncIterator[OfficialSystem]:
    async with official_system() as running:
        yield running


def consumer_of(system: OfficialSystem, **options: Any) -> Consumer:
    return Consumer(system.address, "orders", "g", consumer_id="c@@1", backoff=QUICK, **options)


def fill(system: OfficialSystem, *numbers: int) -> None:
    system.store("orders", "g", *(message(number) for number in numbers))


def causes(system: OfficialSystem, subject: str = RETRY_SUBJECT) -> dict[str, str]:
    """Why messages were given back, by id."""
    return {one.message_id: one.properties.get("qmq_retryCause", "") for one in system.stored[subject]}


async def test_as_many_handlers_run_as_the_concurrency_says(system: OfficialSystem) -> None:
    fill(system, *range(20))
    running = most = 0
    seen: list[str] = []

    async def handle(delivery: Delivery) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1
        seen.append(delivery.message_id)

    async with consumer_of(system) as consumer:
        task = asyncio.ensure_future(consumer.run(handle, concurrency=4))
        await eventually_async(lambda: len(seen) == 20)
        await eventually_async(lambda: "ack orders 16-19" in system.events)
    await asyncio.wait_for(task, 1)
    assert (most, sorted(seen)) == (4, sorted(f"m{number}" for number in range(20)))


async def test_an_outcome_decides_what_follows_and_the_log_says_it(
    system: OfficialSystem, caplog: pytest.LogCaptureFixture
) -> None:
    fill(system, 0, 1)
    system.store("orders", "g", Message("orders", "m2", {**CREATED, "number": "2", "qmq_times": "3"}))
    fill(system, 3, 4)

    async def handle(delivery: Delivery) -> None:
        match delivery.properties["number"] if delivery.attempt != 2 else "an attempt that succeeds":
            case "1" | "2":
                raise ZeroDivisionError("divided")
            case "3":
                await delivery.retry(cause="Mine")
            case "4":
                await delivery.ack()
                raise KeyError("after its end")

    async with consumer_of(system, attempts_max=3) as consumer:
        task = asyncio.ensure_future(consumer.run(handle))
        await eventually_async(
            lambda: system.events and system.events[-1].startswith("ack orders") and "-4" in system.events[-1]
        )
    await task
    assert causes(system) == {"m1": "ZeroDivisionError", "m3": "Mine"}
    assert causes(system, DEAD_SUBJECT) == {"m2": "ZeroDivisionError"}
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == [
        "handling message m1 failed, it is retried",
        "handling message m2 failed, it becomes a dead letter",
        "handling message m4 failed, it was settled before",
    ]


async def test_at_most_once_a_failed_message_is_lost_and_the_log_says_it(
    system: OfficialSystem, caplog: pytest.LogCaptureFixture
) -> None:
    fill(system, 0, 1)
    seen: list[str] = []

    async def handle(delivery: Delivery) -> None:
        seen.append(delivery.message_id)
        raise ZeroDivisionError

    async with consumer_of(system, at_most_once=True) as consumer:
        task = asyncio.ensure_future(consumer.run(handle))
        await eventually_async(lambda: len(seen) == 2)
    await task
    assert seen == ["m0", "m1"]
    assert not causes(system)
    assert "handling message m0 failed, it is lost, at most once" in caplog.text


async def test_bodies_are_decoded_and_those_that_cannot_be_are_retried(system: OfficialSystem) -> None:
    fill(system, 0)
    system.store("orders", "g", Message("orders", "m1", {**CREATED, "number": "many"}))
    fill(system, 2)
    seen: list[tuple[Order, str]] = []

    async def handle(order: Order, delivery: Delivery) -> None:
        seen.append((order, delivery.message_id))

    async with consumer_of(system, attempts_max=1000) as consumer:
        task = asyncio.ensure_future(consumer.run(handle))
        await eventually_async(lambda: len(seen) == 2 and causes(system))
    await task
    assert seen == [(Order(0), "m0"), (Order(2), "m2")]
    assert causes(system) == {"m1": "BodyUndecodable"}


async def test_something_cancelled_inside_a_handler_is_its_failure_and_does_not_end_the_worker(
    system: OfficialSystem,
) -> None:
    fill(system, 0, 1)
    seen: list[str] = []

    async def handle(delivery: Delivery) -> None:
        seen.append(delivery.message_id)
        if delivery.message_id == "m0" and delivery.attempt == 1:
            inner = asyncio.get_running_loop().create_future()
            inner.cancel()
            await inner

    async with consumer_of(system) as consumer:
        task = asyncio.ensure_future(consumer.run(handle))
        await eventually_async(lambda: seen == ["m0", "m1", "m0"])
    await task
    assert causes(system) == {"m0": "CancelledError"}


async def test_what_a_cancelled_run_was_processing_goes_to_the_next_who_asks(system: OfficialSystem) -> None:
    fill(system, *range(3))
    started: list[str] = []

    async def handle(delivery: Delivery) -> None:
        started.append(delivery.message_id)
        await asyncio.sleep(600)

    async with consumer_of(system) as consumer:
        task = asyncio.ensure_future(consumer.run(handle, concurrency=2))
        await eventually_async(lambda: len(started) == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        found = await consumer.pull(10, timeout=10)
        assert sorted(delivery.message_id for delivery in found) == ["m0", "m1", "m2"]
        assert not causes(system)
        for delivery in found:
            await delivery.ack()


async def test_at_most_once_what_a_cancelled_run_was_processing_is_not_delivered_again(system: OfficialSystem) -> None:
    fill(system, 0, 1)
    started = asyncio.Event()

    async def handle(delivery: Delivery) -> None:
        started.set()
        await asyncio.sleep(600)

    async with consumer_of(system, at_most_once=True) as consumer:
        task = asyncio.ensure_future(consumer.run(handle))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [delivery.message_id for delivery in await consumer.pull(10, timeout=10)] == ["m1"]


# --- closing ---------------------------------------------------------------------------------------------------------


async def test_close_lets_handlers_finish_and_starts_no_others(system: OfficialSystem) -> None:
    fill(system, *range(10))
    seen: list[str] = []

    async def handle(delivery: Delivery) -> None:
        await asyncio.sleep(3)
        seen.append(delivery.message_id)

    async with consumer_of(system) as consumer:
        task = asyncio.ensure_future(consumer.run(handle, concurrency=2))
        await eventually_async(lambda: sum(one is not None for one in consumer._workers.tasks.values()) == 2)
        assert sorted(await consumer.close()) == [f"m{number}" for number in range(2, 10)]
        await asyncio.wait_for(task, 1)
    assert sorted(seen) == ["m0", "m1"]
    assert "ack orders 0-1" in system.events


async def test_a_handler_that_never_returns_does_not_hold_up_close(
    system: OfficialSystem, caplog: pytest.LogCaptureFixture
) -> None:
    fill(system, *range(3))
    loop = asyncio.get_running_loop()

    async def handle(delivery: Delivery) -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            if delivery.message_id == "m1":
                raise
            await asyncio.sleep(100)  # it ignores that it is cancelled

    async with consumer_of(system) as consumer:
        task = asyncio.ensure_future(consumer.run(handle, concurrency=2))
        await eventually_async(lambda: sum(one is not None for one in consumer._workers.tasks.values()) == 2)
        began = loop.time()
        assert sorted(await consumer.close(timeout=4)) == ["m0", "m1", "m2"]
        assert began + 2 <= loop.time() <= began + 4
        assert "2 handlers did not finish before the consumer closed and were cancelled: m" in caplog.text
        assert not task.done()
        await asyncio.wait_for(task, 200)


async def test_a_handler_may_close_its_consumer(system: OfficialSystem) -> None:
    fill(system, 0, 1)
    async with consumer_of(system) as consumer:

        async def handle(delivery: Delivery) -> None:
            await delivery.ack()
            await consumer.close()

        await asyncio.wait_for(consumer.run(handle), 5)
    assert "ack orders 0-0" in system.events


# --- misuse, App, middleware -----------------------------------------------------------------------------------------


async def test_a_run_that_cannot_begin_says_why(system: OfficialSystem) -> None:
    async def handle(delivery: Delivery) -> None: ...

    consumer = consumer_of(system)
    with pytest.raises(ClientClosed):
        await consumer.run(handle)
    for concurrency in (0, CONCURRENCY_MAX + 1):
        with pytest.raises(LocalProtocolError, match="must be 1 to"):
            await consumer.run(handle, concurrency=concurrency)
    with pytest.raises(LocalProtocolError, match="must take the delivery"):
        await consumer.run(lambda: None)


async def test_an_app_runs_functions_and_stops_within_its_timeout(system: OfficialSystem) -> None:
    fill(system, 0, 1)
    app = App(system.address, app="test")
    seen: list[int] = []

    @app.consumer("orders", group="g", consumer_id="c@@1", backoff=QUICK)
    def handle(order: Order) -> None:
        seen.append(order.number)

    @app.consumer("payments", group="g", consumer_id="c@@2", backoff=QUICK)
    async def hang(delivery: Delivery) -> None:
        seen.append(100)
        await asyncio.sleep(600)

    system.store("payments", "g", message(5, subject="payments"))
    running = asyncio.ensure_future(app.run())
    await eventually_async(lambda: sorted(seen) == [0, 1, 100])
    began = asyncio.get_running_loop().time()
    app.stop(timeout=10)
    await running
    assert asyncio.get_running_loop().time() <= began + 10
    assert "ack orders 0-1" in system.events


class Noted(Middleware):
    """Records each call. Its hooks raise if the test sets that."""

    def __init__(self, name: str, calls: list[str], raising: str = "") -> None:
        self._name, self._calls, self._raising = name, calls, raising

    def _note(self, hook: str, delivery: Delivery, *more: object) -> None:
        self._calls.append(" ".join([self._name, hook, delivery.message_id, *map(str, more)]))
        if hook == self._raising:
            raise RuntimeError(hook)

    def after_receive(self, delivery: Delivery) -> None:
        self._note("received", delivery)

    def before_process(self, delivery: Delivery) -> None:
        self._note("process", delivery)

    def after_process(self, delivery: Delivery, error: BaseException | None) -> None:
        self._note("processed", delivery, type(error).__name__)

    def before_ack(self, delivery: Delivery) -> None:
        self._note("ack", delivery, delivery.is_settled)

    def after_ack(self, delivery: Delivery) -> None:
        self._note("acked", delivery, delivery.is_settled)

    def before_retry(self, delivery: Delivery, cause: str) -> None:
        self._note("retry", delivery, cause)

    def after_retry(self, delivery: Delivery, cause: str, is_dead_letter: bool) -> None:
        self._note("retried", delivery, cause, is_dead_letter)


@pytest.mark.parametrize("raising", ["", "received", "process", "processed", "ack", "acked", "retry", "retried"])
async def test_middleware_is_called_around_each_step_and_its_failures_change_nothing(
    system: OfficialSystem, raising: str
) -> None:
    fill(system, 0)
    system.store("orders", "g", Message("orders", "m1", {**CREATED, "number": "1", "qmq_times": "2"}))
    calls: list[str] = []

    async def handle(delivery: Delivery) -> None:
        calls.append(f"handle {delivery.message_id}")
        if delivery.message_id == "m1":
            raise ZeroDivisionError

    middleware = [Noted("a", calls, raising), Noted("b", calls)]
    async with consumer_of(system, attempts_max=2, middleware=middleware) as consumer:
        task = asyncio.ensure_future(consumer.run(handle))
        await eventually_async(lambda: calls and calls[-1].startswith("a retried"))
        failures = sum(job.failures for job in consumer.supervisor.status() if job.name.startswith("middleware"))
    await task
    assert calls == [
        "b received m0", "a received m0", "b received m1", "a received m1",
        "a process m0", "b process m0", "handle m0", "b processed m0 NoneType", "a processed m0 NoneType",
        "a ack m0 False", "b ack m0 False", "b acked m0 True", "a acked m0 True",
        "a process m1", "b process m1", "handle m1", "b processed m1 ZeroDivisionError", "a processed m1 ZeroDivisionError",
        "a retry m1 ZeroDivisionError", "b retry m1 ZeroDivisionError",
        "b retried m1 ZeroDivisionError True", "a retried m1 ZeroDivisionError True",
    ]  # fmt: skip
    assert causes(system, DEAD_SUBJECT) == {"m1": "ZeroDivisionError"}
    assert bool(failures) == bool(raising)


async def test_a_batch_and_a_block_call_the_middleware_too(system: OfficialSystem) -> None:
    fill(system, 0, 1, 2)
    calls: list[str] = []
    async with consumer_of(system, middleware=[Noted("a", calls)]) as consumer:
        batch = await anext(consumer.batches(3))
        del calls[:]
        async with batch[0]:
            calls.append("block")
        await batch.ack()
    assert calls == [
        "a process m0", "block", "a processed m0 NoneType", "a ack m0 False", "a acked m0 True",
        "a ack m1 False", "a acked m1 True", "a ack m2 False", "a acked m2 True",
    ]  # fmt: skip
    assert "ack orders 0-2" in system.events


async def test_a_run_of_a_consumer_that_closes_by_itself_ends_with_the_app(system: OfficialSystem) -> None:
    fill(system, 0)
    app = App(system.address)
    consumers: list[Consumer] = []
    start = Consumer.start

    @app.consumer("orders", group="g", consumer_id="c@@1", backoff=QUICK)
    async def handle(delivery: Delivery) -> None:
        await delivery.ack()
        await consumers[0].close()

    with pytest.MonkeyPatch.context() as patch:

        async def noted(consumer: Consumer) -> None:
            consumers.append(consumer)
            await start(consumer)

        patch.setattr(Consumer, "start", noted)
        await asyncio.wait_for(app.run(), 30)


async def test_closing_during_a_retry_that_cannot_be_stored_leaves_the_message_to_the_brokers(
    system: OfficialSystem, caplog: pytest.LogCaptureFixture
) -> None:
    fill(system, 0)

    async def handle(delivery: Delivery) -> None:
        system.is_silent = True
        raise ZeroDivisionError

    timeouts = Timeouts(send=1, ack=2, delivery=600)
    async with consumer_of(system, timeouts=timeouts) as consumer:
        task = asyncio.ensure_future(consumer.run(handle))
        await eventually_async(lambda: system.is_silent)
        began = asyncio.get_running_loop().time()
        assert await consumer.close() == ["m0"]
        assert asyncio.get_running_loop().time() <= began + 4
    await asyncio.wait_for(task, 5)
    assert not causes(system)
