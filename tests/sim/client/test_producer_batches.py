"""How a producer forms batches, and `send_many` and callbacks."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from qmq import Limits, Producer, Receipt, Timeouts
from qmq.client.outgoing import Outcome
from qmq.errors import ClientClosed, IllegalName, LocalProtocolError, QueueFull, SendFailed, SendManyFailed
from tests.support.drivers.in_process import SmallSystem, small_system
from tests.support.waiting import eventually_async


def numbers(system: SmallSystem) -> list[int]:
    return [int(message.properties["number"]) for message in system.stored("orders")]


async def test_a_full_batch_is_sent_by_the_call_that_fills_it(tmp_path: Path, sent: list[int]) -> None:
    limits = Limits(batch_messages=10)
    async with small_system(tmp_path, with_delay=False) as system, Producer(system.meta_url, limits=limits) as producer:
        await producer.send("orders", {"number": -1})
        sent.clear()
        futures = [producer.send_soon("orders", {"number": number}) for number in range(25)]
        assert sent == [10, 10], "before anything else has run"
        receipts = await asyncio.gather(*futures)
        assert sent == [10, 10, 5]
        assert [receipt.attempts for receipt in receipts] == [1] * 25
        assert numbers(system) == list(range(-1, 25))


async def test_a_lone_message_waits_for_no_other_and_messages_behind_one_in_flight_share_a_batch(
    tmp_path: Path, sent: list[int]
) -> None:
    async with small_system(tmp_path, with_delay=False) as system, Producer(system.meta_url, linger=600.0) as producer:
        await producer.send("orders", {"number": -1})
        sent.clear()
        loop = asyncio.get_running_loop()
        began = loop.time()
        await producer.send("orders", {"number": 0})
        assert loop.time() < began + 1.0
        first = producer.send_soon("orders", {"number": 1})
        await eventually_async(lambda: len(sent) == 2)
        others = [producer.send_soon("orders", {"number": number}) for number in range(2, 6)]
        await asyncio.gather(first, *others)
        assert sent == [1, 1, 4], "at once when the first is answered, long before the linger is over"


async def test_send_many_returns_receipts_in_the_order_of_the_bodies(tmp_path: Path, sent: list[int]) -> None:
    limits = Limits(batch_messages=10, queue_messages=20, batches_in_flight=2)
    async with small_system(tmp_path, with_delay=False) as system, Producer(system.meta_url, limits=limits) as producer:
        most = 0

        def bodies() -> Iterator[dict[str, int]]:
            nonlocal most
            for number in range(95):
                most = max(most, producer.waiting)
                yield {"number": number}

        receipts = await producer.send_many("orders", bodies(), tags=["bulk"])
        stored = system.stored("orders")
        assert [receipt.message_id for receipt in receipts] == [message.message_id for message in stored]
        assert numbers(system) == list(range(95))
        assert {message.tags for message in stored} == {("bulk",)}
        assert sorted(sent, reverse=True) == [10] * 9 + [5]
        assert most <= limits.queue_messages + limits.batches_in_flight * limits.batch_messages
        assert producer.waiting == 0
        assert await producer.send_many("orders", []) == []


async def test_send_many_and_senders_wait_for_room_in_the_order_they_came(tmp_path: Path) -> None:
    limits = Limits(queue_messages=4, batch_messages=4, batches_in_flight=1)
    async with small_system(tmp_path, with_delay=False) as system, Producer(system.meta_url, limits=limits) as producer:
        await producer.send("orders", {"number": -1})
        work = [asyncio.create_task(producer.send("orders", {"number": number})) for number in range(9)]
        await asyncio.sleep(0)
        work.append(asyncio.create_task(producer.send_many("orders", [{"number": n} for n in (9, 10)])))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        work += [asyncio.create_task(producer.send("orders", {"number": number})) for number in range(11, 15)]
        await asyncio.gather(*work)
        assert numbers(system) == list(range(-1, 15))


async def test_send_many_reports_the_outcome_of_each_message_when_some_fail(tmp_path: Path) -> None:
    limits = Limits(batch_messages=3)
    async with small_system(tmp_path, with_delay=False) as system, Producer(system.meta_url, limits=limits) as producer:
        bodies = ["0", "x" * 40_000_000, "1", {"qmq_times": "3"}, "2", "3"]
        with pytest.raises(SendManyFailed) as raised:
            await producer.send_many("orders", bodies)  # type: ignore[arg-type]
        kinds = [type(outcome) for outcome in raised.value.outcomes]
        assert [kind is Receipt for kind in kinds] == [True, False, True, False, True, True]
        assert isinstance(raised.value.outcomes[3], LocalProtocolError)
        assert "2 of 6 messages failed" in str(raised.value)
        assert isinstance(raised.value, SendFailed)
        assert [message.properties["data"] for message in system.stored("orders")] == ["0", "1", "2", "3"]
        with pytest.raises(IllegalName):
            await producer.send_many("a b", ["x"])
        assert producer.waiting == 0


async def test_a_cancelled_send_many_queues_no_more(tmp_path: Path) -> None:
    limits = Limits(batch_messages=2, queue_messages=2, batches_in_flight=0)
    async with small_system(tmp_path, with_delay=False) as system:
        producer = Producer(system.meta_url, limits=limits)
        await producer.start()
        many = asyncio.create_task(producer.send_many("orders", (f"{number}" for number in range(100))))
        await eventually_async(lambda: producer.waiting == 4)
        many.cancel()
        await asyncio.wait([many])
        assert producer.waiting == 2, "the batch that was in the queue"
        assert len(await producer.close(timeout=0)) == 2
        assert producer.waiting == 0


async def test_send_many_ends_when_the_producer_is_closed(tmp_path: Path) -> None:
    limits = Limits(batch_messages=2, queue_messages=2, batches_in_flight=0)
    async with small_system(tmp_path, with_delay=False) as system:
        producer = Producer(system.meta_url, limits=limits)
        await producer.start()
        many = asyncio.create_task(producer.send_many("orders", (f"{number}" for number in range(1 << 40))))
        await eventually_async(lambda: producer.waiting == 4)
        assert len(await producer.close(timeout=0)) == 4
        with pytest.raises(SendManyFailed) as raised:
            await many
        assert len(raised.value.outcomes) == 5, "two batches, and the place where it ended"
        assert isinstance(raised.value.outcomes[-1], ClientClosed)


async def test_callbacks_get_the_outcome_and_one_that_raises_affects_no_message(tmp_path: Path) -> None:
    outcomes: list[Outcome] = []
    async with small_system(tmp_path, with_delay=False) as system, Producer(system.meta_url) as producer:

        def again(outcome: Outcome) -> None:
            outcomes.append(outcome)
            producer.send_soon("orders", {"number": 3}, callback=outcomes.append)

        def fail(outcome: Outcome) -> None:
            outcomes.append(outcome)
            raise ZeroDivisionError("of the application")

        assert producer.send_soon("orders", {"number": 0}, callback=fail) is None  # type: ignore[func-returns-value]
        producer.send_soon("orders", {"number": 1}, callback=again)
        last = await producer.send_soon("orders", {"number": 2})
        await producer.flush()
        assert isinstance(last, Receipt)
        assert [type(outcome) for outcome in outcomes] == [Receipt] * 3
        assert numbers(system) == [0, 1, 2, 3]
        (job,) = (job for job in producer.supervisor.status() if job.name == "send_callback")
        assert (job.failures, job.last_error) == (1, "ZeroDivisionError: of the application")


async def test_callbacks_get_the_error_of_messages_that_are_not_stored() -> None:
    outcomes: list[Outcome] = []
    limits = Limits(queue_messages=3)
    timeouts = Timeouts(connect=0.2, route=0.3, delivery=0.8)
    async with Producer("127.0.0.1:1", limits=limits, timeouts=timeouts) as producer:
        for _ in range(3):
            producer.send_soon("orders", "x", callback=outcomes.append)
        with pytest.raises(QueueFull):
            producer.send_soon("orders", "x", callback=outcomes.append)
        await producer.flush()
    assert [type(outcome) for outcome in outcomes] == [SendFailed] * 3
    assert all("it is not stored" in str(outcome) for outcome in outcomes)
