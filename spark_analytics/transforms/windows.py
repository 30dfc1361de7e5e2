"""Windows of time and the steps they are cut into. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

SECOND_MS = 1_000
MINUTE_MS = 60_000
TEN_MINUTES_MS = 600_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000

SHORT_STEPS = (MINUTE_MS, TEN_MINUTES_MS, HOUR_MS, DAY_MS)
"""Steps of the tables that have minutes."""
LONG_STEPS = (HOUR_MS, DAY_MS)
"""Steps of the tables that have hours and days only."""


@dataclass(frozen=True, slots=True)
class Window:
    """A range of event time [from, to), in milliseconds since the epoch."""

    from_ms: int
    to_ms: int

    def __post_init__(self) -> None:
        if self.from_ms >= self.to_ms:
            raise ValueError(f"a window from {self.from_ms} to {self.to_ms} holds no time")

    @property
    def seconds(self) -> int:
        """Its length, in seconds."""
        return (self.to_ms - self.from_ms) // SECOND_MS


def check_steps(window: Window, steps: Sequence[int]) -> None:
    """Raises ValueError for a window that is not whole steps: a row would stand for a part of its step."""
    for step_ms in steps:
        if step_ms < MINUTE_MS or step_ms % MINUTE_MS:
            raise ValueError(f"a step of {step_ms} ms: must be whole minutes")
        if window.from_ms % step_ms or window.to_ms % step_ms:
            raise ValueError(f"the window from {window.from_ms} to {window.to_ms} is not a multiple of {step_ms} ms")
