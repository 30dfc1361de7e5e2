"""The comparison of clients: choosing rows, counting messages, and what the tables say."""

import pytest

from benchmarks.clients import rows
from benchmarks.clients.job import BODY_BYTES, CHUNK, Stopwatch, Timing, bytes_chunks, chunks, percentile
from benchmarks.clients.options import ROUNDS, parse
from benchmarks.clients.rows import LIBRARIES, Library, Measured, Measurement, Outcome, Row

ROW = Row("futures", "`send`; `async for`", Measurement("send", 40_000), Measurement("receive", 90_000))
LIBRARY = Library("carrier", "carrier.module", "pigeon", "yes: on paper", (ROW,), ("carrier.module", "send"))


def measured(
    *, messages: int = 1_000, seconds: float = 1.0, processor: float = 0.5, server: float = 0.25, other: float = 0.0
):
    return Measured(Timing(messages, seconds, processor), server, other)


def test_all_rows_without_names_and_five_rounds():
    options = parse([])
    assert options.rounds == ROUNDS == 5
    assert options.messages is None
    assert options.json is None
    assert [library for library, _ in options.chosen] == list(LIBRARIES)
    assert all(tuple(its_rows) == library.rows for library, its_rows in options.chosen)


def test_names_choose_libraries_and_rows():
    options = parse(["--only", "nats-py", "pyqmq/one", "pyqmq/futures"])
    assert [(library.name, [row.name for row in its_rows]) for library, its_rows in options.chosen] == [
        ("nats-py", ["jetstream"]),
        ("pyqmq", ["futures", "one"]),
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--only", "pyqmq/swallow"], "no row 'pyqmq/swallow'"),
        (["--only", "pyqmq", "kafka"], "no row 'kafka'"),
        (["--rounds", "0"], "--rounds 0"),
        (["--messages", "0"], "--messages 0"),
    ],
)
def test_invalid_arguments_are_named(arguments, text, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    assert text in capsys.readouterr().err


def test_names_of_rows_and_cases_are_unique():
    for library in LIBRARIES:
        names = [row.name for row in library.rows]
        cases = [part.case for row in library.rows for part in (row.produce, row.consume) if part is not None]
        assert len(set(names)) == len(names)
        assert len(set(cases)) == len(cases), "outcomes are by case"


def test_messages_are_whole_chunks():
    assert rows.messages_of(Measurement("send", 40_000), None) == 40_000
    assert rows.messages_of(Measurement("send", 40_000), 25_000) == 2 * CHUNK
    assert rows.messages_of(Measurement("send", 40_000), 300) == 300


@pytest.mark.parametrize("messages", [1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_bodies_have_128_bytes_and_differ_within_a_chunk(messages):
    made = list(chunks(messages))
    assert sum(map(len, made)) == messages
    assert all(len(set(bodies)) == len(bodies) <= CHUNK for bodies in made)
    assert {len(body.encode()) for bodies in made for body in bodies} == {BODY_BYTES}
    assert [[body.decode() for body in bodies] for bodies in bytes_chunks(messages)] == made


def test_percentiles():
    values = [float(number) for number in range(1, 101)]
    assert (percentile(values, 50), percentile(values, 99), percentile(values, 100)) == (50.0, 99.0, 100.0)
    assert percentile([7.0], 50) == percentile([7.0], 99) == 7.0
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0


def test_received_bytes_are_checked(capsys):
    stopwatch = Stopwatch()
    stopwatch.start()
    stopwatch.stop(3, 3 * BODY_BYTES)
    with pytest.raises(ValueError, match="3 messages have 383 bytes, not 384"):
        stopwatch.stop(3, 3 * BODY_BYTES - 1)


def test_rates_are_medians_with_their_range():
    outcome = Outcome([measured(seconds=seconds) for seconds in (0.5, 4.0, 1.0)])
    assert rows.rate_text(outcome) == "1,000 (250 to 2,000)"
    assert rows.rate_text(None) == ""


def test_a_failed_process_has_no_rate():
    assert rows.rate_text(Outcome([measured()], is_failed=True)) == "failed"


def test_lines_of_the_table():
    outcomes = {"send": Outcome([measured()]), "receive": Outcome([measured(seconds=0.5)])}
    receives_only = Row("poll", "`poll`", consume=ROW.consume)
    sent, received = "1,000 (1,000 to 1,000)", "2,000 (2,000 to 2,000)"
    assert [
        rows.table_line(LIBRARY, "2.1", ROW, outcomes, missing=""),
        rows.table_line(LIBRARY, "2.1", receives_only, outcomes, missing=""),
        rows.table_line(LIBRARY, "2.1", ROW, {}, missing="no pigeon here"),
        rows.table_line(LIBRARY, "2.1", receives_only, {}, missing="no pigeon here"),
    ] == [
        f"| carrier 2.1: `send`; `async for` | {sent} | {received} | yes: on paper |",
        f"| carrier 2.1: `poll` |  | {received} | yes: on paper |",
        "| carrier 2.1: `send`; `async for` | server not present | server not present | yes: on paper |",
        "| carrier 2.1: `poll` |  | server not present | yes: on paper |",
    ]


def test_latencies_and_processor_seconds_are_medians():
    outcome = Outcome([Measured(Timing(1, 1.0, 0.1, p50, 2 * p50), 0.0, 0.0) for p50 in (1.0, 3.0, 2.0)])
    assert outcome.has_latency
    assert rows.latency_text(outcome) == "p50 2.00 ms, p99 4.00 ms"
    outcome = Outcome(
        [measured(seconds=2.0, other=0.5), measured(seconds=4.0, other=0.2), measured(seconds=3.0, other=3.0)]
    )
    assert not outcome.has_latency
    assert rows.processor_line(LIBRARY, "send", outcome) == "| carrier send | 3000.00 | 500.00 | 250.00 | 0.25 |"
