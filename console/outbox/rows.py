"""Rows of a registered database, read when they are asked for."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from console.cursors import decode_cursor, encode_cursor
from console.outbox.access import address_of, connect_checked
from console.outbox.gate import Gate
from console.outbox.models import OutboxDatabase
from metaserver.errors import NotFound
from qmq.errors import DatabaseFailed
from qmq.outbox.databases import Connection, Kind
from qmq.outbox.dialects import Statements
from qmq.outbox.rows import Status

logger = logging.getLogger("qmq.outbox")

CONTENT_BYTES_MAX = 1 << 20
"""Contents up to this size are read for the page of one row; lists have those up to INLINE_BYTES_MAX of `qmq.outbox.dialects`."""
gate = Gate()
"""Of this process."""
STATUSES = {status.name.lower(): status for status in Status}
"""By their names in the API."""

_WHY = {
    "database.unreachable": "it can't be reached",
    "database.timeout": "it did not answer in time",
    "database.access_denied": "it refuses the user, or the user lacks a right",
    "database.address_forbidden": "its address is not allowed",
    "database.table_missing": "a table is missing",
    "database.table_differs": "a table has other columns",
    "database.conflict": "its rows are locked",
    "database.driver_missing": "its driver is not installed",
}


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """A row of an outbox. Times follow from ages that the database has computed, so its clock may differ from ours."""

    id: int
    status: Status
    errors: int
    created_at: datetime
    updated_at: datetime
    """In the future while failures are waited out."""
    last_error: str
    size: int
    """Bytes of the content."""
    content: str | None
    """None: it is too large to be read here."""


@contextmanager
def opened(row: OutboxDatabase) -> Iterator[tuple[Connection, Statements]]:
    """A connection to a database for one request.

    Raises:
        QmqError: other requests use it.
        DatabaseFailed: it can't be used, retriable: the error does not name its address, which is logged.
        SealBroken: its password can't be read.
    """
    with gate.entered(row.pk):
        address, connection = address_of(row), None
        try:
            connection = connect_checked(address)
            yield connection, Statements(Kind(row.kind), row.table)
        except DatabaseFailed as error:
            logger.warning("outbox database %s: %s", row.name, error)
            why = _WHY.get(error.code, "a statement failed")
            text = f"Database {row.name} can't be used: {why}. The log has the details."
            raise DatabaseFailed(text, code=error.code, retriable=True) from error
        finally:
            if connection is not None:
                connection.close()


def read_page(
    row: OutboxDatabase, statuses: Sequence[Status], *, limit: int, cursor: str | None, now: datetime
) -> tuple[list[OutboxRow], str | None]:
    """Rows with one of these statuses by ID, and the cursor of the next page; None: there are no more.

    Raises:
        ChangeRefused: the cursor belongs to another query.
        QmqError: as `opened`.
    """
    query = ("outbox_rows", row.pk, sorted(statuses))
    after = 0 if cursor is None else int(decode_cursor(cursor, query))
    with opened(row) as (connection, statements):
        found = connection.rows(statements.page(statuses), (after, limit + 1))
    rows = [_row(values, now) for values in found[:limit]]
    return rows, encode_cursor(query, rows[-1].id) if len(found) > limit else None


def read_row(row: OutboxDatabase, row_id: int, *, now: datetime) -> OutboxRow:
    """One row. Raises NotFound, and as `opened`."""
    with opened(row) as (connection, statements):
        found = connection.rows(statements.row, (CONTENT_BYTES_MAX, row_id))
    if not found:
        raise NotFound(
            f"Row {row_id} of {row.name} not found. It was sent or discarded, or never existed.",
            code="outbox_row.unknown",
        )
    return _row(found[0], now)


def _row(values: tuple[object, ...], now: datetime) -> OutboxRow:
    row_id, status, errors, age_ms, ahead_ms, last_error, size, content = values
    return OutboxRow(
        int(str(row_id)), Status(int(str(status))), int(str(errors)), now - _span(age_ms), now + _span(ahead_ms),
        str(last_error or ""), int(str(size)), None if content is None else str(content),
    )  # fmt: skip


def _span(milliseconds: object) -> timedelta:
    """A time that a database has computed; those that no calendar has are cut off."""
    found = 0 if milliseconds is None else int(str(milliseconds))
    return timedelta(milliseconds=max(-_SPAN_MS_MAX, min(_SPAN_MS_MAX, found)))


_SPAN_MS_MAX = 100 * 366 * 86_400_000
