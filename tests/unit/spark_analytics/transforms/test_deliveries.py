"""What became of handed-out messages, against a broker of a few lines that keeps a queue for each consumer."""

from dataclasses import dataclass, field
from random import Random

import numpy as np
import pytest

from spark_analytics.transforms.deliveries import Entries, Kind, follow

P, A, S, O = Kind.PULL, Kind.ACK, Kind.SETTLE, Kind.OFFLINE  # noqa: E741

Entry = tuple[int, int, int, int, int, int]
"""Consumer, kind, at_ms, begin, end, sequence."""


def told(entries: list[Entry]) -> list[tuple[int, ...]]:
    """Each handed-out message: the entry that handed it out, its pull and its consume sequence, how and when it ended."""
    columns = [np.array(column, dtype=np.int64) for column in zip(*entries, strict=True)] or [np.zeros(0, np.int64)] * 6
    found = follow(Entries(*columns))
    messages = []
    for pull, pull_begin, begin, n, ended_by, ended_ms in zip(
        found.pull, found.pull_begin, found.begin, found.messages, found.ended_by, found.ended_ms, strict=True
    ):
        for i in range(n):
            messages.append((int(pull), int(pull_begin + i), int(begin + i), int(ended_by), int(ended_ms)))
    return sorted(messages)


def test_an_ack_ends_what_lies_below_its_end() -> None:
    assert told([(0, P, 10, 0, 3, 100), (0, A, 20, 0, 2, 0)]) == [
        (0, 0, 100, A, 20),
        (0, 1, 101, A, 20),
        (0, 2, 102, -1, -1),
    ]


def test_an_ack_reaches_over_several_pulls_and_gaps_between_them() -> None:
    entries = [(0, P, 10, 0, 2, 100), (0, P, 11, 7, 8, 200), (0, P, 12, 8, 9, 300), (0, A, 20, 0, 8, 0)]
    assert told(entries) == [(0, 0, 100, A, 20), (0, 1, 101, A, 20), (1, 7, 200, A, 20), (2, 8, 300, -1, -1)]


def test_an_ack_ends_nothing_below_its_begin() -> None:
    """Two processes share the consumer id, and the one that was handed the later messages acks first."""
    entries = [(0, P, 10, 0, 10, 100), (0, A, 20, 5, 10, 0)]
    held = [(0, n, 100 + n, -1, -1) for n in range(5)]
    assert told(entries) == [*held, *((0, n, 100 + n, A, 20) for n in range(5, 10))]
    assert told([*entries, (0, A, 30, 0, 5, 0)]) == [
        *((0, n, 100 + n, A, 30) for n in range(5)),
        *((0, n, 100 + n, A, 20) for n in range(5, 10)),
    ]


def test_of_ends_that_overlap_the_first_counts() -> None:
    entries = [(0, P, 10, 0, 6, 100), (0, S, 20, 2, 4, 0), (0, A, 30, 3, 5, 0), (0, S, 40, 0, 6, 0)]
    assert [row[3:] for row in told(entries)] == [(S, 40), (S, 40), (S, 20), (S, 20), (A, 30), (S, 40)]


def test_what_one_end_covers_of_a_pull_is_one_run() -> None:
    entries = [(0, P, 10, 0, 9, 100), (0, A, 20, 6, 9, 0), (0, A, 30, 0, 6, 0), (0, S, 40, 2, 4, 0)]
    columns = [np.array(column, dtype=np.int64) for column in zip(*entries, strict=True)]
    found = follow(Entries(*columns))
    assert found.pull_begin.tolist() == [0, 6]
    assert found.messages.tolist() == [6, 3]


def test_what_the_broker_settled_is_not_acked_later() -> None:
    entries = [(0, P, 10, 0, 3, 100), (0, S, 20, 0, 2, 0), (0, A, 30, 0, 3, 0)]
    assert told(entries) == [(0, 0, 100, S, 20), (0, 1, 101, S, 20), (0, 2, 102, A, 30)]


def test_an_end_counts_for_what_was_pulled_before_it_only() -> None:
    assert told([(0, P, 10, 0, 1, 100), (0, A, 20, 0, 9, 0), (0, P, 30, 1, 2, 101)]) == [
        (0, 0, 100, A, 20),
        (2, 1, 101, -1, -1),
    ]


def test_a_consumer_that_left_begins_anew() -> None:
    entries = [(0, P, 10, 0, 2, 100), (0, O, 20, 0, 0, 0), (0, P, 30, 0, 2, 200), (0, A, 40, 0, 1, 0)]
    assert told(entries) == [(0, 0, 100, O, 20), (0, 1, 101, O, 20), (2, 0, 200, A, 40), (2, 1, 201, -1, -1)]


def test_numbers_that_begin_again_lower_drop_what_was_held() -> None:
    entries = [(0, P, 10, 5, 8, 5), (0, A, 15, 5, 6, 0), (0, P, 20, 2, 4, 2), (0, A, 30, 2, 8, 0)]
    assert told(entries) == [
        (0, 5, 5, A, 15),
        (0, 6, 6, Kind.DROPPED, 20),
        (0, 7, 7, Kind.DROPPED, 20),
        (2, 2, 2, A, 30),
        (2, 3, 3, A, 30),
    ]


def test_one_consumers_end_is_not_anothers() -> None:
    entries = [(0, P, 10, 0, 2, 100), (1, P, 10, 0, 2, 200), (1, A, 20, 0, 2, 0)]
    assert [row[3] for row in told(entries)] == [-1, -1, A, A]


def test_nothing_handed_out_is_nothing() -> None:
    assert told([]) == []
    assert told([(0, A, 20, 0, 2, 0), (0, P, 30, 4, 4, 9), (1, O, 5, 0, 0, 0)]) == []


def test_pull_sequences_that_span_too_much_are_refused() -> None:
    far = 1 << 61
    with pytest.raises(ValueError, match="span"):
        told([(n, P, 10, begin, begin + 1, 0) for n in range(4) for begin in (0, far)])


@dataclass
class Queue:
    """What a consumer holds: (pull sequence, place in the result)."""

    pulled: int = 0
    held: list[tuple[int, int]] = field(default_factory=list)


def history(random: Random) -> tuple[list[Entry], list[tuple[int, ...]]]:
    """A random history of some consumers, and what became of each message, noted while it is made."""
    entries: list[Entry] = []
    messages: list[list[int]] = []

    def end(queue: Queue, begin: int, upto: int, kind: int, now: int) -> None:
        for _, place in [item for item in queue.held if begin <= item[0] < upto]:
            messages[place][3:] = [kind, now]
        queue.held = [item for item in queue.held if not begin <= item[0] < upto]

    now = 0
    for consumer in range(random.randint(1, 4)):
        queue = Queue(random.choice((0, 0, 1000)))
        for _ in range(random.randint(0, 25)):
            now += random.randint(0, 5)
            what = random.random()
            if what < 0.45:
                if random.random() < 0.1 and queue.pulled > 20:
                    end(queue, 0, 1 << 60, Kind.DROPPED, now)
                    queue.pulled -= random.randint(5, 20)
                    n = random.randint(1, 4)
                else:
                    queue.pulled += random.choice((0, 0, 0, 3))
                    n = random.randint(0, 6)
                sequence = random.randint(0, 10_000)
                for i in range(n):
                    queue.held.append((queue.pulled + i, len(messages)))
                    messages.append([len(entries), queue.pulled + i, sequence + i, -1, -1])
                entries.append((consumer, P, now, queue.pulled, queue.pulled + n, sequence))
                queue.pulled += n
            elif what < 0.9:
                kind = random.choice((A, A, S))
                upto = random.randint(max(0, queue.pulled - 8), queue.pulled)
                # In order, or what another process with the same id was handed before is left out.
                begin = random.choice((0, max(0, upto - random.randint(0, 8))))
                end(queue, begin, upto, kind, now)
                entries.append((consumer, kind, now, begin, upto, 0))
            else:
                end(queue, 0, 1 << 60, O, now)
                entries.append((consumer, O, now, 0, 0, 0))
                queue.pulled = random.choice((0, queue.pulled, queue.pulled + 10))
    return entries, sorted(tuple(message) for message in messages)


@pytest.mark.parametrize("seed", range(300))
def test_any_history_is_followed_as_a_queue_would(seed: int) -> None:
    entries, expected = history(Random(seed))
    assert told(entries) == expected
