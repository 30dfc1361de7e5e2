"""class GrowingPause: a pause after each failure that doubles while failures continue. Pure, time handed in."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class GrowingPause:
    """`first` seconds after the first failure, then twice the last pause, at most `longest`.

    It is `first` again when nothing has failed for `longest` since the end of the last pause. Times are monotonic seconds.
    """

    first: float
    longest: float
    failures: int = field(default=0, init=False)
    """Since the pause was `first`."""
    _seconds: float = field(default=0.0, init=False)
    _ends_at: float = field(default=float("-inf"), init=False)

    def failed(self, now: float) -> None:
        """It failed: the next pause begins."""
        if now - self._ends_at > self.longest:
            self.failures, self._seconds = 0, 0.0
        self.failures += 1
        self._seconds = min(2 * self._seconds, self.longest) or self.first
        self._ends_at = now + self._seconds

    def renew(self, now: float) -> None:
        """What failed is not over yet: the pause begins again, as long as before."""
        if self.remaining(now):
            self._ends_at = now + self._seconds

    def remaining(self, now: float) -> float:
        """Return the rest of the pause, in seconds; 0.0 outside of one."""
        return max(0.0, self._ends_at - now)
