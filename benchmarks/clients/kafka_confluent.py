"""confluent-kafka: librdkafka, in C, with a thread of its own for the network."""

from typing import Any

from confluent_kafka import Consumer, Producer

from benchmarks.clients.job import BATCH, Job, Stopwatch, bytes_chunks, main

POLL_EVERY = 500
"""Messages between two calls of `poll`, which runs the callbacks of acknowledged messages."""
FETCH_BACKOFF_MS = 10
"""Pause of the fetcher while 100,000 messages are queued for the application. During the default of 1 s the queue runs empty."""


def produce(job: Job) -> None:
    """`produce` with a callback for each message; `flush` at the end."""
    producer = Producer({"bootstrap.servers": job.address, "acks": "all"})
    stored = 0

    def on_delivery(error: Any, _: Any) -> None:
        nonlocal stored
        if error is not None:
            raise RuntimeError(str(error))
        stored += 1

    def send(messages: int) -> None:
        for bodies in bytes_chunks(messages):
            for number, body in enumerate(bodies):
                while True:
                    try:
                        producer.produce(job.topic, body, on_delivery=on_delivery)
                        break
                    except BufferError:  # the queue has its default of 100,000 messages
                        producer.poll(0.01)
                if number % POLL_EVERY == 0:
                    producer.poll(0)
        producer.flush()

    send(job.warm_up)
    stopwatch = Stopwatch()
    stopwatch.start()
    send(job.messages)
    if stored != job.total:
        raise RuntimeError(f"{stored} of {job.total} messages are stored")
    stopwatch.stop(job.messages)


def _consumer(job: Job) -> Consumer:
    settings = {"group.id": job.group, "auto.offset.reset": "earliest", "fetch.queue.backoff.ms": FETCH_BACKOFF_MS}
    consumer = Consumer({"bootstrap.servers": job.address, **settings})
    consumer.subscribe([job.topic])
    return consumer


def consume(job: Job) -> None:
    """`consume` with up to BATCH messages; offsets are committed every 5 s, by default, and at the end."""
    consumer = _consumer(job)

    def receive(messages: int) -> tuple[int, int]:
        count = size = 0
        while count < messages:
            for message in consumer.consume(BATCH, 1.0):
                if message.error() is not None:
                    raise RuntimeError(str(message.error()))
                size += len(message.value())
                count += 1
        return count, size

    warm, _ = receive(job.warm_up)
    stopwatch = Stopwatch()
    stopwatch.start()
    count, size = receive(job.total - warm)
    consumer.commit(asynchronous=False)
    stopwatch.stop(count, size)
    consumer.close()


def poll(job: Job) -> None:
    """As `consume`, but one message at a time, by `poll`."""
    consumer = _consumer(job)

    def receive(messages: int) -> int:
        count = size = 0
        while count < messages:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:
                raise RuntimeError(str(message.error()))
            size += len(message.value())
            count += 1
        return size

    receive(job.warm_up)
    stopwatch = Stopwatch()
    stopwatch.start()
    size = receive(job.messages)
    consumer.commit(asynchronous=False)
    stopwatch.stop(job.messages, size)
    consumer.close()


if __name__ == "__main__":
    main({"produce": produce, "consume": consume, "poll": poll})
