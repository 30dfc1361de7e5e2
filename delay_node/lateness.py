"""How late deliveries were in the last minute: a quantile out of counts by bucket. Pure: time is handed in."""

from bisect import bisect_left
from collections.abc import Sequence

SLOT_SECONDS = 10.0
SLOTS = 6


class LatenessWindow:
    """Counts of the last SLOTS * SLOT_SECONDS seconds, by the upper ends of `buckets` (seconds, rising)."""

    def __init__(self, buckets: Sequence[float]) -> None:
        self._buckets = tuple(buckets)
        self._slots: dict[int, list[int]] = {}
        self._now = 0
        self._counts = self._slots.setdefault(0, [0] * (len(buckets) + 1))

    def tick(self, now: float) -> None:
        """Go on to this moment (monotonic seconds); what is too old is forgotten."""
        self._now = int(now / SLOT_SECONDS)
        for number in [number for number in self._slots if number <= self._now - SLOTS]:
            del self._slots[number]
        self._counts = self._slots.setdefault(self._now, [0] * (len(self._buckets) + 1))

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._buckets, seconds)] += 1

    def quantile(self, share: float) -> float | None:
        """The end of the bucket that this share of the deliveries does not exceed; None: there were none."""
        totals = [sum(column) for column in zip(*self._slots.values(), strict=True)]
        wanted, seen = sum(totals) * share, 0
        if not wanted:
            return None
        for end, count in zip((*self._buckets, self._buckets[-1]), totals, strict=True):
            seen += count
            if seen >= wanted:
                return end
        return self._buckets[-1]
