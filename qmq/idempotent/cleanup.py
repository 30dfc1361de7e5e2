"""Deletes markers that no copy of their message can need any more."""

from collections.abc import Iterator
from datetime import timedelta

from qmq.errors import SettingError
from qmq.idempotent.tables import BATCH_ROWS, TABLE, Statements
from qmq.outbox.databases import Connection

RETENTION = timedelta(days=7)
"""How long markers are kept. Brokers keep messages for 72 hours by default."""


class Cleanup:
    """The cleanup of one table. Any number may run at the same time.

    Args:
        connection: its statements are transactions of their own.
        retention: how long markers are kept, by the database's clock. Not less than the subjects' retention: a message whose marker
            was deleted, and which is delivered again, is processed again.

    Raises:
        SettingError: the table's name or the retention is illegal.
    """

    def __init__(self, connection: Connection, *, table: str = TABLE, retention: timedelta = RETENTION) -> None:
        if retention < timedelta(seconds=1):
            raise SettingError(f"the retention of markers is {retention}; must be at least one second")
        self._connection = connection
        self._delete = Statements(connection.kind, table).delete_expired
        self._seconds = int(retention.total_seconds())

    def batches(self) -> Iterator[int]:
        """Delete the expired markers, oldest first, BATCH_ROWS in each transaction; yield the number after each.

        Raises DatabaseFailed: what was deleted before stays deleted.
        """
        while True:
            deleted = self._connection.change(self._delete, (self._seconds,))
            yield deleted
            if deleted < BATCH_ROWS:
                return
