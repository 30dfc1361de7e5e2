"""The rows of the table: which client sends and receives in which way; their medians; the tables as text."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.clients.job import CHUNK, Timing


@dataclass(frozen=True, slots=True)
class Measurement:
    """One process to measure: a case of a library's module, with messages for three to six seconds on two cores."""

    case: str
    messages: int


@dataclass(frozen=True, slots=True)
class Row:
    """A way to use a client."""

    name: str
    """For `--only`; different from those of the library's other rows."""
    how: str
    produce: Measurement | None = None
    consume: Measurement | None = None


@dataclass(frozen=True, slots=True)
class Library:
    """A client library."""

    name: str
    module: str
    server: str
    durable: str
    """Whether an acknowledged message survives the loss of power, and why."""
    rows: tuple[Row, ...]
    fill: tuple[str, str]
    """Module and case that send what the rows receive."""
    package: str = ""
    """With its Python package, unless that has the library's name."""

    @property
    def is_peer(self) -> bool:
        """Whether it runs in the environment of the peers."""
        return self.name != OWN


@dataclass(frozen=True, slots=True)
class Measured:
    """What one process reported, and processor seconds meanwhile."""

    timing: Timing
    server_seconds: float
    """Of the server's processes."""
    other_seconds: float
    """Of the machine, without client and server."""

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.timing.messages / self.timing.seconds


@dataclass(slots=True)
class Outcome:
    """The measurements of one case, one for each round."""

    measured: list[Measured] = field(default_factory=list)
    is_failed: bool = False
    """Whether a process ended without a timing."""

    @property
    def has_latency(self) -> bool:
        """Whether messages were sent one at a time."""
        return any(one.timing.p50_ms is not None for one in self.measured)

    def median(self, value: Callable[[Measured], float]) -> float:
        """Return the median of a value of each round."""
        return statistics.median(map(value, self.measured))


OWN = "pyqmq"
_KAFKA_DURABLE = "no: after it is in the page cache"
_CLIENTS = "benchmarks.clients"

LIBRARIES = (
    Library(
        "confluent-kafka",
        f"{_CLIENTS}.kafka_confluent",
        "kafka",
        _KAFKA_DURABLE,
        (
            Row(
                "batches", "(C) `produce` with callbacks; `consume` of 500",
                Measurement("produce", 2_000_000), Measurement("consume", 4_000_000),
            ),
            Row("poll", "(C) `poll`", consume=Measurement("poll", 3_000_000)),
        ),
        fill=(f"{_CLIENTS}.kafka_confluent", "produce"),
    ),
    Library(
        "aiokafka",
        f"{_CLIENTS}.kafka_aiokafka",
        "kafka",
        _KAFKA_DURABLE,
        (
            Row(
                "defaults", "`send`, gathered by 10,000; `async for`",
                Measurement("produce", 400_000), Measurement("consume", 800_000),
            ),
            Row(
                "batches", "the same with `max_batch_size` of 128 KiB; `getmany` of 500",
                Measurement("produce_large_batches", 600_000), Measurement("consume_batches", 2_000_000),
            ),
        ),
        fill=(f"{_CLIENTS}.kafka_confluent", "produce"),
    ),
    Library(
        "redis-py",
        f"{_CLIENTS}.redis_streams",
        "redis",
        "yes: after fsync",
        (
            Row(
                "streams", "pipelines of 500 XADD; XREADGROUP of 500, one XACK",
                Measurement("produce", 400_000), Measurement("consume", 400_000),
            ),
        ),
        fill=(f"{_CLIENTS}.redis_streams", "produce"),
        package="redis",
    ),
    Library(
        "nats-py",
        f"{_CLIENTS}.nats_jetstream",
        "nats",
        "no: after it is in the page cache",
        (
            Row(
                "jetstream", "JetStream: `publish_async`, gathered by 10,000; `fetch` of 500, `ack` each",
                Measurement("produce", 150_000), Measurement("consume", 100_000),
            ),
        ),
        fill=(f"{_CLIENTS}.nats_jetstream", "produce"),
    ),
    Library(
        OWN,
        f"{_CLIENTS}.own",
        "pyqmq",
        "yes: after fdatasync",
        (
            Row(
                "futures", "`send_soon`, gathered by 10,000; `async for`, `ack` each",
                Measurement("send_soon", 600_000), Measurement("consume", 500_000),
            ),
            Row("callbacks", "`send_soon` with a callback", Measurement("send_soon_callback", 1_000_000)),
            Row(
                "batches", "`send_many` of 10,000; `batches` of 500, one `ack`",
                Measurement("send_many", 1_200_000), Measurement("consume_batches", 1_500_000),
            ),
            Row("concurrent", "20,000 concurrent `send`", Measurement("send_concurrently", 200_000)),
            Row("one", "`send`, one at a time", Measurement("send_one_by_one", 9_000)),
        ),
        fill=(f"{_CLIENTS}.own", "fill"),
    ),
)  # fmt: skip


def select(names: Sequence[str], libraries: Sequence[Library] = LIBRARIES) -> list[tuple[Library, list[Row]]]:
    """Return the libraries with the rows that names choose: `LIBRARY` all of its rows, `LIBRARY/ROW` one. No names choose all.

    Raises:
        ValueError: a name chooses nothing.
    """
    known = {f"{library.name}/{row.name}" for library in libraries for row in library.rows}
    known |= {library.name for library in libraries}
    for name in names:
        if name not in known:
            raise ValueError(f"no row {name!r}; there are {', '.join(sorted(known))}")
    chosen = [
        (
            library,
            [row for row in library.rows if not names or {library.name, f"{library.name}/{row.name}"} & set(names)],
        )
        for library in libraries
    ]
    return [(library, rows) for library, rows in chosen if rows]


def messages_of(measurement: Measurement, asked: int | None) -> int:
    """Return the number of messages to time, whole chunks if it is more than one.

    Args:
        asked: instead of the measurement's own number.
    """
    messages = asked or measurement.messages
    return messages if messages < CHUNK else messages // CHUNK * CHUNK


def rate_text(outcome: Outcome | None) -> str:
    """Return the median rate with the lowest and the highest; "failed" when a process failed, "" without an outcome."""
    if outcome is None:
        return ""
    if outcome.is_failed:
        return "failed"
    rates = [one.rate for one in outcome.measured]
    return f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"


def table_line(library: Library, version: str, row: Row, outcomes: dict[str, Outcome], missing: str) -> str:
    """Return a row of the table of rates.

    Args:
        outcomes: by case.
        missing: why there is no server; "" when there is one.
    """
    cells = ["", ""]
    for column, part in enumerate((row.produce, row.consume)):
        if part is not None:
            cells[column] = "server not present" if missing else rate_text(outcomes.get(part.case))
    return f"| {library.name} {version}: {row.how} | {' | '.join(cells)} | {library.durable} |"


def latency_text(outcome: Outcome) -> str:
    """Return the medians of p50 and p99 in milliseconds."""
    p50 = outcome.median(lambda one: one.timing.p50_ms or 0.0)
    p99 = outcome.median(lambda one: one.timing.p99_ms or 0.0)
    return f"p50 {p50:.2f} ms, p99 {p99:.2f} ms"


def processor_line(library: Library, case: str, outcome: Outcome) -> str:
    """Return a row of the table of seconds per million messages."""
    elapsed = outcome.median(lambda one: 1e6 / one.rate)
    client = outcome.median(lambda one: 1e6 * one.timing.processor_seconds / one.timing.messages)
    server = outcome.median(lambda one: 1e6 * one.server_seconds / one.timing.messages)
    others = outcome.median(lambda one: one.other_seconds / one.timing.seconds)
    return f"| {library.name} {case} | {elapsed:.2f} | {client:.2f} | {server:.2f} | {others:.2f} |"
