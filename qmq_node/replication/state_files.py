"""The files beside a checkpoint that are a part of a member's state, and have to be copied with it."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Protocol

from qmq_node.log.checkpoint import CheckpointFile


@dataclass(frozen=True, slots=True)
class StateFile:
    """A file of which a checkpoint counts the first bytes."""

    path: str
    bytes: int
    """How many count."""
    owner: int
    """What it belongs to, as a number of the store."""
    since: int
    """The log offset at which the owner began: names are used again."""
    place: int
    """Slaves copy the files of a state in this order."""


@dataclass(frozen=True, slots=True)
class WantedBytes:
    """Bytes of a file of the master's state that a slave needs next."""

    file: str
    begin: int
    bytes: int
    file_bytes: int
    """How many bytes of the file count."""
    done_bytes: int
    """Of all files: how many are here, of `total_bytes`."""
    total_bytes: int
    since: int = 0
    """As `StateFile.since`, of bytes of another member."""
    is_damaged: bool = False
    """Whether they are damaged at the master: those of another member are wanted."""


class StateFiles(Protocol):
    """Such files of one kind of node: what its master serves of them, and what its slave makes of them."""

    # --- of a master -----------------------------------------------------------------------------------------------

    def counted(self, checkpoint: CheckpointFile) -> Mapping[str, StateFile]:
        """Return the files that a checkpoint counts, by the name that slaves use; in a thread. Raises LogError, OSError."""

    def is_current(self, file: StateFile) -> bool:
        """Whether the file still is what the checkpoint counted; on the event loop. If not, its bytes may be others."""

    def read(self, file: StateFile, begin: int, size: int) -> bytes:
        """Return bytes of a file below its count, zeros for those that can't be read; from any thread."""

    # --- of a slave, whose store is not open -----------------------------------------------------------------------

    def keep(self, log_end: int) -> None:
        """Note durably what of this node's own state is whole, before its checkpoints are removed; in a thread. Raises OSError.

        Args:
            log_end: no record from here on has changed a file; 0: this is not known, and nothing is kept.
        """

    def discard(self) -> None:
        """Forget what is here: the state that is copied next belongs to another log; in the writing thread. Raises OSError."""

    def copy(self) -> Generator[WantedBytes, bytes, int]:
        """Copy what the checkpoint counts that was copied, from where an earlier call ended; each step in the writing thread.

        Yields what it needs next, and is sent some of it, at least one byte; of what is damaged at the master, all or nothing. When
        it ends, all is checked and durable. Returns the number of entries that are copied damaged. Raises LogError, OSError.
        """
