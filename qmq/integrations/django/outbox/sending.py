"""Sending in transactions of Django."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections, transaction

from qmq.client.bodies import Body
from qmq.clock import SYSTEM_CLOCK
from qmq.integrations.django.outbox.databases import Database, database_of, databases
from qmq.integrations.django.outbox.transactions import OpenTransaction
from qmq.outbox.committed import Pending, Row, inserts
from qmq.protocol.names import check_subject

NOT_WRITTEN = "its row was not written: {}"


def send(
    subject: str,
    body: Body,
    *,
    tags: Sequence[str] = (),
    delay: timedelta | None = None,
    due: datetime | None = None,
    message_id: str | None = None,
    using: str | None = None,
) -> str:
    """Send a message with the current transaction: if it is committed, the message is sent; if it is rolled back, it never was.

    Writes one row, and never waits for a broker. After the commit the message is sent from memory; what a crash or an outage
    prevents is sent later by `manage.py outbox_watchdog`, with the same message ID. Without a transaction the row is committed at
    once. Messages of one transaction and subject are stored in the order of the calls. Sent from an `async` function, use
    `sync_to_async` for the function with the transaction, as for all queries.

    Args:
        delay, due: as `Producer.send`; a delay begins now, by this machine's clock.
        using: alias of the database. Default: the one in whose `atomic` block this is called, the default database outside of any.

    Returns:
        The message ID.

    Raises:
        IllegalName, LocalProtocolError: the subject or message is invalid, or both `delay` and `due` are given.
        TransactionManagementError: blocks of several databases are open and `using` is missing; the transaction has failed; or it
            is managed manually (`set_autocommit(False)`), so Django would not report its commit.
        DatabaseError: the row could not be written.
        ImproperlyConfigured: QMQ_URL is missing, or the outbox does not support the database.
    """
    connection = _connection_of(using)
    database = database_of(connection)
    pending = database.outgoing.prepare(subject, body, tags=tags, delay=delay, due=due, message_id=message_id)
    try:
        _store(connection, database, [pending])
    except BaseException as error:
        database.outgoing.drop([pending], NOT_WRITTEN.format(error))
        raise
    return pending.message.message_id


def send_many(subject: str, bodies: Iterable[Body], *, tags: Sequence[str] = (), using: str | None = None) -> list[str]:
    """Send many messages of one subject with the current transaction: as `send`, with one statement for up to 500 of them.

    Either all of them become part of the transaction, or none.

    Args:
        tags: of each message.

    Returns:
        The message IDs, in the order of the bodies.

    Raises:
        IllegalName, LocalProtocolError, TransactionManagementError, DatabaseError, ImproperlyConfigured: as for `send`.
    """
    check_subject(subject)
    connection = _connection_of(using)
    database = database_of(connection)
    message_ids: list[str] = []
    unstored: list[Pending] = []

    def prepared() -> Iterator[Pending]:
        for body in bodies:
            unstored.append(database.outgoing.prepare(subject, body, tags=tags))
            yield unstored[-1]

    try:
        parts = inserts(prepared())
        begin = [*islice(parts, 2)]
        with transaction.atomic(using=connection.alias) if len(begin) > 1 else nullcontext():
            for part in chain(begin, parts):
                _store(connection, database, part)
                del unstored[: len(part)]
                message_ids += [each.message.message_id for each in part]
    except BaseException as error:
        database.outgoing.drop(unstored, NOT_WRITTEN.format(error))
        raise
    return message_ids


def flush(seconds: float, *, using: str | None = None) -> bool:
    """Wait until each message of a committed transaction is stored by a broker and its row deleted, or is left to the relay.

    Args:
        seconds: limit of the wait.
        using: alias of one database; default: all that this process has used.

    Returns:
        Whether that was reached in time.

    Raises:
        ConnectionDoesNotExist: no database has this alias.
    """
    ends_at = SYSTEM_CLOCK.monotonic() + seconds
    found = databases() if using is None else [database_of(connections[using])]
    done = [each.outgoing.flush(max(0.0, ends_at - SYSTEM_CLOCK.monotonic())) for each in found]
    return all(done)


def _connection_of(using: str | None) -> Any:
    """The connection whose transaction the message is for. Raises TransactionManagementError."""
    connection = _default_connection() if using is None else connections[using]
    is_manual = not (connection.commit_on_exit if connection.in_atomic_block else connection.get_autocommit())
    if is_manual:
        raise transaction.TransactionManagementError(
            f"transactions of database {connection.alias!r} are managed manually (AUTOCOMMIT or set_autocommit is False): Django"
            " does not report their commits. Use transaction.atomic in autocommit mode, or qmq.outbox.dbapi"
        )
    if connection.in_atomic_block:
        connection.validate_no_broken_transaction()  # before middleware and producer are asked
    return connection


def _default_connection() -> Any:
    found = [each for each in connections.all(initialized_only=True) if _has_block(each)]
    if len(found) > 1:
        raise transaction.TransactionManagementError(
            f"transactions of several databases are open: {', '.join(each.alias for each in found)}. Name the one of this message"
            " with using="
        )
    return found[0] if found else connections[DEFAULT_DB_ALIAS]


def _has_block(connection: Any) -> bool:
    """Whether an `atomic` block is open, other than those in which Django's TestCase runs a test."""
    return connection.in_atomic_block and not connection.atomic_blocks[-1]._from_testcase


def _store(connection: Any, database: Database, part: Sequence[Pending]) -> None:
    """Insert rows, whose messages are sent after the commit."""
    rows = [Row(row_id, each) for row_id, each in zip(database.insert(connection, part), part, strict=True)]
    if connection.in_atomic_block:
        OpenTransaction.of(connection, database.outgoing).add(rows)
    else:
        database.outgoing.send(rows)
