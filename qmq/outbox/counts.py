"""What waits in an outbox, and which relay serves it."""

from dataclasses import dataclass

from qmq.outbox.databases import Connection
from qmq.outbox.dialects import PENDING_COUNTED_MAX, Statements


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of one table. Rows are counted up to PENDING_COUNTED_MAX + 1."""

    pending: int
    failed: int
    """Rows that wait for an operator."""
    oldest_ms: int | None
    """Age of the oldest pending row; None: there is none."""
    leader: str | None
    """The relay that holds the lease; None: none."""


def counts_of(connection: Connection, statements: Statements) -> Counts:
    """Count the rows of a table. Raises DatabaseFailed."""
    [[pending]] = connection.rows(statements.pending, [PENDING_COUNTED_MAX + 1])
    [[failed]] = connection.rows(statements.failed, [PENDING_COUNTED_MAX + 1])
    oldest = connection.rows(statements.oldest)
    lease = connection.rows(statements.lease, [str(statements.table)])
    leader = lease[0][0] if lease and lease[0][2] > 0 else None
    return Counts(int(pending), int(failed), int(oldest[0][0]) if oldest else None, leader)
