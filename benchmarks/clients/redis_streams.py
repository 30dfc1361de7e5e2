"""redis-py with a stream of Redis; without hiredis, the parser in C that it takes when it is installed."""

import redis

from benchmarks.clients.job import BATCH, Job, Stopwatch, bytes_chunks, main


def produce(job: Job) -> None:
    """XADD in pipelines of BATCH."""
    with redis.Redis.from_url(job.address) as client:

        def send(messages: int) -> None:
            for bodies in bytes_chunks(messages):
                for begin in range(0, len(bodies), BATCH):
                    pipeline = client.pipeline(transaction=False)
                    for body in bodies[begin : begin + BATCH]:
                        pipeline.xadd(job.topic, {"body": body})
                    pipeline.execute()

        send(job.warm_up)
        stopwatch = Stopwatch()
        stopwatch.start()
        send(job.messages)
        stopwatch.stop(job.messages)


def consume(job: Job) -> None:
    """XREADGROUP of BATCH and one XACK for them."""
    with redis.Redis.from_url(job.address) as client:
        client.xgroup_create(job.topic, job.group, id="0")

        def receive(messages: int) -> tuple[int, int]:
            count = size = 0
            while count < messages:
                ((_, entries),) = client.xreadgroup(job.group, "benchmark", {job.topic: ">"}, count=BATCH)
                for _, fields in entries:
                    size += len(fields[b"body"])
                client.xack(job.topic, job.group, *[entry for entry, _ in entries])
                count += len(entries)
            return count, size

        warm, _ = receive(job.warm_up)
        stopwatch = Stopwatch()
        stopwatch.start()
        count, size = receive(job.total - warm)
        stopwatch.stop(count, size)
        client.delete(job.topic)


if __name__ == "__main__":
    main({"produce": produce, "consume": consume})
