"""Rates per subject and group over a short window, from counters that only rise. Pure."""

from collections import deque
from dataclasses import dataclass, field

WINDOW_SECONDS = 10.0
"""Rates are means over this window."""


@dataclass(slots=True)
class RateTable:
    """Keeps snapshots of counters by key and answers how fast they rose.

    Only keys that changed are kept, so idle subjects cost nothing.
    """

    _snapshots: deque[tuple[float, dict[str, int]]] = field(default_factory=deque)

    def add(self, at: float, counters: dict[str, int]) -> None:
        """One snapshot at a monotonic time; older ones than the window are dropped, but for one."""
        self._snapshots.append((at, counters))
        while len(self._snapshots) > 2 and self._snapshots[1][0] <= at - WINDOW_SECONDS:
            self._snapshots.popleft()

    def per_second(self, key: str) -> float | None:
        """Rise per second over the window; None before two snapshots were taken."""
        if len(self._snapshots) < 2:
            return None
        first_at, first = self._snapshots[0]
        last_at, last = self._snapshots[-1]
        if last_at <= first_at:
            return None
        return (last.get(key, 0) - first.get(key, 0)) / (last_at - first_at)
