"""The marker of one delivery in an SQL transaction, whatever runs the statements.

The marker is the first statement of the handler's own transaction. A second delivery of the message waits there until the first
one's transaction has ended: then it is skipped and acknowledged, or processed if that was rolled back. A deadlock, a serialization
failure or a lock timeout is an exception as any other: the transaction is rolled back, and the delivery is retried.
"""

import logging
from collections.abc import Callable
from typing import Any

from qmq.errors import MarkerFailed
from qmq.idempotent.keys import Keyed
from qmq.idempotent.tables import Statements
from qmq.outbox.databases import Kind
from qmq.words import printable

DUPLICATE_KEY = 1062
"""Error number of MariaDB and MySQL: a unique index has this value already."""
logger = logging.getLogger("qmq.idempotent")

Execute = Callable[[str, tuple[Any, ...]], tuple[int, Any]]
"""Runs a statement with `?` for values in the transaction; returns the number of changed rows, and the first row found or None."""


class Marker:
    """The marker of a delivery, in one transaction. Its methods raise what `execute` raises."""

    def __init__(self, execute: Execute, kind: Kind, statements: Statements, key: bytes) -> None:
        self._execute = execute
        self._kind = kind
        self._statements = statements
        self._key = key

    def insert(self) -> bool:
        """Insert it, as the transaction's first statement; return whether the message is to be processed.

        Raises MarkerFailed: MySQL found another key to be equal.
        """
        try:
            changed, _ = self._execute(self._statements.insert, (self._key,))
        except Exception as error:
            if self._kind is not Kind.MYSQL or _number(error) != DUPLICATE_KEY:
                raise
            # InnoDB has undone the INSERT alone, the transaction is usable. By the column's collation keys may be equal that are
            # not, and another index may have failed: only a marker of the same bytes means that the message was processed.
            if not self._exists():
                raise MarkerFailed(
                    f"the marker of {self._text} can't be inserted, and does not exist either: the table is unfit for markers,"
                    " which `qmq idempotent check` explains, or the marker was deleted just now",
                    code="idempotent.key_collision",
                ) from error
            return False
        return changed == 1

    def check(self) -> None:
        """Check, before the commit, that it is still in the transaction.

        A handler that catches a database's error may run in a transaction that was rolled back, with its marker, or that can only
        be rolled back: PostgreSQL answers its COMMIT without an error. The message must not be acknowledged then.

        Raises MarkerFailed: it is not.
        """
        if not self._exists():
            raise self.lost()

    def lost(self) -> MarkerFailed:
        """The error that `check` raises."""
        return MarkerFailed(
            f"the marker of {self._text} is gone before the commit: the transaction was rolled back, or ended, inside the"
            " handler, which must leave both to its caller and raise database errors",
            code="idempotent.marker_lost",
        )

    def _exists(self) -> bool:
        return self._execute(self._statements.find, (self._key,))[1] is not None

    @property
    def _text(self) -> str:
        return repr(self._key.decode("utf-8", "replace"))


def _number(error: BaseException) -> object:
    """The number of a MySQL error, also inside of SQLAlchemy's; Django's has the same arguments."""
    inner = getattr(error, "orig", None) or error
    return inner.args[0] if inner.args else None


def log_skipped(delivery: Keyed) -> None:
    """Log that a message is acknowledged without being processed."""
    logger.info("message %s was processed before and is skipped", printable(delivery.message_id))
