"""The messages of transactions that are open on Django's connections."""

import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from qmq.outbox.committed import Outgoing, Row
from qmq.outbox.databases import Kind

KEPT_MESSAGES_MAX = 10_000
"""Messages of one transaction that are kept in memory to be sent after the commit; further ones are left to the relay."""
KEPT_BYTES_MAX = 64 << 20
"""Bytes of these messages."""

_SAVEPOINT = re.compile(
    r"""\s*(SAVEPOINT|RELEASE(?:\s+SAVEPOINT)?|ROLLBACK(?:\s+(?:WORK|TRANSACTION))?\s+TO(?:\s+SAVEPOINT)?)"""
    r"""\s+["`]?([^\s"`;]+)""",
    re.IGNORECASE,
)


class OpenTransaction:
    """The messages of the transaction that is open on a connection: sent after its commit, in one go.

    One callback is registered with `on_commit`, by the first message. Django drops it when the transaction, or a block with the
    first message in it, is rolled back, and with it go all messages until then. For savepoints that begin later, this is an execute
    wrapper of the connection: it sees what is rolled back, also by `transaction.savepoint_rollback`, of which Django's callbacks
    know nothing.
    """

    def __init__(self, connection: Any, outgoing: Outgoing) -> None:
        self._connection = connection
        self._outgoing = outgoing
        self._pid = os.getpid()
        self._rows: list[Row] = []
        self._bytes = 0
        self._savepoints: list[tuple[str, int]] = []
        """Their names, and how many messages there were when they began."""
        self._has_failed = False
        """Whether a statement has failed in a way that may have rolled the transaction back."""
        self._place = len(connection.run_on_commit)
        """Of the callback among the connection's."""
        # In front: who leaves a block of `connection.execute_wrapper` removes the last one.
        connection.execute_wrappers.insert(0, self)
        connection.on_commit(_Callback(self).run, robust=True)

    @classmethod
    def of(cls, connection: Any, outgoing: Outgoing) -> "OpenTransaction":
        """That of the transaction which is open on a connection."""
        for each in connection.execute_wrappers:
            if isinstance(each, cls):
                if each._is_open:
                    return each
                each._leave()
                break
        return cls(connection, outgoing)

    @property
    def _is_open(self) -> bool:
        """False after a commit or rollback: the callback is not the connection's any more."""
        callbacks = self._connection.run_on_commit
        if len(callbacks) <= self._place:
            return False
        callback = getattr(callbacks[self._place][1], "__self__", None)
        return isinstance(callback, _Callback) and callback.is_for(self)

    def add(self, rows: Sequence[Row]) -> None:
        """Send these after the commit, too."""
        for row in rows:
            size = len(row.pending.entry)
            if len(self._rows) >= KEPT_MESSAGES_MAX or self._bytes + size > KEPT_BYTES_MAX:
                self._outgoing.leave([row], _too_many)
                continue
            self._rows.append(row)
            self._bytes += size

    def __call__(
        self, execute: Callable[..., Any], sql: object, params: object, many: bool, context: dict[str, Any]
    ) -> Any:
        """Run a statement of the transaction."""
        try:
            result = execute(sql, params, many, context)
        except Exception as error:
            if not self._has_failed:
                self._has_failed = may_have_ended(self._connection, error)
            raise
        if isinstance(sql, str) and (found := _SAVEPOINT.match(sql)) is not None:
            self._follow(found[1][:2].upper(), found[2].lower())
        return result

    def _follow(self, verb: str, name: str) -> None:
        place = next((at for at, each in reversed(list(enumerate(self._savepoints))) if each[0] == name), -1)
        if verb == "SA":
            self._savepoints.append((name, len(self._rows)))
        elif verb == "RE":
            del self._savepoints[max(place, 0) :]
        else:
            # One that is not known began before the first message.
            self._drop(self._savepoints[place][1] if place >= 0 else 0, "its savepoint was rolled back")
            del self._savepoints[place + 1 :]
            self._has_failed = False

    def commit(self) -> None:
        """Django's callback."""
        self._leave()
        rows, self._rows = self._rows, []
        if self._connection.in_atomic_block:
            # Of a test, which runs callbacks inside its own transaction and rolls it back: there are no rows to delete.
            rows = [Row(None, row.pending) for row in rows]
        if self._has_failed:
            # Django does not notice: PostgreSQL, for example, answers COMMIT with ROLLBACK. A relay sends the rows that are there.
            self._outgoing.leave(rows, _unknown)
        elif rows:
            self._outgoing.send(rows)

    def roll_back(self) -> None:
        """Django has dropped the callback."""
        if os.getpid() == self._pid:
            self._leave()
            self._drop(0, "its transaction was rolled back")

    def _leave(self) -> None:
        wrappers = self._connection.execute_wrappers
        if self in wrappers:
            wrappers.remove(self)

    def _drop(self, begin: int, why: str) -> None:
        dropped = [row.pending for row in self._rows[begin:]]
        del self._rows[begin:]
        self._bytes -= sum(len(pending.entry) for pending in dropped)
        self._outgoing.drop_later(dropped, why)


class _Callback:
    """What only Django keeps, until the commit: it is deleted when Django drops it."""

    def __init__(self, messages: OpenTransaction) -> None:
        self._messages: OpenTransaction | None = messages

    def is_for(self, messages: OpenTransaction) -> bool:
        """Whether it sends these messages and has not run."""
        return self._messages is messages

    def run(self) -> None:
        """The transaction is committed."""
        messages, self._messages = self._messages, None
        if messages is not None:
            messages.commit()

    def __del__(self) -> None:
        if self._messages is not None:
            self._messages.roll_back()


_POSTGRESQL_FAILED = 3
"""libpq's PQTRANS_INERROR."""
_MYSQL_ENDS = {1205, 1213}
"""A lock timeout, which ends the transaction if the server is configured so, and a deadlock."""


def may_have_ended(connection: Any, error: Exception) -> bool:
    """Whether the database may have rolled the transaction back because of a statement's error."""
    raw = connection.connection
    if raw is None:
        return True
    if connection.vendor == Kind.POSTGRESQL:
        return bool(raw.info.transaction_status == _POSTGRESQL_FAILED)
    if connection.vendor == Kind.SQLITE:
        return not raw.in_transaction
    return bool(error.args) and error.args[0] in _MYSQL_ENDS


_unknown = RuntimeError("a statement of the transaction has failed, and the commit may have been a rollback")
_too_many = RuntimeError(
    f"the transaction has more than {KEPT_MESSAGES_MAX} messages or {KEPT_BYTES_MAX} bytes of messages"
)
