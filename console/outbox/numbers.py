"""What is known of a registered database. Pure.

A number that could not be measured is None with the reason, never 0.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from console.outbox.models import OutboxDatabase
from qmq.outbox.dialects import PENDING_COUNTED_MAX

FRESH_SECONDS = 90.0
"""Older numbers are unknown: the background job measures every 15 s, and may be busy with other databases."""


class Unknown(StrEnum):
    """Why the numbers of a database are unknown."""

    DISABLED = "disabled"
    NOT_MEASURED = "not_measured"
    """Not yet."""
    OUTDATED = "outdated"
    """The background job has not measured it for FRESH_SECONDS."""
    FAILED = "failed"
    """The database can't be used; its error says why."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of one database; all None but `measured_at` while they are unknown."""

    unknown: Unknown | None
    measured_at: datetime | None
    """When they were measured last, also if they are unknown now."""
    pending: int | None = None
    is_pending_exact: bool | None = None
    """False: there are more than PENDING_COUNTED_MAX."""
    oldest_seconds: float | None = None
    """Age of the oldest unsent row, 0 when there is none."""
    failed: int | None = None
    is_failed_exact: bool | None = None
    leader: str | None = None
    rows_per_second: float | None = None

    @classmethod
    def of(cls, row: OutboxDatabase, now: datetime) -> "Numbers":
        """What is known of a database at this time."""
        unknown, pending, failed, oldest_ms = _unknown(row, now), row.pending, row.failed, row.oldest_ms
        if unknown is not None or pending is None or failed is None or oldest_ms is None:
            return cls(unknown or Unknown.NOT_MEASURED, row.measured_at)
        return cls(
            None,
            row.measured_at,
            pending=min(pending, PENDING_COUNTED_MAX),
            is_pending_exact=pending <= PENDING_COUNTED_MAX,
            oldest_seconds=max(0, oldest_ms) / 1000,
            failed=min(failed, PENDING_COUNTED_MAX),
            is_failed_exact=failed <= PENDING_COUNTED_MAX,
            leader=row.leader or None,
            rows_per_second=row.rows_per_second,
        )


def _unknown(row: OutboxDatabase, now: datetime) -> Unknown | None:
    if not row.is_enabled:
        return Unknown.DISABLED
    if row.error_code:
        return Unknown.FAILED
    if row.measured_at is None:
        return Unknown.NOT_MEASURED
    return Unknown.OUTDATED if now - row.measured_at > timedelta(seconds=FRESH_SECONDS) else None
