"""The queue of a producer: batches per subject, turns, limits, times."""

import gc
import sys
import tracemalloc
from collections.abc import Callable
from math import inf
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qmq.client.accumulator import SPREAD_SECONDS_MAX, Accumulator
from qmq.client.config import Limits
from qmq.client.outgoing import Batch
from qmq.protocol.codes import ClientType

LINGER = 0.5


def ignore(outcome: object) -> None: ...


def add(queue: Accumulator, subject: str, size: int = 10, now: float = 0.0, name: str = "m") -> Batch | None:
    return queue.add((subject, ClientType.PRODUCER), name, b"x" * size, ignore, now, now + 100.0)


def failed(subject: str, until: float, count: int = 1, give_up_at: float = 100.0) -> Batch:
    """A batch whose attempt failed."""
    batch = Batch((subject, ClientType.PRODUCER), 0.0, give_up_at, not_before=until)
    for _ in range(count):
        batch.add("late", b"x" * 10)
        batch.tokens.append(ignore)
    return batch


def test_batches_hold_one_subject_and_keep_their_limits() -> None:
    queue = Accumulator(Limits(batch_messages=3, batch_bytes=25, queue_messages=8))
    opened = [add(queue, subject) for subject in ("a", "a", "a", "b")]
    assert [batch is not None for batch in opened] == [True, False, True, True]
    first = queue.take(0, 0)
    assert first is not None
    assert (first.subject, len(first), first.size) == ("a", 2, 20)
    assert {batch.subject for batch in (queue.take(0, 0), queue.take(0, 0)) if batch} == {"a", "b"}
    assert queue.take(0, 0) is None
    add(queue, "big", 1000)
    big = queue.take(0, LINGER)
    assert big is not None, "it is as large as a batch may be, and larger"
    assert (queue.messages, queue.bytes) == (0, 0)
    assert [len(batch) for _ in range(7) if (batch := add(queue, "a", 1)) and not batch.is_open] == [3, 3]


def test_an_open_batch_waits_for_more_messages_and_a_full_one_does_not() -> None:
    queue = Accumulator(Limits(batch_messages=3))
    add(queue, "a", now=1.0)
    add(queue, "b", now=1.2)
    assert queue.take(1.4, LINGER) is None
    assert queue.next_at(LINGER) == 1.5
    for _ in range(2):
        add(queue, "b", now=1.4)
    assert queue.next_at(LINGER) == 0.0
    full = queue.take(1.4, LINGER)
    assert full is not None
    assert (full.subject, len(full)) == ("b", 3)
    lone = queue.take(1.5, LINGER)
    assert lone is not None
    assert not lone.is_open
    add(queue, "a", now=2.0)
    assert queue.take(2.0, 0.0) is not None, "without linger"


def test_an_open_batch_that_can_not_be_sent_takes_no_messages_that_are_much_newer() -> None:
    queue = Accumulator(Limits())
    add(queue, "a", now=0.0)
    queue.put_back(failed("a", 50.0), 0.0)
    assert add(queue, "a", now=SPREAD_SECONDS_MAX) is None
    newer = add(queue, "a", now=SPREAD_SECONDS_MAX + 0.1)
    assert newer is not None
    assert newer.give_up_at == SPREAD_SECONDS_MAX + 100.1
    sizes = [len(batch) for _ in range(3) if (batch := queue.take(60.0, 0.0))]
    assert sizes == [1, 2, 1]


def test_a_full_queue_has_no_room_and_an_empty_one_takes_anything() -> None:
    queue = Accumulator(Limits(queue_messages=2, queue_bytes=25))
    assert queue.has_room(5, 1000)
    add(queue, "a")
    assert queue.has_room(1, 15)
    assert not queue.has_room(1, 16)
    assert not queue.has_room(2, 1)
    add(queue, "a")
    assert "2 messages of 20 bytes" in str(queue.full())


def test_failed_batches_wait_for_their_time_and_come_before_newer_ones() -> None:
    queue = Accumulator(Limits())
    queue.put_back(failed("a", 5.0), 0.0)
    add(queue, "a")
    assert queue.take(1.0, 0.0) is None
    assert queue.next_at(0.0) == 5.0
    names = [batch.ids for _ in range(2) if (batch := queue.take(5.0, 0.0))]
    assert names == [["late"], ["m"]]


def test_failed_batches_of_a_subject_can_be_sent_at_once_when_their_rest_is_ended() -> None:
    queue = Accumulator(Limits())
    first, second, other = failed("a", 5.0), failed("a", 6.0), failed("b", 7.0)
    for batch in (second, first, other):
        batch.attempts = 3
        queue.put_back(batch, 0.0)
    for subject in ("a", "none"):
        queue.end_rest((subject, ClientType.PRODUCER), 1.0)
    assert [queue.take(1.0, 0) for _ in range(3)] == [first, second, None]
    assert [batch.attempts_before for batch in (first, second, other)] == [3, 3, 0]
    assert queue.next_at(0) == 7.0
    assert queue.take(7.0, 0) is other


def test_expired_batches_are_taken_out_wherever_they_stand() -> None:
    queue = Accumulator(Limits(batch_messages=1))
    queue.put_back(failed("a", 50.0, give_up_at=2.0), 0.0)
    add(queue, "a", now=0.0)
    queue.put_back(failed("b", 50.0, give_up_at=2.0), 0.0)
    add(queue, "c", now=0.0)
    assert sorted(batch.subject for batch in queue.take_expired(2.0)) == ["a", "b"]
    assert queue.messages == 2
    assert sorted(batch.subject for _ in range(3) if (batch := queue.take(2.0, 0.0))) == ["a", "c"]
    assert (queue.messages, queue.bytes, queue.next_at(0.0)) == (0, 0, None)


def steps(work: Callable[[], object]) -> int:
    """Lines and built-in calls that a piece of work executes."""
    count = 0

    def line(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return line

    def profile(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "c_call"

    # A collection that begins here calls Hypothesis' callback, whose lines would count.
    gc.disable()
    sys.settrace(line)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.settrace(None)
        sys.setprofile(None)
        gc.enable()
    return count


def allocated(work: Callable[[], object]) -> int:
    """Most bytes that a piece of work holds at a time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("rests", [False, True])
def test_the_cost_of_a_batch_does_not_depend_on_how_many_subjects_wait(rests: bool) -> None:
    def costs(subjects: int) -> list[int]:
        queue = Accumulator(Limits(queue_messages=1 << 20))
        for number in range(subjects):
            if rests:
                queue.put_back(failed(f"s{number}", 1_000.0 + number), 0.0)
            else:
                add(queue, f"s{number}", now=0.0)
        for _ in range(10):
            add(queue, "mine", now=0.0)
        return [
            steps(lambda: queue.take(1.0, LINGER)) if rests else 0,
            steps(lambda: queue.put_back(failed("late", 2.0), 1.0)),
            steps(lambda: add(queue, "mine", now=1.0)),
            steps(lambda: queue.next_at(LINGER)),
            steps(lambda: queue.take(0.1, LINGER)),
            allocated(lambda: queue.take(0.1, LINGER)) // 4096,
        ]

    assert costs(5_000) == costs(5)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.sampled_from("abc"), st.just(0.0)),
            st.tuples(st.just("take"), st.sampled_from([0.0, LINGER]), st.sampled_from([0.0, 0.4, 1.0])),
            st.tuples(st.just("back"), st.just(""), st.sampled_from([0.5, 2.0])),
            st.tuples(st.just("expire"), st.just(""), st.sampled_from([0.0, 30.0])),
        ),
        max_size=60,
    )
)
# Of two failed batches of a subject the older expires: the other rests on.
@example(
    [("add", "a", 0.0), ("take", 0.0, 0.0), ("expire", "", 30.0), ("add", "a", 0.0), ("take", 0.0, 0.0)]
    + [("expire", "", 30.0)] * 3
    + [("back", "", 0.5), ("back", "", 0.5), ("expire", "", 0.0), ("take", 0.0, 0.0)]
)
def test_the_queue_keeps_order_and_counts_whatever_is_queued_taken_and_put_back(
    actions: list[tuple[str, Any, float]],
) -> None:
    limits = Limits(batch_messages=3)
    queue = Accumulator(limits)
    model: dict[str, list[str]] = {}
    resting: dict[str, float] = {}
    taken: list[Batch] = []
    now, number = 0.0, 0
    for what, argument, seconds in actions:
        if what == "add":
            number += 1
            add(queue, argument, now=now, name=f"{number}")
            model.setdefault(argument, []).append(f"{number}")
        elif what == "take":
            now += seconds
            batch = queue.take(now, argument)
            may = {name for name, waiting in model.items() if waiting and resting.get(waiting[0], 0.0) <= now}
            if argument == 0.0:
                assert (batch is not None) == bool(may)
            if batch is not None:
                assert batch.subject in may
                assert model[batch.subject][: len(batch)] == batch.ids
                assert len(batch) <= limits.batch_messages
                del model[batch.subject][: len(batch)]
                taken.append(batch)
        elif what == "back" and taken:
            batch = taken.pop()
            batch.not_before = now + seconds
            resting |= dict.fromkeys(batch.ids, batch.not_before)
            queue.put_back(batch, now)
            model[batch.subject][:0] = batch.ids
        elif what == "expire":
            now += seconds
            for batch in queue.take_expired(now):
                for name in batch.ids:
                    model[batch.subject].remove(name)
        next_at = queue.next_at(0.0)
        assert (next_at is None) == (not any(model.values()))
        assert queue.messages == sum(map(len, model.values()))
        assert queue.bytes == 10 * queue.messages
    assert sum(map(len, queue.take_expired(inf))) == sum(map(len, model.values()))
    assert (queue.messages, queue.next_at(0.0)) == (0, None)
