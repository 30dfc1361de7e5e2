"""A producer with more concurrent sends than its queue takes."""

import asyncio
from pathlib import Path

import pytest

from qmq import Limits, Producer, Timeouts
from qmq.client.accumulator import Accumulator
from qmq.errors import ClientFailed, QueueFull, SendFailed
from tests.support.drivers.in_process import small_system
from tests.support.waiting import eventually_async

SENDS = 20_000
BATCHES_MAX = 60
"""20,000 messages are 40 full batches; a few more are not full."""


@pytest.mark.slow
async def test_more_sends_than_the_queue_takes_go_in_full_batches(tmp_path: Path, sent: list[int]) -> None:
    async with small_system(tmp_path, with_delay=False) as system, Producer(system.meta_url) as producer:
        await producer.send("orders", "first")  # the route is known
        sent.clear()
        receipts = await asyncio.gather(*(producer.send("orders", {"number": number}) for number in range(SENDS)))
        assert len(receipts) == SENDS
        assert len(sent) <= BATCHES_MAX
        assert producer.waiting == 0
        assert len(system.stored("orders")) == SENDS + 1


async def test_senders_that_wait_for_room_come_first_in_the_order_they_came(tmp_path: Path) -> None:
    limits = Limits(queue_messages=4, batch_messages=3, batches_in_flight=1)
    async with small_system(tmp_path, with_delay=False) as system, Producer(system.meta_url, limits=limits) as producer:
        sends = [asyncio.create_task(producer.send("orders", {"number": number})) for number in range(50)]
        await asyncio.sleep(0)
        assert producer.waiting == 50
        with pytest.raises(QueueFull):
            producer.send_soon("orders", "takes no room that others wait for")
        sends[10].cancel()
        sends[49].cancel()
        receipts = await asyncio.gather(*sends, return_exceptions=True)
        assert [i for i, r in enumerate(receipts) if isinstance(r, BaseException)] == [10, 49]
        numbers = [int(message.properties["number"]) for message in system.stored("orders")]
        assert numbers == [number for number in range(50) if number not in (10, 49)], "a cancelled one is never queued"
        await producer.send("orders", {"number": 50})
        assert producer.waiting == 0


async def test_a_message_larger_than_the_whole_queue_is_sent_alone(tmp_path: Path) -> None:
    limits = Limits(queue_bytes=1_000)
    async with small_system(tmp_path, with_delay=False) as system, Producer(system.meta_url, limits=limits) as producer:
        sends = [producer.send("orders", {"data": "x" * size}) for size in (10, 5_000, 10)]
        assert len(await asyncio.wait_for(asyncio.gather(*sends), 20)) == 3


async def test_when_the_sender_fails_senders_that_wait_for_room_fail_too(monkeypatch: pytest.MonkeyPatch) -> None:
    error = ValueError("injected")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(Accumulator, "take", fail)
    producer = Producer("127.0.0.1:1", limits=Limits(queue_messages=2), timeouts=Timeouts(delivery=600, route=600))
    await producer.start()
    results = await asyncio.wait_for(
        asyncio.gather(*(producer.send("orders", "x") for _ in range(5)), return_exceptions=True), 20
    )
    results.append(await asyncio.wait_for(asyncio.gather(producer.send("orders", "x"), return_exceptions=True), 20))
    for result in [*results[:5], *results[5]]:  # type: ignore[misc]
        assert isinstance(result, SendFailed)
        assert result.code == "client.failed"
        assert "'sender'" in str(result)
        assert result.__cause__ is error
    with pytest.raises(ClientFailed, match="'sender'") as raised:
        await asyncio.wait_for(producer.close(), 20)
    assert raised.value.__cause__ is error
    await eventually_async(lambda: producer.waiting == 0)
