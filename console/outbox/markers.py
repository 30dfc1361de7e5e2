"""The cleanup of registered databases: markers of idempotent handlers that no copy of their message can need any more.

A database's thread of the passes (`console.outbox.passes`) runs it after a pass, on a connection of its own: what fails here fails
no pass.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta

from console.outbox.models import OutboxDatabase
from metaserver import queries
from qmq.errors import DatabaseFailed
from qmq.idempotent.cleanup import Cleanup
from qmq.outbox.databases import Connection

EVERY_SECONDS = 3_600.0
"""From the end of a cleanup to the next one."""
RETRY_SECONDS = 300.0
"""The same after a cleanup that failed."""
CLEANUP_SECONDS = 2.0
"""How long a cleanup may take at a time, and a batch longer. The next pass deletes the rest."""
BROKER_RETENTION = timedelta(hours=72)
"""How long brokers keep messages by default. What they are configured to keep is not known here."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What a cleanup came to."""

    deleted: int
    """Markers."""
    is_over: bool = True
    """False: its time was over before all old markers were deleted."""
    failure: DatabaseFailed | None = None
    """What was deleted before stays deleted."""


def retention_min() -> timedelta:
    """How long markers are kept at least: as long as brokers keep messages by default, and any subject those of its own."""
    return max(BROKER_RETENTION, timedelta(hours=queries.longest_retention_hours() or 0.0))


def clean_markers(
    row: OutboxDatabase, connect: Callable[[], Connection], kept: timedelta, is_time_over: Callable[[], bool]
) -> Cleaned:
    """Delete the old markers of a database, until there are none or the time is over, which is checked after each batch.

    Args:
        kept: markers are kept at least this long, whatever the database's `marker_days` are.
    """
    deleted, retention = 0, max(kept, timedelta(days=row.marker_days))
    try:
        with closing(connect()) as connection:
            for count in Cleanup(connection, table=row.marker_table, retention=retention).batches():
                deleted += count
                if is_time_over():
                    return Cleaned(deleted, is_over=False)
    except DatabaseFailed as error:
        text = f"markers in {row.marker_table}: {error}"
        return Cleaned(deleted, failure=DatabaseFailed(text, code=error.code))
    return Cleaned(deleted)


def due_in(row: OutboxDatabase, now_ms: int) -> float:
    """In how many seconds the next cleanup of a database is due, by what is stored of the last one."""
    if row.marker_cleanup_at is None:
        return 0.0
    pause = RETRY_SECONDS if row.marker_error_code else EVERY_SECONDS
    # A clock that was set back must not stop cleanups.
    return min(pause, row.marker_cleanup_at.timestamp() + pause - now_ms / 1000)
