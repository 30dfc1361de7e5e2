"""Time and randomness, handed in. Monotonic seconds for durations, wall milliseconds for stamps.

No other module reads a clock or draws a random number, except where a process is put together (`qmq.daemon.machine`) and in
commands: an import rule checks it.
"""

import os
import random
import time
from typing import Protocol


class Clock(Protocol):
    """What logic may ask about time."""

    def monotonic(self) -> float:
        """Seconds on a clock that never steps back and counts a suspended machine's sleep; only differences mean something."""
        ...

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch, as an operator set it: may step either way."""
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
"""For choices that only have to be spread."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SYSTEM_RANDOM.seed)  # forks of one process must not make the same choices


def sleep(seconds: float) -> None:
    """Block this thread."""
    time.sleep(seconds)


class ManualClock:
    """A clock that stands still until it is told to move; for tests and replays."""

    def __init__(self, wall_ms: int = 1_700_000_000_000, monotonic: float = 1_000.0) -> None:
        self._wall_ms = wall_ms
        self._monotonic = monotonic

    def monotonic(self) -> float:
        return self._monotonic

    def wall_ms(self) -> int:
        return self._wall_ms

    def advance(self, seconds: float) -> None:
        """Move both clocks forward together."""
        self._monotonic += seconds
        self._wall_ms += round(seconds * 1000)

    def step_wall(self, milliseconds: int) -> None:
        """Step the wall clock alone, as an operator or NTP would."""
        self._wall_ms += milliseconds
