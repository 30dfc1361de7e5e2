"""class Effects: what follows a record of the log once it is synced."""

from collections import deque
from collections.abc import Callable


class Effects:
    """Calls that change files and counters, in the order of the log, so that a replay leads to the same numbers."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    def add(self, offset: int, effect: Callable[[], None]) -> None:
        """Have `effect` called when the record at this log offset is synced."""
        self._waiting.append((offset, effect))

    @property
    def last_offset(self) -> int:
        """Log offset of the last record whose effect is waiting for its sync; -1: none."""
        return self._waiting[-1][0] if self._waiting else -1

    def completed(self, synced_end: int) -> None:
        """Call the effects of all records below `synced_end`."""
        waiting = self._waiting
        while waiting and waiting[0][0] < synced_end:
            waiting.popleft()[1]()
