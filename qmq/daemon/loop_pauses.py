"""Measures the pauses of a process's event loop: times in which it reads no socket and runs no timer.

A timer runs each TICK_SECONDS. The time between two of its runs is an upper bound of a pause between them, at most TICK_SECONDS
too long, whatever the reason: a turn of the loop that took long, another thread that held the interpreter, a stopped process.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable

from prometheus_client.core import Metric

from qmq.clock import SYSTEM_CLOCK
from qmq.daemon.counters import Buckets, MetricFamilies
from qmq.net.log_limiter import LogLimiter

PAUSE_SECONDS_MIN = 0.01
"""Shorter pauses are not reported."""
TICK_SECONDS = 0.005
"""How often the timer runs."""
WARNING_SECONDS = 0.5
"""Pauses from this length on are logged."""
WINDOWS = {"10s": 10, "1m": 60, "10m": 600}
"""Label and seconds of the periods for which the longest pause is exported."""
SLOT_SECONDS = 5
"""A period includes up to this many seconds more."""
SLOTS_MAX = max(WINDOWS.values()) // SLOT_SECONDS + 1

logger = logging.getLogger("qmq.loop")


class LoopPauses:
    """The pauses of one event loop, from `start` on.

    Args:
        monotonic: returns seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = SYSTEM_CLOCK.monotonic) -> None:
        self._monotonic = monotonic
        self._ticked_at = 0.0
        self._slots: deque[tuple[int, float]] = deque(maxlen=SLOTS_MAX)
        """The longest pause of each slot that had one: the slot's number and seconds, the oldest first."""
        self._limiter = LogLimiter()
        self._histogram = Buckets(0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)

    def start(self) -> None:
        """Measure the running event loop from now on, until it is closed."""
        self._ticked_at = self._monotonic()
        asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)
        now = self._monotonic()
        seconds, self._ticked_at = now - self._ticked_at, now
        if seconds >= PAUSE_SECONDS_MIN:
            self.observe(seconds)

    def observe(self, seconds: float) -> None:
        """Record a pause that has just ended."""
        self._histogram.observe(seconds)
        now = self._monotonic()
        slot = int(now // SLOT_SECONDS)
        is_known = bool(self._slots) and self._slots[-1][0] == slot
        self._slots.append((slot, max(seconds, self._slots.pop()[1]) if is_known else seconds))
        if seconds >= WARNING_SECONDS:
            suppressed = self._limiter.admit("pause", now)
            if suppressed is not None:
                more = f" ({suppressed} more since the last line)" if suppressed else ""
                logger.warning("the event loop paused for %.2f s%s", seconds, more)

    def longest(self, seconds: int) -> float:
        """Return the longest pause of the last `seconds`, in seconds; 0 without one."""
        if not self._slots:
            # A simulated process measures nothing, and may not read the clock of the machine.
            return 0.0
        first = int((self._monotonic() - seconds) // SLOT_SECONDS)
        return max((pause for slot, pause in self._slots if slot >= first), default=0.0)

    def metrics(self) -> Iterable[Metric]:
        """Return the metrics of the process's event loop."""
        text = "Longest pause of the event loop in the last 10 s, 1 min, 10 min; 0: none of 10 ms or more"
        longest = {window: self.longest(seconds) for window, seconds in WINDOWS.items()}
        yield MetricFamilies("qmq").gauge_by("event_loop_longest_pause_seconds", text, "window", longest)
        text = f"Pauses of the event loop of {PAUSE_SECONDS_MIN * 1000:.0f} ms and more"
        yield self._histogram.family("qmq_event_loop_pause_seconds", text)
