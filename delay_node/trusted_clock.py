"""What time it is for due messages: the wall clock, but never ahead of what the monotonic clock vouches for.

A wall clock may step, by hand, by NTP, by a virtual machine that wakes up. Backward: messages wait for the corrected clock.
Forward: a message delivered early can't be called back, so a step of more than `STEP_ACCEPTED_MS` is not believed. The node
goes on by the clock it had, which keeps pace by the monotonic clock, and raises an alarm until an operator confirms the new
time, or the clock returns. Rule: reference/broker-peers.md, 4.4, F25 and F26.

A step that is held stays held over restarts (delay_node/held_step.py). At a start without one there is nothing to compare with, and
the wall clock is accepted.
"""

from delay_node.held_step import HeldStep
from qmq.clock import Clock

STEP_ACCEPTED_MS = 5_000
"""Forward steps up to this much, in all, are followed at once."""
REGAIN_MS_PER_S = 1.0
"""How fast that allowance grows again: twice what NTP slews at most (500 ppm)."""
SETTLE_SECONDS = 600.0
"""After this long behind, the wall clock counts as corrected, and steps forward are judged from there."""


class TrustedClock:
    """Trusted time in milliseconds since the epoch. `now_ms` is to be called at least once a minute or so."""

    def __init__(self, clock: Clock, held: HeldStep | None = None) -> None:
        """Begin with the wall clock.

        Args:
            held: the step that was held before a restart. If the wall clock is below the time when that step began plus the step,
                it has returned meanwhile and is accepted.
        """
        self._clock = clock
        self._anchor_wall_ms = float(clock.wall_ms())
        self._anchor_at = clock.monotonic()
        self._allowance_ms = float(STEP_ACCEPTED_MS)
        self._behind_since: float | None = None
        self._alarm_since_ms: int | None = None
        self._ahead_ms = 0
        """Of the held step."""
        if held is not None and self._anchor_wall_ms - held.ahead_ms >= held.since_ms:
            self._anchor_wall_ms -= held.ahead_ms
            self._allowance_ms = 0.0
            self._ahead_ms = held.ahead_ms
            self._alarm_since_ms = held.since_ms
        self.steps_refused = 0

    def now_ms(self) -> int:
        """The time that due messages are judged by."""
        wall_ms, at = self._clock.wall_ms(), self._clock.monotonic()
        elapsed = at - self._anchor_at
        vouched_ms = self._anchor_wall_ms + elapsed * 1000
        self._allowance_ms = min(STEP_ACCEPTED_MS, self._allowance_ms + elapsed * REGAIN_MS_PER_S)
        self._anchor_wall_ms, self._anchor_at = vouched_ms, at
        ahead_ms = wall_ms - vouched_ms
        if ahead_ms > self._allowance_ms:
            if self._alarm_since_ms is None:
                self._alarm_since_ms = int(vouched_ms)
                self.steps_refused += 1
            self._behind_since = None
            self._ahead_ms = int(ahead_ms)
            return int(vouched_ms)
        self._alarm_since_ms = None
        if ahead_ms >= 0:
            self._allowance_ms -= ahead_ms
            self._anchor_wall_ms = wall_ms
            self._behind_since = None
        elif self._behind_since is None:
            self._behind_since = at
        elif at - self._behind_since >= SETTLE_SECONDS:
            self._anchor_wall_ms = wall_ms
            self._behind_since = None
        return wall_ms

    @property
    def held(self) -> HeldStep | None:
        """The step that is not believed, as of the last `now_ms`."""
        if self._alarm_since_ms is None:
            return None
        return HeldStep(self._ahead_ms, self._alarm_since_ms)

    def confirm(self) -> None:
        """An operator says that the wall clock is right."""
        self._anchor_wall_ms = float(self._clock.wall_ms())
        self._anchor_at = self._clock.monotonic()
        self._allowance_ms = STEP_ACCEPTED_MS
        self._alarm_since_ms = self._behind_since = None
