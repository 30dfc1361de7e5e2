"""Time and randomness, which other code receives as arguments: monotonic seconds for durations, wall milliseconds for timestamps.

No other module reads a clock or draws a random number, except commands and where a process is assembled
(`qmq_node.process.machine`). An import rule checks it.
"""

import os
import random
import time
from typing import Protocol


class Clock(Protocol):
    """The clocks of a machine."""

    def monotonic(self) -> float:
        """Seconds on a clock that never steps back and counts while the machine is suspended. For differences only."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch. May step forward or back, because operators and NTP set it."""
        ...


_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        return time.clock_gettime(_BOOTTIME)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


SYSTEM_CLOCK: Clock = SystemClock()
SYSTEM_RANDOM = random.Random()
"""For choices that need no secrecy."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SYSTEM_RANDOM.seed)  # forks of one process must not make the same choices


def sleep(seconds: float) -> None:
    """Block this thread."""
    time.sleep(seconds)
