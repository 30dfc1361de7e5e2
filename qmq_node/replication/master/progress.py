"""class Progress: for how long something has waited without progress. Pure."""


class Progress:
    """Two positions of a log: what has been reached, and what is waited for. Times are monotonic seconds."""

    __slots__ = ("_expected", "_reached", "_since")

    def __init__(self, reached: int = 0) -> None:
        self._reached = self._expected = reached
        self._since: float | None = None
        """When the wait began, or the last progress within it was made; None: nothing waits."""

    def expect(self, end: int, now: float) -> None:
        """Something below `end` waits from now on, unless that was reached already."""
        self._expected = max(self._expected, end)
        if self._since is None and self._reached < self._expected:
            self._since = now

    def reach(self, end: int, now: float) -> None:
        """Everything below `end` is done. What is not above an earlier `end` is no progress."""
        if end > self._reached:
            self._reached = end
            self._since = now if end < self._expected else None

    def skip(self, seconds: float, now: float) -> None:
        """Do not count this much time before `now`: the process stood still."""
        if self._since is not None:
            self._since = min(self._since + seconds, now)

    def waited_seconds(self, now: float) -> float:
        """Return for how long nothing was reached although something waits; 0.0 if nothing waits."""
        return 0.0 if self._since is None else now - self._since
