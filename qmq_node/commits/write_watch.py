"""class WriteWatch: for how long the disk has not completed a write that is under way."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from qmq.clock import Clock

CHECK_SECONDS = 0.25
"""How often it is checked whether a write is under way."""
STUCK_SECONDS = 2.0
"""When a write has been under way for so long, sends are rejected, so that producers use other broker groups."""


@dataclass(eq=False, repr=False)
class WriteWatch:
    """Observes the writes of one node, from its event loop. A time in which the process stood still does not count."""

    _clock: Clock
    _under_way: Callable[[], Hashable | None]
    """Identifies the write that is under way; None: none is."""
    _on_change: Callable[[], None]
    """Called when the disk is stuck, and when it is no longer."""
    stuck_seconds: float = field(default=0.0, init=False)
    """For how long the same write has been under way; 0.0 if none has been since the check before."""
    is_stuck: bool = field(default=False, init=False)
    """Whether a write has been under way for STUCK_SECONDS. A field, because each send asks for it."""
    _last: Hashable | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._checked_at = self._clock.monotonic()

    def check(self) -> None:
        """To be called every CHECK_SECONDS."""
        now, write = self._clock.monotonic(), self._under_way()
        passed = min(now - self._checked_at, 2 * CHECK_SECONDS)
        self.stuck_seconds = self.stuck_seconds + passed if write is not None and write == self._last else 0.0
        self._checked_at, self._last = now, write
        is_stuck = self.stuck_seconds >= STUCK_SECONDS
        if is_stuck is not self.is_stuck:
            self.is_stuck = is_stuck
            self._on_change()
