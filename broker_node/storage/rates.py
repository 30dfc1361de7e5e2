"""Rates from the increases of counters: over a short window, and smoothed over minutes. Pure."""

import math
from collections import deque
from dataclasses import dataclass, field
from itertools import islice

WINDOW_SECONDS = 10.0
"""`per_second` is a mean over this window."""
STEADY_SECONDS = 120.0
"""Time constant of `steady_per_second`: an increase counts for 37 % after this."""
DECAY_SECONDS = 30.0
"""Time constant of the rates of clients."""
STEADY_MIN = 1e-4
"""Smoothed rates below this are 0."""


class Meter:
    """Two counters whose rates are measured: of a subject messages and bytes, of a group pulled and acked messages."""

    __slots__ = ("at", "steady", "totals")

    def __init__(self) -> None:
        self.totals = (0, 0)
        """The counters when they were last sampled."""
        self.steady = (0.0, 0.0)
        """Smoothed rates at the time `at`, without the correction for a short history."""
        self.at = 0.0


class DecayingRate:
    """A rate without samples: an increase counts for 37 % after DECAY_SECONDS. Costs time only when something happens."""

    __slots__ = ("_at", "_began_at", "_weighted")

    def __init__(self, now: float) -> None:
        self._began_at = self._at = now
        self._weighted = 0.0

    def add(self, count: int, now: float) -> None:
        """Adds what happened at a monotonic time in seconds."""
        self._weighted = self._weighted * math.exp((self._at - now) / DECAY_SECONDS) + count
        self._at = now

    def per_second(self, now: float) -> float | None:
        """The rate; None in the first second."""
        seconds = now - self._began_at
        if seconds < 1:
            return None
        weighted = self._weighted * math.exp((self._at - now) / DECAY_SECONDS)
        return _steady(weighted / (DECAY_SECONDS * (1 - math.exp(-seconds / DECAY_SECONDS))))


@dataclass(eq=False, repr=False, slots=True)
class RateTable:
    """The increases of meters within the window. Costs time and memory for meters that increased, not for others."""

    _samples: deque[dict[Meter, tuple[int, int]]] = field(default_factory=deque, init=False)
    """Increases by meter, one sample for each time; that of the first time is not part of the window."""
    _times: deque[float] = field(default_factory=deque, init=False)
    """Times of the samples within the window, and the one before."""
    _began_at: float = field(default=0.0, init=False)
    _share: float = field(default=0.0, init=False)
    """What an increase adds to a smoothed rate in the present sample; 0 when no time has passed."""

    @property
    def is_measurable(self) -> bool:
        """Whether there was time to measure; before that all rates are None."""
        return len(self._times) > 1

    def begin(self, at: float) -> None:
        """Begins a sample at a monotonic time in seconds; `count` adds to it. The first sample starts the measurement."""
        times = self._times
        seconds = at - times[-1] if times else 0.0
        self._share = (1 - math.exp(-seconds / STEADY_SECONDS)) / seconds if seconds > 0 else 0.0
        if not times:
            self._began_at = at
        if seconds > 0 or not times:
            times.append(at)
            self._samples.append({})
        while len(times) > 1 and times[1] <= at - WINDOW_SECONDS:
            times.popleft()
            self._samples.popleft()

    def count(self, meter: Meter, first: int, second: int) -> None:
        """Adds a meter's counters to the sample, if they have increased."""
        increase = (first - meter.totals[0], second - meter.totals[1])
        if increase == (0, 0):
            return
        if not self._share:
            if len(self._times) == 1:
                meter.totals = first, second
            return
        meter.totals = first, second
        self._samples[-1][meter] = increase
        at = self._times[-1]
        decay = math.exp((meter.at - at) / STEADY_SECONDS)
        meter.steady = (
            meter.steady[0] * decay + self._share * increase[0],
            meter.steady[1] * decay + self._share * increase[1],
        )
        meter.at = at

    def per_second(self, meter: Meter) -> tuple[float, float] | None:
        """Increases per second over the window; None before there was time to measure."""
        if not self.is_measurable:
            return None
        seconds = self._times[-1] - self._times[0]
        first = second = 0
        for sample in islice(self._samples, 1, None):
            increase = sample.get(meter)
            if increase is not None:
                first += increase[0]
                second += increase[1]
        return first / seconds, second / seconds

    def steady_per_second(self, meter: Meter) -> tuple[float, float] | None:
        """Increases per second, smoothed exponentially over STEADY_SECONDS; None before there was time to measure."""
        if not self.is_measurable:
            return None
        seconds = self._times[-1] - self._began_at
        # Before the start nothing was measured, which is not the same as a rate of 0.
        factor = math.exp((meter.at - self._times[-1]) / STEADY_SECONDS) / (1 - math.exp(-seconds / STEADY_SECONDS))
        first, second = meter.steady
        return _steady(first * factor), _steady(second * factor)


def _steady(rate: float) -> float:
    return rate if rate >= STEADY_MIN else 0.0
