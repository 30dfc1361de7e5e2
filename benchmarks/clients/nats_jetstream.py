"""nats-py with a stream of NATS JetStream."""

import asyncio

import nats

from benchmarks.clients.job import BATCH, Job, Stopwatch, bytes_chunks, main


async def produce(job: Job) -> None:
    """`publish_async`, and the futures of CHUNK messages gathered; 4,000 are under way at most, by default."""
    connection = await nats.connect(job.address)
    stream = connection.jetstream()
    await stream.add_stream(name=job.topic, subjects=[job.topic])

    async def send(messages: int) -> None:
        for bodies in bytes_chunks(messages):
            await asyncio.gather(*[await stream.publish_async(job.topic, body) for body in bodies])

    await send(job.warm_up)
    stopwatch = Stopwatch()
    stopwatch.start()
    await send(job.messages)
    stopwatch.stop(job.messages)
    await connection.close()


async def consume(job: Job) -> None:
    """`fetch` of BATCH, and `ack` of each message."""
    connection = await nats.connect(job.address)
    stream = connection.jetstream()
    subscription = await stream.pull_subscribe(job.topic, durable=job.group)

    async def receive(messages: int) -> tuple[int, int]:
        count = size = 0
        while count < messages:
            batch = await subscription.fetch(BATCH)
            for message in batch:
                size += len(message.data)
                await message.ack()
            count += len(batch)
        return count, size

    warm, _ = await receive(job.warm_up)
    stopwatch = Stopwatch()
    stopwatch.start()
    count, size = await receive(job.total - warm)
    await connection.flush()
    stopwatch.stop(count, size)
    await stream.delete_stream(job.topic)
    await connection.close()


if __name__ == "__main__":
    main({"produce": produce, "consume": consume})
