"""class ConfirmedLog: which part of a log can't be lost any more."""

from collections import deque

from qmq_node.log.commit import CommitWriter
from qmq_node.log.opening import Inspection
from qmq_node.log.record import CommitHeader, Position


class ConfirmedLog(CommitWriter):
    """The high watermark of a log, and what follows it; belongs to the event loop's thread."""

    def __init__(self, found: Inspection, segment_bytes: int) -> None:
        super().__init__(found, segment_bytes)
        self.position = found.walked.visited
        """Behind the last commit with records at or below the high watermark: where a checkpoint stands."""
        self._unconfirmed: deque[tuple[int, int, Position]] = deque()
        """Commits with records above the high watermark: the end, and an entry of `tails`."""

    def confirm(self, high_watermark: int) -> None:
        """Move the high watermark to the end of a commit that every member of the in-sync set has synced, this one included.

        Raises ValueError if it would fall, pass what is synced here, or not be the end of a commit; nothing was changed then.
        """
        if high_watermark == self.high_watermark:
            return
        self._check_confirmed(high_watermark)
        position = self._ends.at_or_below(high_watermark)
        if position is None or position.offset != high_watermark:
            raise ValueError(f"the high watermark can't be {high_watermark}: no commit ends there")
        self.high_watermark, self.position = high_watermark, position
        while self._unconfirmed and self._unconfirmed[0][0] <= high_watermark:
            _, base, tail = self._unconfirmed.popleft()
            self.tails[base] = tail

    def confirm_applied(self, position: Position, commit: CommitHeader | None = None) -> None:
        """As `confirm`, on a slave, which moves the high watermark when it has applied what is below.

        Args:
            position: behind what was applied.
            commit: the commit there, if it has records.
        """
        self._check_confirmed(position.offset)
        if commit is None:
            self.high_watermark, self.position = position.offset, position
        else:
            self._confirmed(position, commit.segment_base, Position(commit.offset, commit.crc))

    def _confirmed(self, position: Position, segment_base: int, tail: Position) -> None:
        self.high_watermark, self.position = position.offset, position
        self.tails[segment_base] = tail

    def _check_confirmed(self, high_watermark: int) -> None:
        if high_watermark < self.high_watermark:
            raise ValueError(f"the high watermark is {self.high_watermark} and can't fall to {high_watermark}")
        if high_watermark > self.synced_end:
            raise ValueError(f"the high watermark can't be {high_watermark}: the log is synced to {self.synced_end}")

    @property
    def unconfirmed_commits(self) -> int:
        """Commits written that end above the high watermark; a last one may be a seal."""
        return self._ends.count_above(self.high_watermark)
