"""Collections of a daemon examine what is new; everything is examined at a long interval."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from qmq_node.process.memory import COMPLETE_SECONDS, YOUNG_MAX, limit_collections
from tests.support.manual_clock import ManualClock


class Jobs:
    """In the place of a supervisor: keeps the job."""

    job: Callable[[], None]

    def every(self, seconds: float, name: str, job: Callable[[], None]) -> None:
        self.job = job


class Node:
    """An object that can be a part of a cycle."""

    other: Any = None


@pytest.fixture
def jobs() -> Iterator[tuple[Jobs, ManualClock]]:
    jobs, clock, callbacks, thresholds = Jobs(), ManualClock(), list(gc.callbacks), gc.get_threshold()
    gc.collect()
    limit_collections(jobs, clock)  # type: ignore[arg-type]
    yield jobs, clock
    gc.callbacks[:] = callbacks
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.freeze()


def test_survivors_are_not_examined_again(jobs: tuple[Jobs, ManualClock]) -> None:
    kept = [Node() for _ in range(1_000)]
    gc.collect(1)
    assert not any(isinstance(item, Node) for item in gc.get_objects())
    kept += [Node() for _ in range(10)]
    assert sum(isinstance(item, Node) for item in gc.get_objects()) == 10


def test_new_objects_that_replace_older_ones_are_examined_in_limited_numbers(jobs: tuple[Jobs, ManualClock]) -> None:
    kept = [Node() for _ in range(YOUNG_MAX + 1)]
    gc.collect(1)
    automatic = gc.get_stats()[1]["collections"]
    for i in range(len(kept)):
        kept[i] = Node()
    assert gc.get_stats()[1]["collections"] == automatic
    assert len(gc.get_objects()) > YOUNG_MAX
    jobs[0].job()
    assert len(gc.get_objects()) < YOUNG_MAX / 5
    examined = gc.get_stats()[1]["collections"]
    jobs[0].job()
    assert gc.get_stats()[1]["collections"] == examined


def test_a_large_dict_that_grows_is_not_examined_again(jobs: tuple[Jobs, ManualClock]) -> None:
    known: dict[tuple[str, str], int] = {}
    kept = []
    for i in range(4 * YOUNG_MAX):
        known[str(i), "group"] = i
        kept.append(Node())
        if i % 100 == 0:
            jobs[0].job()
            assert i < 2 * YOUNG_MAX or not any(item is known for item in gc.get_objects())


def test_a_cycle_that_survived_is_freed_by_the_complete_collection(
    jobs: tuple[Jobs, ManualClock], monkeypatch: pytest.MonkeyPatch
) -> None:
    freed = []
    monkeypatch.setattr(Node, "__del__", lambda self: freed.append(self), raising=False)
    one, two = Node(), Node()
    one.other, two.other = two, one
    gc.collect()
    del one, two
    gc.collect()
    assert freed == []
    supervisor, clock = jobs
    clock.advance(COMPLETE_SECONDS - 1)
    supervisor.job()
    assert freed == []
    clock.advance(1)
    supervisor.job()
    assert len(freed) == 2
