"""What every measured process shares: its job, the messages, and the clock. Needs the standard library only: peers have packages of
their own.

A measured process is `python -m MODULE CASE JOB`, JOB being a `Job` as JSON. It prints BEGIN when it has connected and warmed up,
and a `Timing` as JSON when the last message is acknowledged.
"""

import asyncio
import inspect
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass

BODY_BYTES = 128
CHUNK = 10_000
"""Messages that are sent before their acknowledgements are awaited, where the application waits for them in groups."""
BATCH = 500
"""Messages of a pipeline, and at most of a batch that an application receives."""
BEGIN = "begin"


@dataclass(frozen=True, slots=True)
class Job:
    """What to measure.

    Args:
        address: of the server.
        topic: to send to or receive from; new, or filled with `warm_up + messages` messages.
        group: a new consumer group.
        messages: to time; for sending a multiple of CHUNK.
        warm_up: messages before these, to connect and to load code.
    """

    address: str
    topic: str
    group: str
    messages: int
    warm_up: int

    @property
    def total(self) -> int:
        """Messages in all."""
        return self.warm_up + self.messages


@dataclass(frozen=True, slots=True)
class Timing:
    """What a process measured. Processor seconds are of this process, all threads, user and system."""

    messages: int
    seconds: float
    processor_seconds: float
    p50_ms: float | None = None
    p99_ms: float | None = None


class Stopwatch:
    """Times the messages behind the warm-up."""

    def start(self) -> None:
        """Start the clock, and report that it runs."""
        print(BEGIN, flush=True)
        self._processor = time.process_time()
        self._began = time.perf_counter()

    def stop(self, messages: int, body_bytes: int | None = None, latencies: list[float] | None = None) -> None:
        """Stop the clock and print the timing.

        Args:
            messages: that were timed.
            body_bytes: of received messages, as the application counted them.
            latencies: in seconds, of messages that were sent one at a time.

        Raises:
            ValueError: the bytes are not those of so many messages.
        """
        seconds = time.perf_counter() - self._began
        processor_seconds = time.process_time() - self._processor
        if body_bytes is not None and body_bytes != messages * BODY_BYTES:
            raise ValueError(f"{messages} messages have {body_bytes} bytes, not {messages * BODY_BYTES}")
        p50, p99 = (percentile(latencies, 50) * 1e3, percentile(latencies, 99) * 1e3) if latencies else (None, None)
        print(json.dumps(asdict(Timing(messages, seconds, processor_seconds, p50, p99))), flush=True)


def percentile(values: list[float], percent: int) -> float:
    """The smallest of the values that at least so many percent do not exceed."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


def chunks(messages: int) -> Iterator[list[str]]:
    """Yield different bodies by CHUNK, and the rest, as many as there are messages."""
    bodies = [f"{number:08d}".ljust(BODY_BYTES, "x") for number in range(CHUNK)]
    for begin in range(0, messages, CHUNK):
        yield bodies[: messages - begin]


def bytes_chunks(messages: int) -> Iterator[list[bytes]]:
    """As `chunks`, for clients whose messages are bytes."""
    bodies = [body.encode() for body in next(chunks(CHUNK))]
    for begin in range(0, messages, CHUNK):
        yield bodies[: messages - begin]


def main(cases: dict[str, Callable[[Job], Awaitable[None] | None]]) -> None:
    """Run the case that the command line names."""
    running = cases[sys.argv[1]](Job(**json.loads(sys.argv[2])))
    if inspect.iscoroutine(running):
        asyncio.run(running)
