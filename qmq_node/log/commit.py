"""What goes to disk together."""

from dataclasses import dataclass
from enum import Enum

from qmq_node.log.disk import Buffer
from qmq_node.log.record import HEADER_BYTES

COMMIT_BYTES_TARGET = 8 << 20
"""A commit that has gathered this much is closed; a single larger record still makes one commit."""
RECORD_BYTES_MAX = 32 << 20
"""Largest record."""
RECORD_HEAD_BYTES_MAX = 1 << 10
"""Room that nodes leave in the largest record for what they write besides one message: its subject, number and times."""


class FlushPolicy(Enum):
    """When a commit counts as synced: after its own fdatasync; or, giving up the newest on a power cut, earlier."""

    ALWAYS = "always"
    INTERVAL = "interval"
    OS = "os"


@dataclass(frozen=True, slots=True)
class SealedCommit:
    """A commit ready to be written: its place, and its records' bytes in order."""

    segment_base: int
    offset: int
    body_bytes: int
    record_count: int
    parts: tuple[Buffer, ...]
    index_entries: tuple[bytes, ...] = ()
    """Index entries of its records, in order: see `Gather.add_index_entries`."""

    @property
    def end(self) -> int:
        return self.offset + HEADER_BYTES + self.body_bytes

    @property
    def is_seal(self) -> bool:
        """Without records: it only proves that the commit before it was synced."""
        return self.record_count == 0
