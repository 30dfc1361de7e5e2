"""`Producer.send_together`: queues all of the outbox's messages or none, and sends them in one request."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from qmq import Limits, Producer, Receipt, Timeouts
from qmq.client.outgoing import Outcome
from qmq.client.sender import SETTLED_AT_ONCE
from qmq.errors import ClientClosed, QueueFull, SendFailed
from tests.support.drivers.in_process import SmallSystem, now_ms, small_system, stored_in

UNREACHABLE = Timeouts(connect=1, route=1, delivery=600)


def encoded(producer: Producer, numbers: Sequence[int], due_ms: int | None = None) -> list[tuple[str, bytes]]:
    found = []
    for number in numbers:
        message = producer.observed.message("orders", {"number": number}, (), f"m{number}", due_ms)
        found.append((message.message_id, producer.observed.entry(message)))
    return found


def together(
    producer: Producer, messages: list[tuple[str, bytes]], *, seconds: float = 20.0, is_delayed: bool = False
) -> "asyncio.Future[list[Outcome]]":
    futures: list[asyncio.Future[Outcome]] = [asyncio.get_running_loop().create_future() for _ in messages]
    queued = [(*message, future.set_result) for message, future in zip(messages, futures, strict=True)]
    producer.send_together("orders", queued, is_delayed=is_delayed, seconds=seconds)
    return asyncio.gather(*futures)


def numbers(system: SmallSystem) -> list[int]:
    return [int(message.properties["number"]) for message in system.stored("orders")]


async def test_messages_are_stored_one_behind_another_in_one_broker_group(tmp_path: Path, sent: list[int]) -> None:
    async with small_system(tmp_path, groups=2, with_delay=False) as system, Producer(system.meta_url) as producer:
        # Others of the subject are queued before and behind, and join neither.
        others = [producer.send_soon("orders", {"number": -1})]
        waiting = together(producer, encoded(producer, range(10)))
        others.append(producer.send_soon("orders", {"number": -2}))
        outcomes = await waiting
        await asyncio.gather(*others)
        assert sorted(sent) == [1, 1, 10]
        [group] = {outcome.broker_group for outcome in outcomes if isinstance(outcome, Receipt)}
        assert [outcome.message_id for outcome in outcomes if isinstance(outcome, Receipt)] == [
            f"m{n}" for n in range(10)
        ]
        found = [int(message.properties["number"]) for message in stored_in([system.brokers[group]], "orders")]
        begin = found.index(0)
        assert found[begin : begin + 10] == list(range(10))


async def test_more_than_a_batch_takes_several_requests_in_their_order(tmp_path: Path, sent: list[int]) -> None:
    limits = Limits(batch_messages=4, batches_in_flight=1)
    async with small_system(tmp_path, with_delay=False) as system, Producer(system.meta_url, limits=limits) as producer:
        outcomes = await together(producer, encoded(producer, range(10)))
        assert sent == [4, 4, 2]
        assert numbers(system) == list(range(10))
        assert [type(outcome) for outcome in outcomes] == [Receipt] * 10
        del sent[:]
        size = len(encoded(producer, [1])[0][1])
    limits = Limits(batch_bytes=3 * size, batches_in_flight=1)
    async with (
        small_system(tmp_path / "2", with_delay=False) as system,
        Producer(system.meta_url, limits=limits) as producer,
    ):
        await together(producer, encoded(producer, range(1, 8)))
        assert sent == [3, 3, 1]


async def test_single_messages_share_a_request(tmp_path: Path, sent: list[int]) -> None:
    async with small_system(tmp_path, with_delay=False) as system, Producer(system.meta_url) as producer:
        await producer.send("orders", {"number": -1})
        del sent[:]
        await asyncio.gather(*(together(producer, encoded(producer, [number])) for number in range(5)))
        assert sent == [5]
        assert numbers(system) == [-1, *range(5)]


async def test_a_full_queue_takes_all_or_none(tmp_path: Path) -> None:
    limits = Limits(queue_messages=10, batches_in_flight=0)
    async with small_system(tmp_path, with_delay=False) as system:
        producer = Producer(system.meta_url, limits=limits)
        await producer.start()
        together(producer, encoded(producer, range(8)))
        with pytest.raises(QueueFull):
            together(producer, encoded(producer, range(8, 11)))
        assert producer.waiting == 8
        together(producer, encoded(producer, range(8, 10)))
        assert len(await producer.close(timeout=0)) == 10


async def test_each_gets_its_outcome_in_time(tmp_path: Path) -> None:
    async with Producer("127.0.0.1:1", timeouts=UNREACHABLE) as producer:
        loop = asyncio.get_running_loop()
        began = loop.time()
        for messages in ([1], [2, 3]):
            outcomes = await together(producer, encoded(producer, messages), seconds=5.0)
            assert [type(outcome) for outcome in outcomes] == [SendFailed] * len(messages)
            assert all(isinstance(outcome, SendFailed) and outcome.retriable for outcome in outcomes)
        assert loop.time() - began < 2 * (5.0 + 1.5)


async def test_messages_whose_time_is_over_fail_a_few_in_each_step_of_the_loop() -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    outcomes: list[Outcome] = []
    after_a_step: list[int] = []

    def settled(outcome: Outcome) -> None:
        if not outcomes:
            loop.call_soon(lambda: after_a_step.append(len(outcomes)))
        outcomes.append(outcome)
        if len(outcomes) == count:
            done.set()

    count = 2 * SETTLED_AT_ONCE + 1
    async with Producer("127.0.0.1:1", timeouts=UNREACHABLE) as producer:
        for message in encoded(producer, range(count)):
            producer.send_together("orders", [(*message, settled)], is_delayed=False, seconds=5.0)
        await done.wait()
    assert after_a_step == [SETTLED_AT_ONCE]


async def test_closing_while_messages_fail_leaves_none_without_an_outcome() -> None:
    closing: list[asyncio.Task[list[str]]] = []
    outcomes: list[Outcome] = []
    count = 4 * SETTLED_AT_ONCE

    def settled(outcome: Outcome) -> None:
        outcomes.append(outcome)
        if not closing:
            closing.append(asyncio.ensure_future(producer.close(timeout=0)))
            begun.set()

    begun = asyncio.Event()
    producer = Producer("127.0.0.1:1", timeouts=UNREACHABLE)
    await producer.start()
    for message in encoded(producer, range(count)):
        producer.send_together("orders", [(*message, settled)], is_delayed=False, seconds=5.0)
    await begun.wait()
    left = await closing[0]
    assert 0 < len(left) < count
    assert len(outcomes) == count


async def test_delayed_messages_go_to_a_delay_node(tmp_path: Path) -> None:
    async with small_system(tmp_path) as system, Producer(system.meta_url) as producer:
        due_ms = now_ms() + 3_600_000
        outcomes = await together(producer, encoded(producer, [1, 2], due_ms), is_delayed=True)
        assert {outcome.broker_group for outcome in outcomes if isinstance(outcome, Receipt)} == {"d1"}
        assert not numbers(system)


async def test_a_closed_producer_takes_none(tmp_path: Path) -> None:
    async with small_system(tmp_path, with_delay=False) as system:
        async with Producer(system.meta_url) as producer:
            messages = encoded(producer, [1])
        with pytest.raises(ClientClosed):
            together(producer, messages)


async def test_a_callback_that_raises_is_reported_and_affects_no_message(tmp_path: Path) -> None:
    def fail(outcome: Outcome) -> None:
        raise ZeroDivisionError("of the outbox")

    async with small_system(tmp_path, with_delay=False) as system, Producer(system.meta_url) as producer:
        for messages in ([1], [2, 3]):
            queued = [(*message, fail) for message in encoded(producer, messages)]
            producer.send_together("orders", queued, is_delayed=False, seconds=20.0)
        await together(producer, encoded(producer, [4, 5]))
        await producer.flush()
        assert sorted(numbers(system)) == [1, 2, 3, 4, 5]
        (job,) = (job for job in producer.supervisor.status() if job.name == "send_callback")
        assert job.failures == 3
