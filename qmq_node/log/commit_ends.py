"""class CommitEnds: where the newest commits of a log end, and their CRCs. Pure."""

from bisect import bisect_right

from qmq_node.log.record import Position

RECENT_COMMITS_MAX = 16_384
"""Commits of which the end is kept in memory, up to twice as many for a while: at most 2.5 MB. Those that a master has above the
high watermark are among them, see `UNCONFIRMED_COMMITS_MAX` in `qmq_node.commits.committer`."""


class CommitEnds:
    """The ends of the newest commits, at least RECENT_COMMITS_MAX of them once there are as many. For one thread."""

    __slots__ = ("_crcs", "_ends")

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._crcs: list[int] = []

    def add(self, end: int, crc: int) -> None:
        """Add the newest commit."""
        self._ends.append(end)
        self._crcs.append(crc)
        if len(self._ends) >= 2 * RECENT_COMMITS_MAX:
            # Half at a time: the rest is moved seldom.
            del self._ends[:RECENT_COMMITS_MAX], self._crcs[:RECENT_COMMITS_MAX]

    def crc_at(self, end: int) -> int | None:
        """Return the CRC of the commit that ends at this log offset; None for an offset at which none of these ends."""
        place = bisect_right(self._ends, end) - 1
        return self._crcs[place] if place >= 0 and self._ends[place] == end else None

    def at_or_below(self, offset: int) -> Position | None:
        """Return the place behind the last of these commits that ends at or below a log offset; None if all end above it."""
        place = bisect_right(self._ends, offset) - 1
        return Position(self._ends[place], self._crcs[place]) if place >= 0 else None

    def count_above(self, offset: int) -> int:
        """Return how many of these commits end above a log offset."""
        return len(self._ends) - bisect_right(self._ends, offset)
