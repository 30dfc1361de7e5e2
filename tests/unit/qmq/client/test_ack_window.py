"""Acks are closed ranges in order, whatever order messages are settled in."""

from hypothesis import given
from hypothesis import strategies as st

from qmq.client.ack_window import BUSY, AckWindow, Span

answers = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=5)
"""Of each answer: the gap before its first message, and how many messages it holds."""


def spans_of(sizes: list[tuple[int, int]]) -> list[Span]:
    spans, first = [], 0
    for gap, count in sizes:
        spans.append(Span(first + gap, count))
        first += gap + count
    return spans


@given(answers, st.randoms(use_true_random=False), st.integers(1, 5))
def test_acks_are_closed_ranges_in_order_whatever_order_messages_are_settled_in(
    sizes: list[tuple[int, int]], rng: object, step: int
) -> None:
    window = AckWindow()
    spans = spans_of(sizes)
    for span in spans:
        assert window.seen(span.first, len(span.marks)) == 0
        window.add(span)
    received = [sequence for span in spans for sequence in range(span.first, span.last + 1)]
    parts = [
        (span, begin, min(begin + step, len(span.marks))) for span in spans for begin in range(0, len(span.marks), step)
    ]
    rng.shuffle(parts)  # type: ignore[attr-defined]
    acked: list[int] = []
    settled: set[int] = set()
    for span, begin, end in parts:
        if end - begin == 1:
            span.settle(begin)
        else:
            assert span.settle_range(begin, end) == end - begin
        settled |= set(range(span.first + begin, span.first + end))
        assert span.unsettled() == [i for i in range(len(span.marks)) if span.first + i not in settled]
        assert window.is_first_settled == (bool(window.spans) and not window.spans[0].unsettled())
        closed = window.closed_range()
        if closed is not None:
            first, last = closed
            assert first == window.begin
            covered = [n for n in received if first <= n <= last]
            assert set(covered) <= settled, "an unsettled message would be acked"
            acked += covered
            window.acked(last)
        following = [n for n in received if n not in acked]
        assert not following or following[0] not in settled, "the range is as long as it can be"
        assert len(window) == len(following)
        assert window.closed_range() is None
    assert acked == received
    assert window.begin == (-1 if not received else received[-1] + 1)
    assert not window.spans


@given(st.sets(st.integers(0, 9)), st.sets(st.integers(0, 9)), st.integers(0, 10), st.integers(0, 10))
def test_a_range_settles_what_is_open_in_it(settled: set[int], busy: set[int], one: int, other: int) -> None:
    span, (begin, end) = Span(100, 10), sorted((one, other))
    for index in settled:
        span.settle(index)
    for index in busy - settled:
        span.marks[index] = BUSY
    fresh = set(range(begin, end)) - settled - busy
    assert span.settle_range(begin, end) == len(fresh)
    assert set(span.unsettled()) == set(range(10)) - settled - fresh
    assert span.open == len(span.unsettled())
    assert len(span.marks) == 10
    assert span.settled_first == next(iter(span.unsettled()), 10)


def test_an_answer_that_came_twice_is_handled_once() -> None:
    window = AckWindow()
    window.add(Span(3, 2))
    assert window.seen(3, 2) == 2
    assert window.seen(2, 2) == 2
    assert window.seen(4, 3) == 1
    assert window.seen(5, 3) == 0
    assert (window.begin, window.last, len(window)) == (3, 4, 2)


def test_a_window_that_received_nothing_acks_nothing() -> None:
    window = AckWindow()
    assert (window.begin, window.last, window.closed_range(), window.is_first_settled) == (-1, -1, None, False)


def test_after_a_rewind_the_window_asks_for_the_same_messages_again() -> None:
    window = AckWindow()
    first = Span(0, 3)
    window.add(first)
    first.settle_range(0, 3)
    window.acked(2)
    window.add(Span(3, 3))
    window.rewind(2)
    assert (window.begin, window.last, len(window)) == (3, 2, 0)
    assert window.seen(3, 3) == 0
