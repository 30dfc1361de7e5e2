"""class CommitBatch: whole commits as they are sent to a slave."""

from dataclasses import dataclass

from qmq.protocol.replication import Buffer
from qmq_node.log.record import Position


@dataclass(frozen=True, slots=True)
class CommitBatch:
    """Commits of one segment, one behind the other."""

    segment_base: int
    segment_bytes: int
    """Size of the segment if the first commit is the segment's first, or follows on a lost range, else 0."""
    offset: int
    """Where the first one begins."""
    ends: tuple[Position, ...]
    """Where each ends, and its CRC; at least one."""
    records_end: int
    """The end of the last one with records; 0 if all are seals."""
    buffers: tuple[Buffer, ...]
    """Their bytes, in order."""
    lost_from: int | None = None
    """Where the lost range begins that ends at `offset`; None: they follow on the commit before."""
    index_entries: tuple[Buffer, ...] = ()
    """Index entries of all messages of the commit, if it is a single one; empty: the slave derives them."""

    @property
    def end(self) -> Position:
        """Where the last one ends, and its CRC."""
        return self.ends[-1]

    @property
    def bytes(self) -> int:
        """Size of all of them."""
        return self.end.offset - self.offset

    @property
    def index_bytes(self) -> int:
        """Size of the index entries."""
        return sum(map(len, self.index_entries))
