"""Deficit round robin over lanes: every lane with messages is served in its turn, and none takes more than its share."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delay_node.lanes import (
    FRAME_BYTES,
    FRAME_COST,
    FRAME_MESSAGES,
    MESSAGE_COST_MIN,
    QUANTUM_MIN,
    FairQueue,
    Item,
    Lane,
    Verdict,
)


def lane_of(subject: int, old: int = 0, fresh: int = 0, size: int = 100) -> Lane:
    """A lane with messages in memory; due times overdue ones first."""
    lane, data = Lane(subject, f"s{subject}"), bytes(size)
    lane.old.extend(Item(subject << 32 | i, i, subject, data) for i in range(old))
    lane.fresh.extend(Item(subject << 32 | old + i, 1_000_000 + i, subject, data) for i in range(fresh))
    return lane


def cost_of(item: Item) -> int:
    """The part of a frame's budget that a message takes."""
    return min(max(len(item.data), MESSAGE_COST_MIN), FRAME_COST)


def serve(lane: Lane) -> Verdict:
    return Verdict.SERVE


def turns(items: list[Item]) -> list[int]:
    """Subjects in the order in which they were served, neighbours as one."""
    found: list[int] = []
    for item in items:
        if not found or found[-1] != item.subject:
            found.append(item.subject)
    return found


@settings(max_examples=40)
@given(st.lists(st.integers(1, 600), min_size=1, max_size=120))
def test_every_lane_with_messages_is_served_once_in_as_many_turns_as_there_are_lanes(counts: list[int]) -> None:
    queue = FairQueue()
    left = dict(enumerate(counts))
    for subject, count in left.items():
        queue.add(lane_of(subject, old=count))
    order: list[int] = []
    while items := queue.take(serve):
        assert len(items) <= FRAME_MESSAGES
        order += [item.subject for item in items]
    assert Counter(order) == left, "nothing is lost, nothing comes twice"
    # Between two services of a lane each other lane has at most one turn, of at most its share of a frame.
    begins = [at for at, subject in enumerate(order) if at == 0 or order[at - 1] != subject]
    last_turn: dict[int, int] = {}
    for turn, at in enumerate(begins):
        subject = order[at]
        if subject in last_turn:
            assert turn - last_turn[subject] <= len(counts)
        last_turn[subject] = turn


sizes = st.sampled_from([10, 2_000, 30_000, 400_000, FRAME_BYTES, 3 * FRAME_BYTES])


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(sizes, min_size=2, max_size=12))
def test_lanes_get_equal_parts_whatever_the_size_of_their_messages(each: list[int]) -> None:
    queue = FairQueue()
    lanes = [lane_of(subject, old=1_500, size=size) for subject, size in enumerate(each)]
    for lane in lanes:
        queue.add(lane)
    got: Counter[int] = Counter()
    for _ in range(60):
        items = queue.take(serve)
        size = sum(len(item.data) for item in items)
        assert size <= FRAME_BYTES or len(items) == 1, "a frame is not too large"
        for item in items:
            got[item.subject] += cost_of(item)
        if any(not lane.old for lane in lanes):
            break
        quantum = max(QUANTUM_MIN, FRAME_COST // len(each))
        parts = [got[subject] for subject in range(len(each))]
        assert max(parts) - min(parts) <= 2 * (quantum + FRAME_COST)
    assert all(got[subject] for subject in range(len(each)))


@settings(max_examples=20)
@given(st.integers(1, 20), st.integers(1, 20), sizes)
def test_overdue_messages_leave_room_for_fresh_ones_of_any_lane(late: int, fresh: int, size: int) -> None:
    queue = FairQueue()
    for subject in range(late):
        queue.add(lane_of(subject, old=1 + 4_000 // late, size=size))
    for subject in range(late, late + fresh):
        queue.add(lane_of(subject, fresh=1 + 4_000 // fresh))
    cost: Counter[bool] = Counter()
    for _ in range(8):
        for item in queue.take(serve):
            cost[item.subject < late] += cost_of(item)
    assert cost[False] >= 0.25 * FRAME_COST * 8 - 2 * FRAME_COST
    assert cost[True] >= 0.3 * FRAME_COST * 8, "of messages that fit twice into a frame only one goes into its share"


def test_a_lone_lane_fills_frames_alone_and_in_order() -> None:
    queue, lane = FairQueue(), lane_of(1, old=1_100)
    queue.add(lane)
    frames = [queue.take(serve) for _ in range(4)]
    assert [len(items) for items in frames] == [500, 500, 100, 0]
    assert [item.ref & 0xFFFFFFFF for items in frames for item in items] == list(range(1_100))
    assert not queue


def test_within_a_lane_fresh_messages_get_a_quarter_of_a_frame() -> None:
    queue = FairQueue()
    queue.add(lane_of(1, old=2_000, fresh=2_000))
    items = queue.take(serve)
    assert sum(item.due_ms >= 1_000_000 for item in items) == 125


@pytest.mark.slow
def test_a_few_messages_pass_a_large_backlog_in_the_next_frame() -> None:
    queue = FairQueue()
    queue.add(lane_of(1, old=400_000))
    assert len(queue.take(serve)) == 500
    queue.add(lane_of(2, old=10))
    items = queue.take(serve)
    assert Counter(item.subject for item in items) == {1: 490, 2: 10}


def test_lanes_that_are_skipped_stay_and_those_that_leave_go() -> None:
    queue = FairQueue()
    lanes = [lane_of(subject, old=2_000) for subject in range(3)]
    for lane in lanes:
        queue.add(lane)
    verdicts = {0: Verdict.SKIP, 1: Verdict.LEAVE, 2: Verdict.SERVE}
    assert {item.subject for item in queue.take(lambda lane: verdicts[lane.subject])} == {2}
    assert {item.subject for item in queue.take(serve)} == {0, 2}
    assert queue.add(lanes[1])
    assert not queue.add(lanes[1]), "once"
    assert set(turns(queue.take(serve))) == {0, 1, 2}
