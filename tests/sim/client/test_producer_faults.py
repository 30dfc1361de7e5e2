"""Every call of a producer returns or raises within its time, and memory stays bounded, whatever is away or stands still."""

import asyncio

import pytest

from broker_node.broker import Broker
from qmq import Limits, Producer, Receipt, Timeouts
from qmq.errors import QueueFull, SendFailed, SendManyFailed
from tests.sim.world.cluster import Cluster
from tests.sim.world.loop import Process, running_loop
from tests.support.drivers.in_process import stored_in
from tests.support.promises import judging
from tests.support.waiting import eventually_async

TIMEOUTS = Timeouts(connect=1, send=2, delivery=10, route=3)
SLACK_SECONDS = 1.0
"""How often a producer looks for expired messages."""


async def outcomes_of(producer: Producer, count: int) -> list[object]:
    """Of so many concurrent sends; each ends in its time."""
    loop = running_loop()
    took: list[float] = []

    async def send(number: int) -> Receipt:
        began = loop.time()
        try:
            return await producer.send("orders", {"number": number})
        finally:
            took.append(loop.time() - began)

    found = await asyncio.gather(*(send(number) for number in range(count)), return_exceptions=True)
    assert max(took) <= TIMEOUTS.delivery + SLACK_SECONDS
    assert {type(outcome) for outcome in found} <= {Receipt, SendFailed}
    return list(found)


def holds(producer: Producer) -> int:
    """Messages in the queue."""
    return producer._sender._accumulator.messages


@pytest.mark.parametrize("away", ["everything", "brokers", "answers", "metaserver"])
async def test_sends_end_in_their_time_and_closing_does(away: str) -> None:
    """Nothing listens; brokers are dead; brokers accept and never answer; only the metaserver is dead."""
    loop = running_loop()
    limits = Limits(queue_messages=100, batch_messages=30, batches_in_flight=2)
    async with Cluster(loop, brokers=2, delays=0) as cluster:
        producer = Producer(cluster.meta_url, timeouts=TIMEOUTS, limits=limits)
        await producer.start()
        await producer.send("orders", {"number": -1})
        for host in cluster.brokers.values():
            assert host.process is not None
            if away == "answers":
                host.process.pause()
            elif away != "metaserver":
                host.kill()
        if away in ("everything", "metaserver"):
            cluster.meta.kill()
        found = await outcomes_of(producer, 1_000)
        is_stored = [isinstance(outcome, Receipt) for outcome in found]
        assert all(is_stored) if away == "metaserver" else not any(is_stored)
        assert producer.waiting == holds(producer) == 0
        many = asyncio.create_task(producer.send_many("orders", ({"number": number} for number in range(500))))
        began = loop.time()
        if away == "metaserver":
            assert len(await many) == 500
        else:
            with pytest.raises(SendManyFailed):
                await many
            # Each batch has its own time, from when its first body was taken.
            assert loop.time() - began <= 500 / 100 * (TIMEOUTS.delivery + SLACK_SECONDS)
        left = [producer.send_soon("orders", {"number": number}, message_id=f"m{number}") for number in range(100)]
        if away != "metaserver":
            with pytest.raises(QueueFull):
                for _ in range(200):
                    producer.send_soon("orders", "more than the queue and the batches in flight take")
        began = loop.time()
        unsent = await producer.close(timeout=2.0)
        assert loop.time() - began <= 2.0 + SLACK_SECONDS
        failed = [future for future in left if future.exception() is not None]
        assert all(future.done() for future in left)
        assert len({name for name in unsent if name.startswith("m")}) == len(failed)
        assert bool(failed) == (away != "metaserver")
        for host in (*cluster.brokers.values(), cluster.meta):
            if host.process is not None and host.process.is_paused:
                host.process.resume()


async def test_a_broker_that_is_killed_and_started_20_times_loses_nothing_that_has_a_receipt() -> None:
    loop = running_loop()
    limits = Limits(queue_messages=200, batch_messages=20, batches_in_flight=4)
    returned = limits.batches_in_flight * limits.batch_messages  # those that were in flight wait again
    async with Cluster(loop, brokers=1, delays=0) as cluster:
        async with Producer(cluster.meta_url, timeouts=TIMEOUTS, limits=limits) as producer:
            await producer.send("orders", {"number": -1})
            stored: list[Receipt] = []
            stop = asyncio.Event()

            async def send() -> None:
                while not stop.is_set():
                    for outcome in await outcomes_of(producer, 50):
                        if isinstance(outcome, Receipt):
                            stored.append(outcome)
                    assert holds(producer) <= limits.queue_messages + returned

            sending = [asyncio.create_task(send()) for _ in range(8)]
            host = cluster.brokers["g1"]
            for _ in range(20):
                before = len(stored)
                await eventually_async(lambda before=before: len(stored) >= before + 200, 120)  # type: ignore[misc]
                host.kill()
                await asyncio.sleep(1.0)
                host.start()
            stop.set()
            await asyncio.gather(*sending)
            assert host.starts == 21
            assert producer.waiting == 0
        with judging():
            assert isinstance(host.server, Broker)
            names = {message.message_id for message in stored_in([host.server], "orders")}
            assert {receipt.message_id for receipt in stored} <= names


async def test_a_group_that_does_not_answer_delays_at_most_half_of_the_batches_in_flight() -> None:
    loop = running_loop()
    limits = Limits(batch_messages=1, batches_in_flight=8)
    async with (
        Cluster(loop, brokers=2, delays=0) as cluster,
        Producer(cluster.meta_url, timeouts=TIMEOUTS, limits=limits) as producer,
    ):
        # Until both groups have a connection.
        groups = {(await producer.send("orders", {"number": number})).broker_group for number in range(10)}
        assert groups == {"g1", "g2"}
        process = cluster.brokers["g1"].process
        assert process is not None
        process.pause()
        began = loop.time()
        sends = [asyncio.create_task(producer.send("orders", {"number": number})) for number in range(100)]
        await eventually_async(lambda: sum(send.done() for send in sends) >= 96, TIMEOUTS.send / 2)
        receipts = await asyncio.gather(*sends)
        assert sum(receipt.attempts > 1 for receipt in receipts) == limits.batches_in_flight // 2
        assert TIMEOUTS.send <= loop.time() - began <= TIMEOUTS.send + SLACK_SECONDS
        assert {receipt.broker_group for receipt in receipts} == {"g2"}
        process.resume()


async def test_a_process_that_stands_still_for_5_s_takes_the_answers_that_came_meanwhile() -> None:
    loop = running_loop()
    async with Cluster(loop, brokers=1, delays=0) as cluster:
        client = Process(loop, "client")

        async def run() -> list[Receipt]:
            async with Producer(cluster.meta_url, timeouts=Timeouts(send=2, delivery=3)) as producer:
                await producer.send("orders", {"number": -1})
                sends = [producer.send_soon("orders", {"number": number}) for number in range(50)]
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                client.stall(5.0)
                return await asyncio.gather(*sends)

        receipts = await client.start(run())
        assert [receipt.attempts for receipt in receipts] == [1] * 50


async def test_messages_expire_in_time_while_other_subjects_keep_the_producer_awake() -> None:
    loop = running_loop()
    limits = Limits(batch_messages=1, batches_in_flight=1)
    async with Cluster(loop, brokers=1, delays=0) as cluster:
        timeouts = Timeouts(send=600, delivery=700)
        async with Producer(cluster.meta_url, timeouts=timeouts, limits=limits) as producer:
            await producer.send("orders", {"number": -1})
            process = cluster.brokers["g1"].process
            assert process is not None
            process.pause()
            producer.send_soon("orders", "in flight")
            producer._sender.queue._delivery_seconds = TIMEOUTS.delivery
            began = loop.time()
            late = producer.send_soon("orders", "queued")

            async def keep_awake() -> None:
                for number in range(1 << 20):
                    producer.send_soon(f"other{number}", "x")
                    await asyncio.sleep(0.3)

            awake = asyncio.create_task(keep_awake())
            with pytest.raises(SendFailed):
                await late
            assert loop.time() - began <= TIMEOUTS.delivery + SLACK_SECONDS + 0.3
            awake.cancel()
            process.resume()
