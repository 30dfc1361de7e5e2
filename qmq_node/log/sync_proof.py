"""class SyncProof: how far a slave's log is proven to be synced, while several of its commits share a sync.

A commit names the end of what was synced before it, and recovery takes that for a proof. It was written about the
master's disk, so it is true on a slave only if each commit is synced here before the next is written. Where several
commits share a sync, a power cut can lose the first and keep the second, whose claim would make the torn tail look like
damage of acknowledged data. So a log is in one of two states:

- **There is no proof.** All that is on the disk was synced commit by commit, and the claims of commits hold.
- **There is a proof at P.** Everything below P is synced. Of what is above, nothing counts as synced: it was neither
  confirmed, nor
  applied, nor is it in a checkpoint. Recovery takes the first bad place there for a torn tail, whatever follows it and
  whatever commits claim. A bad place below P is damage, as is a log that ends below it.

The first proof is durable before the first shared sync, the proof of a group of commits before they count as synced,
and what the last group wrote is synced before the proof is removed, which is durable before a commit is written on its
own. A crash between any two of these steps leaves one of the two states. A proof that a crash left is removed when the
log was opened, because opening syncs what it keeps.
"""

from struct import Struct

from qmq.errors import LogError
from qmq_node.log.atomic_file import TwoPageFile
from qmq_node.log.disk import Disk
from qmq_node.log.record import Position


class SyncProof:
    """The proof of one log, in a file beside the log's folder. For one thread at a time."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._file = TwoPageFile(disk, f"{folder}.proof", Struct(">qI"))

    def load(self) -> Position | None:
        """Return where the last proven commit ends, and its CRC; None: commits do not share syncs.

        Raises LogError for a file that can't be read.
        """
        try:
            record = self._file.read()
        except OSError as error:
            raise self._unusable(str(error)) from error
        return Position(*record) if record is not None else None

    def save(self, proven: Position) -> None:
        """Record durably that everything below is synced. Raises OSError."""
        self._file.write(proven.offset, proven.chain)

    def remove(self) -> None:
        """Record durably that commits share syncs no longer. Raises OSError."""
        self._file.remove()

    def other_log(self, proven: Position) -> LogError:
        """Return the error that the log has no such commit, and no damage there."""
        return self._unusable(f"the log has no commit with CRC {proven.chain} that ends at offset {proven.offset}")

    def _unusable(self, why: str) -> LogError:
        return LogError(
            f"{self._file.path} can't be used: {why}. Without it this node does not know which part of its log was confirmed:"
            " move the data folder away, so that the node copies the log of its broker group",
            code="log.proof_unusable",
        )
