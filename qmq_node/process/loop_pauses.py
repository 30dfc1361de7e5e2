"""Measures the pauses of a process's event loop: times in which it reads no socket and runs no timer.

A pause is a turn of the loop that takes long, or a wait for sockets that ends late, because the process was stopped or another
thread held the interpreter. Turns are measured exactly. The loop never waits longer than WAIT_SECONDS_MAX, so a late end is
noticed; its length is an upper bound, at most WAIT_SECONDS_MAX too long.
"""

import asyncio
import logging
import selectors
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING

from prometheus_client.core import Metric

from qmq.clock import SYSTEM_CLOCK
from qmq.net.log_limiter import LogLimiter
from qmq_node.process.counters import Buckets, MetricFamilies

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

PAUSE_SECONDS_MIN = 0.01
"""Shorter pauses are not reported."""
WAIT_SECONDS_MAX = 0.02
"""An idle loop runs an empty turn this often."""
EVENTS_MAX = 32
"""Sockets that one turn of the loop serves. Timers run, and threads' results are taken, before the next ones."""
EVENTS_MIN = 8
"""After a turn of PAUSE_SECONDS_MIN or more, the next one serves half as many as it could, down to this number."""
WARNING_SECONDS = 0.5
"""Pauses from this length on are logged."""
WINDOWS = {"10s": 10, "1m": 60, "10m": 600}
"""Label and seconds of the periods for which the longest pause is exported."""
SLOT_SECONDS = 5
"""A period includes up to this many seconds more."""
SLOTS_MAX = max(WINDOWS.values()) // SLOT_SECONDS + 1

logger = logging.getLogger("qmq.loop")


class LoopPauses:
    """The pauses of one event loop, from `start` on. A loop that was not made by `new_event_loop` is not measured.

    Args:
        monotonic: returns seconds; called twice in each turn of the loop.
    """

    def __init__(self, monotonic: Callable[[], float] = SYSTEM_CLOCK.monotonic) -> None:
        self._monotonic = monotonic
        self._is_measuring = False
        self._slots: deque[tuple[int, float]] = deque(maxlen=SLOTS_MAX)
        """The longest pause of each slot that had one: the slot's number and seconds, the oldest first."""
        self._limiter = LogLimiter()
        self._histogram = Buckets(0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """Return a new event loop whose pauses are measured."""
        return asyncio.SelectorEventLoop(_MeasuredSelector(self._monotonic, self.observe))

    def start(self) -> None:
        """Measure from now on: the process serves."""
        self._is_measuring = True

    def observe(self, seconds: float) -> None:
        """Record a pause that has just ended."""
        if not self._is_measuring:
            return
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


class _MeasuredSelector(selectors.DefaultSelector):
    """Measures from the return of one `select` to the next call, and by how much a `select` exceeds its timeout.

    It returns EVENTS_MAX events at most, or fewer after long turns. The sockets that are ready together are served in turn before
    others are looked for, so that busy ones do not keep others from being served.
    """

    def __init__(self, monotonic: Callable[[], float], observe: Callable[[float], None]) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._observe = observe
        self._returned_at = monotonic()
        self._events_max = EVENTS_MAX
        self._unserved: dict[int, int] = {}
        """Events by file descriptor that are left for the next turns."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        called_at = self._monotonic()
        if called_at - self._returned_at >= PAUSE_SECONDS_MIN:
            self._observe(called_at - self._returned_at)
            self._events_max = max(self._events_max // 2, EVENTS_MIN)
        elif self._events_max < EVENTS_MAX:
            self._events_max += 1
        if self._unserved:
            self._returned_at = called_at
            return self._next_events()
        wait = WAIT_SECONDS_MAX if timeout is None or timeout > WAIT_SECONDS_MAX else timeout
        ready = super().select(wait)
        self._returned_at = returned_at = self._monotonic()
        if returned_at - called_at - wait >= PAUSE_SECONDS_MIN:
            self._observe(returned_at - called_at)
        if len(ready) <= self._events_max:
            return ready
        self._unserved = {key.fd: mask for key, mask in ready}
        return self._next_events()

    def unregister(self, fileobj: "FileDescriptorLike") -> selectors.SelectorKey:
        key = super().unregister(fileobj)
        # The next socket of this number need not be ready.
        self._unserved.pop(key.fd, None)
        return key

    def _next_events(self) -> list[tuple[selectors.SelectorKey, int]]:
        keys, fds = self.get_map(), list(islice(self._unserved, self._events_max))
        return [(keys[fd], self._unserved.pop(fd)) for fd in fds]
