"""What time it is for due messages: the wall clock, but never ahead of what the monotonic clock vouches for.

A wall clock may step, by hand, by NTP, by a virtual machine that wakes up. Backward: messages wait for the corrected clock.
Forward: a message delivered early can't be called back, so a step of more than STEP_ACCEPTED_MS is not accepted. The node
continues by the clock that it had, which keeps pace by the monotonic clock, and raises an alarm until an operator confirms the new
time, or the clock returns. Rule: reference/broker-peers.md, 4.4, F25 and F26.

A step that is held stays held over restarts: it is in file `clock` of the node's folder, i64 milliseconds ahead, i64 trusted time
when it began, u32 CRC of both. Without the file there is nothing to compare with, and a start accepts the wall clock.
"""

from dataclasses import dataclass
from math import ceil
from struct import Struct

from qmq.clock import Clock
from qmq_node.log.atomic_file import CheckedFile
from qmq_node.log.disk import Disk

DUE_TOLERANCE_MS = 60_000
"""A due time may be so much further ahead than the limit: clients count the longest delay by a clock that is a little ahead of this
one."""
CHANGE_MS = 100
"""A change of the step by less is not written: the two clocks always drift apart a little."""
_STEP = Struct(">qq")


@dataclass(frozen=True, slots=True)
class HeldStep:
    """The wall clock is ahead by a step that was not accepted."""

    ahead_ms: int
    since_ms: int
    """Trusted time when it was seen first."""


class HeldStepFile:
    """The step on disk. One thread at a time."""

    NAME = "clock"

    def __init__(self, disk: Disk, folder: str) -> None:
        self._file = CheckedFile(disk, folder, self.NAME, _STEP.size)
        self._kept: HeldStep | None = None
        self._is_known = False
        """Whether the file is as `_kept` says: not after a call that failed."""

    def load(self) -> HeldStep | None:
        """The step that was held when the node ended; None: none. Raises OSError for an unreadable or damaged file."""
        content = self._file.load()
        if content is not None and len(content) != _STEP.size:
            raise OSError(f"{self._file.path} is damaged: it has {len(content)} bytes")
        self._kept = HeldStep(*_STEP.unpack(content)) if content is not None else None
        self._is_known = True
        return self._kept

    def is_kept(self, step: HeldStep | None) -> bool:
        """Return whether the file has this step already, as exactly as CHANGE_MS demands."""
        kept = self._kept
        if not self._is_known or kept is None or step is None:
            return self._is_known and kept is step
        return kept.since_ms == step.since_ms and abs(kept.ahead_ms - step.ahead_ms) < CHANGE_MS

    def keep(self, step: HeldStep | None) -> None:
        """Write the step, or remove the file; durable when this returns. Raises OSError; the next call writes it again."""
        self._is_known = False
        if step is not None:
            self._file.save(_STEP.pack(step.ahead_ms, step.since_ms))
        else:
            self._file.remove()
        self._kept, self._is_known = step, True


STEP_ACCEPTED_MS = 5_000
"""Forward steps up to this much, in all, are followed at once. A wall clock that is behind by more is reported."""
REGAIN_MS_PER_S = 1.0
"""How fast that allowance grows again: twice what NTP slews at most (500 ppm)."""
CORRECTED_SECONDS = 600.0
"""After this long behind, the wall clock counts as corrected, and steps forward are judged from there."""


class TrustedClock:
    """Trusted time in milliseconds since the epoch. `now_ms` is to be called at least once a minute or so."""

    def __init__(self, clock: Clock, held: HeldStep | None = None) -> None:
        """Begin with the wall clock, unless it is still ahead by the step that was `held` before a restart."""
        self._clock = clock
        self._anchor_wall_ms = float(clock.wall_ms())
        self._anchor_at = clock.monotonic()
        self._allowance_ms = float(STEP_ACCEPTED_MS)
        self._behind_since: float | None = None
        self.held: HeldStep | None = None
        """The step that is not accepted, as of the last `now_ms`."""
        if held is not None and self._anchor_wall_ms - held.ahead_ms >= held.since_ms:
            self._anchor_wall_ms -= held.ahead_ms
            self._allowance_ms = 0.0
            self.held = held
        self.steps_refused = 0
        self.behind_ms = 0
        """By how much the wall clock is behind the time that was trusted before, as of the last `now_ms`. 0 up to STEP_ACCEPTED_MS,
        and once the clock counts as corrected."""

    def follow(self, time_ms: float, at: float) -> None:
        """Continue from a time that was `time_ms` at a moment of the monotonic clock: steps are judged from there."""
        self._anchor_wall_ms, self._anchor_at = time_ms, at
        self._allowance_ms = float(STEP_ACCEPTED_MS)
        self._behind_since = None

    def now_ms(self) -> int:
        """The time that due messages are judged by."""
        wall_ms, at = self._clock.wall_ms(), self._clock.monotonic()
        elapsed = at - self._anchor_at
        vouched_ms = self._anchor_wall_ms + elapsed * 1000
        self._allowance_ms = min(STEP_ACCEPTED_MS, self._allowance_ms + elapsed * REGAIN_MS_PER_S)
        self._anchor_wall_ms, self._anchor_at = vouched_ms, at
        ahead_ms = wall_ms - vouched_ms
        self.behind_ms = int(-ahead_ms) if ahead_ms < -STEP_ACCEPTED_MS else 0
        if ahead_ms > self._allowance_ms:
            if self.held is None:
                self.steps_refused += 1
            # The time of a group may step back below it; a restart would take that for a clock that has returned.
            since_ms = int(vouched_ms) if self.held is None else min(self.held.since_ms, int(vouched_ms))
            # Rounded up: the next process may be late by the rest, not early.
            self.held = HeldStep(ceil(ahead_ms), since_ms)
            self._behind_since = None
            return int(vouched_ms)
        self.held = None
        if ahead_ms >= 0:
            self._allowance_ms -= ahead_ms
            self._anchor_wall_ms = wall_ms
            self._behind_since = None
        elif self._behind_since is None:
            self._behind_since = at
        elif at - self._behind_since >= CORRECTED_SECONDS:
            self._anchor_wall_ms = wall_ms
            self._behind_since = None
        return wall_ms

    def confirm(self) -> None:
        """An operator says that the wall clock is right."""
        self._anchor_wall_ms = float(self._clock.wall_ms())
        self._anchor_at = self._clock.monotonic()
        self._allowance_ms = STEP_ACCEPTED_MS
        self.held = self._behind_since = None
