"""class SlicedQueue: work that is spread over turns of the event loop, so that heartbeats are answered in between."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
CallSoon = Callable[[Callable[[], None]], object]


class SlicedQueue(Generic[T]):
    """Calls `work` for items in the order in which they were added, at most `per_batch` times in one turn of the event loop.

    Within that limit `add` calls it at once. An error of `work` ends the turn, not the following ones.
    """

    def __init__(self, work: Callable[[T], None], per_batch: int, call_soon: CallSoon) -> None:
        self._work = work
        self._per_batch = self._room = per_batch
        self._call_soon = call_soon
        self._queue: deque[Iterator[T]] = deque()
        self._is_scheduled = False

    def add(self, items: Iterable[T]) -> None:
        """Add items. They are read from the iterable when their turn comes. O(1) beyond the limit."""
        self._queue.append(iter(items))
        self._run()

    def _run(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._next_batch)
        while self._queue and self._room:
            for item in self._queue[0]:
                self._room -= 1
                self._work(item)
                break
            else:
                self._queue.popleft()

    def _next_batch(self) -> None:
        self._is_scheduled, self._room = False, self._per_batch
        if self._queue:
            self._run()
