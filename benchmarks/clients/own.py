"""Our client. The metaserver and one broker run as processes; each receipt comes after the broker's fdatasync."""

import asyncio
import subprocess
import sys
import time

from benchmarks.clients.job import BATCH, BODY_BYTES, Job, Stopwatch, chunks, main
from qmq import Consumer, Producer, Receipt
from qmq.errors import SendFailed

CONNECT_SECONDS = 30.0
CONCURRENT = 20_000
"""Calls of `send` at the same time: twice the default queue."""
BATCH_SECONDS = 0.1
PENDING_HIGH, PENDING_LOW = 10_000, 5_000
"""Messages without a receipt at which an application with callbacks stops sending, and at which it continues."""


def fill(job: Job) -> None:
    """Messages to receive, by `qmq bench`: sending takes several times as long as receiving."""
    command = [
        sys.executable, "-m", "qmq.cli", "bench", "produce", job.topic, "--count", str(job.total), "--size", str(BODY_BYTES),
        "--batch", str(BATCH), "--meta", job.address,
    ]  # fmt: skip
    stopwatch = Stopwatch()
    stopwatch.start()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    stopwatch.stop(job.total)


async def send_soon(job: Job) -> None:
    """`send_soon`, and the futures of CHUNK messages gathered."""
    async with Producer(job.address, app="benchmark") as producer:

        async def send(messages: int) -> None:
            for bodies in chunks(messages):
                await asyncio.gather(*[producer.send_soon(job.topic, body) for body in bodies])

        await send(job.warm_up)
        stopwatch = Stopwatch()
        stopwatch.start()
        await send(job.messages)
        stopwatch.stop(job.messages)


async def send_soon_callback(job: Job) -> None:
    """`send_soon` with a callback; the application stops at PENDING_HIGH messages without a receipt."""
    async with Producer(job.address, app="benchmark") as producer:
        pending = stored = 0
        has_room, is_done = asyncio.Event(), asyncio.Event()

        def settled(outcome: Receipt | SendFailed) -> None:
            nonlocal pending, stored
            pending -= 1
            stored += isinstance(outcome, Receipt)
            if pending == PENDING_LOW:
                has_room.set()
            if pending == 0:
                is_done.set()

        async def send(messages: int) -> None:
            nonlocal pending
            for bodies in chunks(messages):
                for body in bodies:
                    if pending == PENDING_HIGH:
                        has_room.clear()
                        await has_room.wait()
                    producer.send_soon(job.topic, body, callback=settled)
                    pending += 1
            if pending:
                is_done.clear()  # all messages sent so far may have been stored while this coroutine did not run
                await is_done.wait()

        await send(job.warm_up)
        stopwatch = Stopwatch()
        stopwatch.start()
        await send(job.messages)
        if stored != job.total:
            raise RuntimeError(f"{stored} of {job.total} messages are stored")
        stopwatch.stop(job.messages)


async def send_many(job: Job) -> None:
    """`send_many` of CHUNK bodies."""
    async with Producer(job.address, app="benchmark") as producer:

        async def send(messages: int) -> None:
            for bodies in chunks(messages):
                await producer.send_many(job.topic, bodies)

        await send(job.warm_up)
        stopwatch = Stopwatch()
        stopwatch.start()
        await send(job.messages)
        stopwatch.stop(job.messages)


async def send_concurrently(job: Job) -> None:
    """CONCURRENT calls of `send` at the same time, gathered."""
    async with Producer(job.address, app="benchmark") as producer:

        async def send(messages: int) -> None:
            bodies = [body for chunk in chunks(messages) for body in chunk]
            for begin in range(0, messages, CONCURRENT):
                burst = bodies[begin : begin + CONCURRENT]
                await asyncio.gather(*[producer.send(job.topic, body) for body in burst])

        await send(job.warm_up)
        stopwatch = Stopwatch()
        stopwatch.start()
        await send(job.messages)
        stopwatch.stop(job.messages)


async def send_one_by_one(job: Job) -> None:
    """`send`, each after the receipt of the one before."""
    async with Producer(job.address, app="benchmark") as producer:
        for body in next(chunks(job.warm_up)):
            await producer.send(job.topic, body)
        latencies = []
        stopwatch = Stopwatch()
        stopwatch.start()
        for bodies in chunks(job.messages):
            for body in bodies:
                began = time.perf_counter()
                await producer.send(job.topic, body)
                latencies.append(time.perf_counter() - began)
        stopwatch.stop(job.messages, latencies=latencies)


def _consumer(job: Job) -> Consumer:
    return Consumer(job.address, job.topic, job.group, app="benchmark", start="earliest")


async def consume(job: Job) -> None:
    """`async for`, and `ack` of each message."""
    async with _consumer(job) as consumer:
        stopwatch = Stopwatch()
        warm_up, total = job.warm_up, job.total
        count = size = 0
        async for delivery in consumer:
            size += len(delivery.body or "")
            await delivery.ack()
            count += 1
            if count == warm_up:
                stopwatch.start()
                size = 0
            elif count == total:
                break
        stopwatch.stop(job.messages, size)


async def consume_batches(job: Job) -> None:
    """`batches` of up to BATCH messages, each acknowledged as a whole."""
    async with _consumer(job) as consumer:
        stopwatch = Stopwatch()
        count = size = began_at = 0
        async for batch in consumer.batches(BATCH, BATCH_SECONDS):
            for delivery in batch:
                size += len(delivery.body or "")
            await batch.ack()
            count += len(batch)
            if not began_at and count >= job.warm_up:
                began_at = count
                size = 0
                stopwatch.start()
            elif count >= job.total:
                break
        stopwatch.stop(count - began_at, size)


if __name__ == "__main__":
    main(
        {
            "fill": fill,
            "send_soon": send_soon,
            "send_soon_callback": send_soon_callback,
            "send_many": send_many,
            "send_concurrently": send_concurrently,
            "send_one_by_one": send_one_by_one,
            "consume": consume,
            "consume_batches": consume_batches,
        }
    )
