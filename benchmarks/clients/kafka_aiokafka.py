"""aiokafka: asyncio, with the record batches of Kafka encoded in C."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from benchmarks.clients.job import BATCH, Job, Stopwatch, bytes_chunks, main

LARGE_BATCH_BYTES = 128 << 10
"""Of a batch of records, for the producer whose default of 16 KiB is replaced."""


async def produce(job: Job) -> None:
    """`send`, and the futures of CHUNK messages gathered."""
    await _produce(job, AIOKafkaProducer(bootstrap_servers=job.address, acks="all"))


async def produce_large_batches(job: Job) -> None:
    """As `produce`, with batches of LARGE_BATCH_BYTES."""
    await _produce(job, AIOKafkaProducer(bootstrap_servers=job.address, acks="all", max_batch_size=LARGE_BATCH_BYTES))


async def _produce(job: Job, producer: AIOKafkaProducer) -> None:
    async with producer:

        async def send(messages: int) -> None:
            for bodies in bytes_chunks(messages):
                await asyncio.gather(*[await producer.send(job.topic, body) for body in bodies])

        await send(job.warm_up)
        stopwatch = Stopwatch()
        stopwatch.start()
        await send(job.messages)
        stopwatch.stop(job.messages)


def _consumer(job: Job) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(job.topic, bootstrap_servers=job.address, group_id=job.group, auto_offset_reset="earliest")


async def consume(job: Job) -> None:
    """`async for`; offsets are committed every 5 s, by default, and at the end."""
    async with _consumer(job) as consumer:
        stopwatch = Stopwatch()
        warm_up, total = job.warm_up, job.total
        count = size = 0
        async for message in consumer:
            size += len(message.value)
            count += 1
            if count == warm_up:
                stopwatch.start()
                size = 0
            elif count == total:
                break
        await consumer.commit()
        stopwatch.stop(job.messages, size)


async def consume_batches(job: Job) -> None:
    """`getmany` with up to BATCH messages."""
    async with _consumer(job) as consumer:

        async def receive(messages: int) -> tuple[int, int]:
            count = size = 0
            while count < messages:
                for batch in (await consumer.getmany(timeout_ms=1000, max_records=BATCH)).values():
                    for message in batch:
                        size += len(message.value)
                    count += len(batch)
            return count, size

        warm, _ = await receive(job.warm_up)
        stopwatch = Stopwatch()
        stopwatch.start()
        count, size = await receive(job.total - warm)
        await consumer.commit()
        stopwatch.stop(count, size)


if __name__ == "__main__":
    main(
        {
            "produce": produce,
            "produce_large_batches": produce_large_batches,
            "consume": consume,
            "consume_batches": consume_batches,
        }
    )
