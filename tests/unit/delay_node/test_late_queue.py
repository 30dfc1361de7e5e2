"""Overdue messages come out in due order whatever order they came in."""

from hypothesis import given
from hypothesis import strategies as st

from delay_node.late_queue import LateQueue

batches = st.lists(
    st.one_of(st.integers(1, 9), st.lists(st.integers(0, 1_000), min_size=1, max_size=12).map(sorted)), max_size=40
)


@given(batches)
def test_it_is_a_sorted_list(script: list[object]) -> None:
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


def test_it_is_small_and_quick_at_the_ends() -> None:
    queue = LateQueue()
    for at in range(0, 100_000, 100):
        queue.add([(at + i, at + i) for i in range(100)])
    assert queue.memory_bytes < 24 * 100_000
    first = queue.take(1_000)
    queue.add(first)
    assert queue.take(100_000) == [(i, i) for i in range(100_000)]
