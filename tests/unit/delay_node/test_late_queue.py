"""Overdue messages come out in due order whatever order they came in."""

from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from delay_node import lanes
from delay_node.lanes import LateQueue

batches = st.lists(
    st.one_of(st.integers(1, 9), st.lists(st.integers(0, 1_000), min_size=1, max_size=12).map(sorted)), max_size=40
)


@given(batches, st.sampled_from([3, lanes.MOVED_REFS_MAX]))
def test_it_is_a_sorted_list(script: list[object], moved_refs_max: int) -> None:
    with patch.object(lanes, "MOVED_REFS_MAX", moved_refs_max):
        check_against_a_list(script)


def check_against_a_list(script: list[object]) -> None:
    queue, model, ref = LateQueue(), [], 0
    for step in script:
        if isinstance(step, int):
            taken = queue.take(step)
            model.sort(key=lambda item: item[0])
            assert [due for due, _ in taken] == [due for due, _ in model[: len(taken)]]
            assert len(taken) == min(step, len(model))
            assert set(taken) <= set(model)
            model = [item for item in model if item not in set(taken)]
        else:
            assert isinstance(step, list)
            items = [(due, ref + i) for i, due in enumerate(step)]
            ref += len(items)
            queue.add(items)
            model += items
        assert len(queue) == len(model)


def test_refs_at_the_ends_are_added_and_taken_in_order() -> None:
    queue = LateQueue()
    for at in range(0, 100_000, 100):
        queue.add([(at + i, at + i) for i in range(100)])
    first = queue.take(1_000)
    queue.add(first)
    assert queue.take(100_000) == [(i, i) for i in range(100_000)]


def test_a_long_run_is_not_moved_for_refs_before_its_first_one() -> None:
    queue = LateQueue()
    queue.add([(at, at) for at in range(10, lanes.MOVED_REFS_MAX + 20)])
    queue.add([(5, 5)])
    assert len(queue._runs) == 2
    assert queue.take(3) == [(5, 5), (10, 10), (11, 11)]
    queue.add([(10, 10), (11, 11)])
    assert len(queue._runs) == 1, "there is room where refs were taken"
    assert queue.take(4_000) == [(at, at) for at in range(10, 4_010)]


@pytest.fixture
def sorted_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many refs each sort went over."""
    sizes: list[int] = []
    argsort = np.argsort

    def counting(dues: NDArray[np.int64], **options: Any) -> NDArray[np.int64]:
        sizes.append(len(dues))
        return argsort(dues, **options)

    monkeypatch.setattr("delay_node.lanes.np.argsort", counting)
    return sizes


def test_two_sequences_in_turn_are_not_sorted(sorted_sizes: list[int]) -> None:
    """A wheel with a backlog gives what has just fallen due and what is overdue in turn, one ref after the other."""
    queue = LateQueue()
    for at in range(20_000):
        queue.add([(1_000_000 + at, at)])
        queue.add([(at, at)])
    assert sorted_sizes == []
    assert [due for due, _ in queue.take(40_000)] == [*range(20_000), *range(1_000_000, 1_020_000)]


def test_refs_in_any_order_are_sorted_a_logarithmic_number_of_times(sorted_sizes: list[int]) -> None:
    rng, queue = Random(7), LateQueue()
    dues = [rng.randrange(1 << 30) for _ in range(20_000)]
    for at, due in enumerate(dues):
        queue.add([(due, at)])
    assert sum(sorted_sizes) < 20_000 * 25  # the logarithm of 20,000 to the base of 1.5
    assert [due for due, _ in queue.take(20_000)] == sorted(dues)


def test_large_runs_are_not_merged(sorted_sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge of millions of refs would hold up the event loop."""
    monkeypatch.setattr("delay_node.lanes.MERGED_REFS_MAX", 1_000)
    rng, queue = Random(8), LateQueue()
    dues = [rng.randrange(1 << 30) for _ in range(5_000)]
    for at, due in enumerate(dues):
        queue.add([(due, at)])
    assert max(sorted_sizes) <= 1_000
    assert [due for due, _ in queue.take(5_000)] == sorted(dues)
