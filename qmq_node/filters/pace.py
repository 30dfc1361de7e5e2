"""How much of a processor filters get beside a node that is busy.

Low priority is not enough: processors that share caches and clock make each other slower, so producers at full rate lost 18 to
24 % beside a process that only used what they left idle (docs/performance.md).
"""

import os
import signal
from collections.abc import Callable
from types import FrameType

from qmq.clock import SYSTEM_CLOCK, Clock, sleep

SLICE_SECONDS = 0.005
"""Processor time between two pauses."""
SHARE_LEAST = 0.03
"""Of the time, beside a node that uses half a processor or more; beside one that uses less, more."""
WINDOW_SECONDS = 0.05
"""What a node uses is measured over so long at least; the kernel counts in hundredths of a second."""
WINDOW_SECONDS_MAX = 1.0
"""Older figures say nothing of the present."""


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has used, in seconds; 0 when it has ended."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def share_beside(busy: float) -> float:
    """The share of the time that filters get beside a node that uses this share of a processor."""
    return max(SHARE_LEAST, min(1.0, 1.0 - 2.0 * busy))


class Pace:
    """Pauses the process after each slice of work, the longer the busier the node is.

    Args:
        used: the processor time that the node has used, in seconds.
    """

    def __init__(
        self, used: Callable[[], float], clock: Clock = SYSTEM_CLOCK, sleep: Callable[[float], None] = sleep
    ) -> None:
        self._used = used
        self._clock = clock
        self._sleep = sleep
        self._since = clock.monotonic()
        self._used_since = used()
        self._share = 1.0

    def start(self) -> None:
        """Pause from now on after each SLICE_SECONDS of processor time, whatever the process does."""
        signal.signal(signal.SIGPROF, self.pause)
        signal.setitimer(signal.ITIMER_PROF, SLICE_SECONDS, SLICE_SECONDS)

    def pause(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        """Pause as long as the share says, after a slice."""
        now = self._clock.monotonic()
        seconds = now - self._since
        if seconds >= WINDOW_SECONDS:
            used = self._used()
            self._share = share_beside((used - self._used_since) / seconds) if seconds <= WINDOW_SECONDS_MAX else 1.0
            self._since, self._used_since = now, used
        if self._share < 1.0:
            self._sleep(SLICE_SECONDS / self._share - SLICE_SECONDS)
