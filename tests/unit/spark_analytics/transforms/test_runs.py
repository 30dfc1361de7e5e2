"""What consumers that share an id held and acked, ten minutes at a time, against the simulated day's own record."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from qmq.protocol.names import split_subject
from spark_analytics.transforms.runs import _followed
from tests.support.analytics.simulated_day import DAY_MS, SHARED, Day, Delivery, Event, simulate

COLUMNS = pa.schema(
    [
        *((name, pa.string()) for name in ("broker_group", "subject", "group", "consumer_id", "kind")),
        ("is_broadcast", pa.bool_()),
        *((name, pa.int64()) for name in ("consumer_key", "position", "at_ms", "pull_begin", "pull_end", "begin")),
    ]
)
Row = dict[str, Any]
WINDOW_MS = 600_000


@pytest.fixture(scope="module")
def day() -> Day:
    return simulate(seed=2, scale=0.2)


def is_shared(subject: str, group: str) -> bool:
    return split_subject(subject).subject == SHARED[1] and group == SHARED[2]


def entry_row(event: Event, position: int) -> Row:
    return {
        **{
            name: getattr(event, name) for name in ("broker_group", "subject", "group", "kind", "at_ms", "is_broadcast")
        },
        "consumer_id": event.consumer,
        "consumer_key": 1,
        "position": position,
        "pull_begin": event.begin,
        "pull_end": event.end,
        "begin": event.next_sequence - (event.end - event.begin),
    }


def carried_row(run: Row) -> Row:
    return {
        **{
            name: run[name]
            for name in ("broker_group", "subject", "group", "is_broadcast", "consumer_id", "consumer_key")
        },
        "kind": "pull",
        "position": -1,
        "at_ms": run["pulled_ms"],
        "pull_begin": run["pull_begin"],
        "pull_end": run["pull_begin"] + run["messages"],
        "begin": run["begin"],
    }


def messages_of(runs: list[Row]) -> list[tuple[Any, ...]]:
    return sorted(
        (run["subject"], run["begin"] + i, run["pulled_ms"], run["ended_ms"], run["ended_by"])
        for run in runs
        for i in range(run["messages"])
    )


def expected_of(delivery: Delivery, end_ms: int) -> tuple[Any, ...]:
    message = delivery.message
    is_over = delivery.ended_ms is not None and delivery.ended_ms < end_ms
    ended = (delivery.ended_ms, delivery.how) if is_over else (None, None)
    return message.subject, message.sequence, delivery.handed_ms, *ended


def test_acks_out_of_order_end_what_they_cover_in_the_window_they_come(day: Day) -> None:
    entries = [
        entry_row(event, position)
        for position, event in enumerate(day.events)
        if is_shared(event.subject, event.group) and event.kind != "start"
    ]
    deliveries = [d for d in day.record.deliveries if is_shared(d.message.subject, d.group)]
    assert {d.how for d in deliveries} >= {"ack", "settle"}
    held: list[Row] = []
    gaps = 0
    for begin_ms in range(day.first_ms, day.first_ms + DAY_MS, WINDOW_MS):
        end_ms = begin_ms + WINDOW_MS
        here = [row for row in entries if begin_ms <= row["at_ms"] < end_ms]
        rows = [*map(carried_row, held), *here]
        runs = _followed(pa.Table.from_pylist(rows, COLUMNS)).to_pylist()
        expected = [
            expected_of(d, end_ms)
            for d in deliveries
            if d.handed_ms < end_ms and not (d.ended_ms and d.ended_ms < begin_ms)
        ]
        assert messages_of(runs) == sorted(expected, key=lambda row: row[:3])
        held = [run for run in runs if run["ended_ms"] is None]
        places = sorted((run["subject"], run["pull_begin"], run["pull_begin"] + run["messages"]) for run in held)
        gaps += sum(a[0] == b[0] and a[2] < b[1] for a, b in pairwise(places))
    assert gaps, "no window left a gap to the next one"
