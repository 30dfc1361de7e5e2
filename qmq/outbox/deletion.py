"""Deletes the rows whose messages brokers have stored: in batches, in a thread, on a connection of its own."""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from qmq.errors import DatabaseFailed
from qmq.outbox.databases import Connection
from qmq.outbox.dialects import Statements

DELETED_AT_ONCE = 500
"""Rows in one DELETE."""
LINGER_SECONDS = 0.02
"""How long a DELETE waits for more rows."""
KEPT_ROWS_MAX = 100_000
"""Rows that wait for a database that does not answer. The relay sends what is beyond it again."""
PAUSE_SECONDS = 1.0
"""After a DELETE that failed."""
IDLE_SECONDS = 60.0
"""How long a connection is kept without rows to delete."""

logger = logging.getLogger("qmq.outbox")

Stored = tuple[int, str]
"""A row whose message is stored: its ID, and the key of its content (`dialects.key_of`), which no other row has."""


class Deletion:
    """Deletes rows, which any thread may add. The thread starts with the first.

    Args:
        delete: deletes rows in a transaction of its own. It may raise anything; the rows are kept and tried again.
        rest: called in the same thread at its end, and when there was nothing to delete for IDLE_SECONDS.
    """

    def __init__(self, delete: Callable[[Sequence[Stored]], None], rest: Callable[[], None] = lambda: None) -> None:
        self._delete = delete
        self._rest = rest
        self._forget()

    def _forget(self) -> None:
        """Begin again, in this process: the rows of its parent are deleted by the parent."""
        self._changed = threading.Condition()
        self._rows: deque[Stored] = deque()
        self._deleting = 0
        self._is_failing = False
        self._waiting = 0
        """Threads that wait in `flush`."""
        self._is_closing = False
        self._thread: threading.Thread | None = None
        self.left = 0
        """Rows that are stored and were not deleted: the relay sends them again."""

    forked = _forget

    def add(self, rows: Iterable[Stored]) -> None:
        """Delete these rows soon. Never waits for the database."""
        with self._changed:
            was_empty = not self._rows
            for each in rows:
                if len(self._rows) + self._deleting >= KEPT_ROWS_MAX or self._is_closing:
                    self.left += 1
                else:
                    self._rows.append(each)
            if self._thread is None and self._rows:
                self._thread = threading.Thread(target=self._run, name="qmq-outbox-deletion", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError:  # the process ends, or has too many threads
                    self._thread = None
                    self.left += len(self._rows)
                    self._rows.clear()
            if was_empty or len(self._rows) >= DELETED_AT_ONCE:
                self._changed.notify_all()

    @property
    def pending(self) -> int:
        """Rows that are not deleted yet."""
        return len(self._rows) + self._deleting

    def flush(self, seconds: float) -> bool:
        """Wait until all rows added so far are deleted, at most this long. Returns whether they are."""
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            try:
                return self._changed.wait_for(lambda: not self.pending, seconds)
            finally:
                self._waiting -= 1

    def close(self, seconds: float) -> bool:
        """As `flush`; then the thread ends."""
        is_done = self.flush(seconds)
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        return is_done

    def _run(self) -> None:
        idle_seconds: float | None = IDLE_SECONDS
        while True:
            with self._changed:
                is_idle = not self._changed.wait_for(lambda: self._rows or self._is_closing, idle_seconds)
                if not is_idle and not self._is_closing:
                    self._changed.wait_for(
                        lambda: len(self._rows) >= DELETED_AT_ONCE or self._waiting or self._is_closing, LINGER_SECONDS
                    )
                if self._is_closing:
                    self.left += len(self._rows)
                    self._rows.clear()
                    self._changed.notify_all()
                    break
                batch = [self._rows.popleft() for _ in range(min(len(self._rows), DELETED_AT_ONCE))]
                self._deleting = len(batch)
            if is_idle:
                self._rest()
                idle_seconds = None
                continue
            idle_seconds = IDLE_SECONDS
            try:
                self._delete(batch)
            except Exception as error:  # noqa: BLE001 - logged, and tried again
                self._failed(batch, error)
            else:
                with self._changed:
                    self._deleting = 0
                    self._is_failing = False
                    self._changed.notify_all()
        self._rest()

    def _failed(self, batch: Sequence[Stored], error: Exception) -> None:
        with self._changed:
            self._rows.extendleft(reversed(batch))
            self._deleting = 0
            if not self._is_failing:
                self._is_failing = True
                logger.warning("sent messages can't be deleted from the outbox; trying again: %s", error)
            self._changed.wait_for(lambda: self._is_closing, PAUSE_SECONDS)


class RowDeletion:
    """Deletes rows on a connection that `connect` opens with a DB-API driver, and opens again after a failure.

    Args:
        is_kept: keep the connection for the next batch.
    """

    def __init__(self, connect: Callable[[], Any], statements: Statements, *, is_kept: bool = True) -> None:
        self._connect = connect
        self._statements = statements
        self._is_kept = is_kept
        self._connection: Connection | None = None
        self._pid = 0
        """The process that has opened it."""

    def __call__(self, rows: Sequence[Stored]) -> None:
        if self._pid != os.getpid():
            self.close()
        if self._connection is None:
            self._connection, self._pid = Connection(self._connect()), os.getpid()
        try:
            self._connection.change(self._statements.delete_sent(row for row, _ in rows), [key for _, key in rows])
        except DatabaseFailed:
            self.close()
            raise
        if not self._is_kept:
            self.close()

    def close(self) -> None:
        """Close the connection until rows are to be deleted again."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._pid == os.getpid():
            connection.close()
        else:
            # In a forked child, it is the parent's, and must not even be closed.
            inherited.append(connection)


inherited: list[object] = []
"""Connections of the parent, kept so that nothing closes them."""
