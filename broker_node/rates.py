"""Rates per subject and group over a short window, from counters that only rise. Pure."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

WINDOW_SECONDS = 10.0
"""Rates are means over this window."""


@dataclass(slots=True)
class RateTable:
    """Keeps samples of counters and answers how fast they rose. Only counters that moved lately are held."""

    _points: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)
    _began_at: float | None = None
    _now: float = 0.0

    def add(self, at: float, moved: Mapping[str, int]) -> None:
        """Samples of the counters that moved since the last call, at a monotonic time in seconds."""
        if self._began_at is None:
            self._began_at = at
        self._now = at
        for key, total in moved.items():
            points = self._points.get(key)
            if points is None:
                # It stood still before, so this is its first value and the rise begins here.
                points = self._points[key] = deque()
            elif total < points[-1][1]:
                # The subject or group was removed and is back: its counters begin again.
                points.clear()
            points.append((at, total))
        for key in [key for key, points in self._points.items() if points[-1][0] <= at - WINDOW_SECONDS]:
            del self._points[key]
        for points in self._points.values():
            while len(points) > 1 and points[1][0] <= at - WINDOW_SECONDS:
                points.popleft()

    def per_second(self, key: str) -> float | None:
        """Rise per second over the window; None before there was time to measure."""
        if self._began_at is None or self._now <= self._began_at:
            return None
        points = self._points.get(key)
        if points is None:
            return 0.0
        first_at, first = points[0]
        span = self._now - first_at
        return (points[-1][1] - first) / span if span > 0 else None
