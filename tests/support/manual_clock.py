"""A clock for tests."""


class ManualClock:
    """A clock that moves only when it is advanced."""

    def __init__(self, wall_ms: int = 1_700_000_000_000, monotonic: float = 1_000.0) -> None:
        self._wall_ms = wall_ms
        self._monotonic = monotonic

    def monotonic(self) -> float:
        return self._monotonic

    def wall_ms(self) -> int:
        return self._wall_ms

    def advance(self, seconds: float) -> None:
        """Move both clocks forward."""
        self._monotonic += seconds
        self._wall_ms += round(seconds * 1000)

    def step_wall(self, milliseconds: int) -> None:
        """Step the wall clock alone, as an operator or NTP does."""
        self._wall_ms += milliseconds
