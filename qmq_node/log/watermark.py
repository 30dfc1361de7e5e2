"""class Watermark: which part of a log can't be lost any more."""

from collections import deque

from qmq_node.log.commit import SealedCommit
from qmq_node.log.opening import Inspection
from qmq_node.log.record import CommitHeader, Position
from qmq_node.log.writer import CommitWriter


class Watermark:
    """The high watermark of a log, and what follows it. Belongs to the event loop's thread."""

    def __init__(self, found: Inspection, writer: CommitWriter) -> None:
        self._writer = writer
        self.position = found.walked.visited
        """Behind the last commit with records at or below the high watermark: where a checkpoint stands."""
        self.offset = self.position.offset
        """The high watermark: the first offset that may still be lost. It is the end of a commit and never falls."""
        self.tails = dict(found.tails)
        """Segment base -> offset and CRC of its last commit with records at or below the high watermark: by them a segment is known
        again. A later one may be truncated."""
        self._ends = found.ends
        self._unconfirmed: deque[tuple[int, int, Position]] = deque()
        """Commits with records above the high watermark: the end, and an entry of `tails`."""

    def begin_at(self, base: int) -> None:
        """The log continues nothing: its first segment begins here."""
        self.offset, self.position = base, Position(base, 0)

    def crc_at(self, end: int) -> int | None:
        """Return the CRC of the commit that ends at a log offset; None if it is none of the newest ones."""
        return self._ends.crc_at(end)

    def add(self, commit: SealedCommit, crc: int, *, is_confirmed: bool) -> None:
        """Add a commit that was written.

        Args:
            is_confirmed: it need not be stored elsewhere, so the high watermark moves to its end, unless it is a seal. Otherwise
                `confirm` moves it.
        """
        self._ends.add(commit.end, crc)
        if commit.is_seal:
            return
        tail = Position(commit.offset, crc)
        if is_confirmed:
            self._confirmed(Position(commit.end, crc), commit.segment_base, tail)
        else:
            self._unconfirmed.append((commit.end, commit.segment_base, tail))

    def add_copied(self, header: CommitHeader) -> None:
        """Add a copied commit that was written. `confirm_applied` moves the high watermark."""
        self._ends.add(header.end, header.crc)

    def confirm(self, high_watermark: int) -> None:
        """Move the high watermark to the end of a commit that every member of the in-sync set has synced, this one included.

        Raises ValueError if it would fall, pass what is synced here, or not be the end of a commit; nothing was changed then.
        """
        if high_watermark == self.offset:
            return
        self._check_confirmed(high_watermark)
        position = self._ends.at_or_below(high_watermark)
        if position is None or position.offset != high_watermark:
            raise ValueError(f"the high watermark can't be {high_watermark}: no commit ends there")
        self.offset, self.position = high_watermark, position
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
            self.offset, self.position = position.offset, position
        else:
            self._confirmed(position, commit.segment_base, Position(commit.offset, commit.crc))

    def _confirmed(self, position: Position, segment_base: int, tail: Position) -> None:
        self.offset, self.position = position.offset, position
        self.tails[segment_base] = tail

    def _check_confirmed(self, high_watermark: int) -> None:
        if high_watermark < self.offset:
            raise ValueError(f"the high watermark is {self.offset} and can't fall to {high_watermark}")
        if high_watermark > self._writer.synced_end:
            raise ValueError(
                f"the high watermark can't be {high_watermark}: the log is synced to {self._writer.synced_end}"
            )

    @property
    def unconfirmed_commits(self) -> int:
        """Commits written that end above the high watermark; a last one may be a seal."""
        return self._ends.count_above(self.offset)
