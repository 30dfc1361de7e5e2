"""Rates per subject and group from the increases of counters: over a short window, and smoothed over minutes. Pure."""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

WINDOW_SECONDS = 10.0
"""`per_second` is a mean over this window."""
STEADY_SECONDS = 120.0
"""Time constant of `steady_per_second`: an increase counts for 37 % after this."""
STEADY_MIN = 1e-4
"""Smoothed rates below this are forgotten."""
SWEEP_SECONDS = 60.0


@dataclass(slots=True)
class RateTable:
    """Keeps the increases of counters. Only counters that increased recently take memory."""

    _recent: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)
    """Sample times and increases within the window."""
    _steady: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The smoothed rate at a time, without the correction for a short history."""
    _times: deque[float] = field(default_factory=deque)
    """Times of the samples within the window, and the one before."""
    _began_at: float = 0.0
    _swept_at: float = 0.0

    def add(self, at: float, increases: Mapping[str, int]) -> None:
        """Add the increases since the previous call, at a monotonic time in seconds. The first call starts the measurement."""
        times = self._times
        if not times:
            self._began_at = self._swept_at = at
            times.append(at)
            return
        seconds = at - times[-1]
        if seconds <= 0:
            return
        times.append(at)
        while times[1] <= at - WINDOW_SECONDS:
            times.popleft()
        share = 1 - math.exp(-seconds / STEADY_SECONDS)
        for key, increase in increases.items():
            if not increase:
                continue
            self._recent.setdefault(key, deque()).append((at, increase))
            rate, then = self._steady.get(key, (0.0, at))
            self._steady[key] = rate * math.exp((then - at) / STEADY_SECONDS) + share * increase / seconds, at
        begin = times[0]
        for key in [key for key, points in self._recent.items() if points[-1][0] <= begin]:
            del self._recent[key]
        for points in self._recent.values():
            while points[0][0] <= begin:
                points.popleft()
        if at - self._swept_at >= SWEEP_SECONDS:
            self._swept_at = at
            for key in [key for key in self._steady if self._rate_at(key, at) < STEADY_MIN]:
                del self._steady[key]

    def per_second(self, key: str) -> float | None:
        """Increase per second over the window; None before there was time to measure."""
        seconds = self._times[-1] - self._times[0] if self._times else 0.0
        if seconds <= 0:
            return None
        points = self._recent.get(key)
        return sum(increase for _, increase in points) / seconds if points else 0.0

    def steady_per_second(self, key: str) -> float | None:
        """Increase per second, smoothed exponentially over STEADY_SECONDS; None before there was time to measure."""
        seconds = self._times[-1] - self._began_at if self._times else 0.0
        if seconds <= 0:
            return None
        # Before the start nothing was measured, which is not the same as a rate of 0.
        return self._rate_at(key, self._times[-1]) / (1 - math.exp(-seconds / STEADY_SECONDS))

    def _rate_at(self, key: str, at: float) -> float:
        rate, then = self._steady.get(key, (0.0, at))
        return rate * math.exp((then - at) / STEADY_SECONDS)
