"""Messages in transactions of DB-API connections: sqlite3, psycopg and PyMySQL.

    outbox = Outbox(lambda: psycopg.connect("dbname=shop"), producer)
    with outbox.transaction(connection) as transaction:
        connection.execute("INSERT INTO orders ...")
        transaction.send("order.created", {"order": 17})

The block is one transaction: it is committed at the end, or rolled back if the block raises. Its messages are written by one INSERT
right before the commit, and sent from memory after it.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from qmq import sync
from qmq.client.bodies import Body
from qmq.errors import LocalProtocolError
from qmq.outbox.committed import EXIT_SECONDS, Outgoing, Pending, Row, inserts
from qmq.outbox.databases import Kind, driver_of
from qmq.outbox.deletion import Deletion, RowDeletion
from qmq.outbox.dialects import TABLE, Statements, TableName, inserted_ids
from qmq.outbox.drivers import Driver, transactions_of
from qmq.outbox.producers import ProcessProducer
from qmq.outbox.room import Room

_open: set[int] = set()
"""Connections with a block, by `id`."""


class Outbox:
    """The outbox of one database, for DB-API connections. Make one for each database, and keep it.

    It needs the table of `qmq outbox ddl`.

    Args:
        connect: opens a connection to the same database, on which sent messages are deleted. It is called in another thread, and
            the connection is the outbox's own. Give it timeouts, if the driver has them.
        producer: a `qmq.sync.Producer`, started; or a function that makes one, which is called at the first message of each
            process, for servers that fork. No broker needs to be reachable.
        table: name of the table, or schema and name with a dot between.

    Raises:
        SettingError: the table's name is none.
    """

    def __init__(
        self, connect: Callable[[], Any], producer: sync.Producer | Callable[[], sync.Producer], *, table: str = TABLE
    ) -> None:
        TableName.parse(table)
        self._connect = connect
        self._producer = ProcessProducer(producer)
        self._table = table
        self._lock = threading.Lock()
        self._database: tuple[Statements, Outgoing] | None = None

    @contextmanager
    def transaction(self, connection: Any) -> "Iterator[Transaction]":
        """Begin a transaction on a connection; commit it at the end of the block, and roll it back if the block raises.

        The connection's autocommit mode does not matter. With `autocommit=False` of sqlite3, all since the last commit belongs
        to the transaction. If the commit itself fails, its outcome may be unknown: the error is raised, nothing is sent from
        memory, and the relay sends the messages if the database has committed them.

        Raises:
            LocalProtocolError: a transaction is open on the connection already, also by a block around this one; or the block has
                ended the transaction itself. Then it is rolled back as far as it is still open.
            SettingError: the driver is not supported.
            Exception: of the driver.
        """
        driver = transactions_of(connection)
        statements, outgoing = self._database_of(driver.kind)
        if id(connection) in _open or not driver.is_idle(connection):
            raise LocalProtocolError(
                "a transaction is open on this connection already, whose commit the outbox would not see. Commit or roll it back"
                " before, use one block for all, or another connection"
            )
        transaction = Transaction(outgoing, driver, connection)
        rows: list[Row] | None = None
        committed: list[Row] | None = None
        _open.add(id(connection))
        try:
            with driver.begin(connection):
                yield transaction
                rows = _insert(driver, connection, statements, transaction._end())
            committed = rows  # None after psycopg.Rollback, which leaves the block without an error
        finally:
            _open.discard(id(connection))
            pending = transaction._end()
            if committed is None:
                outgoing.drop(pending, "its transaction was not committed, or its commit failed")
            else:
                outgoing.send(committed)

    def _database_of(self, kind: Kind) -> tuple[Statements, Outgoing]:
        """The first connection says what kind of database it is."""
        with self._lock:
            if self._database is None:
                statements = Statements(kind, self._table)
                rows = RowDeletion(self._connect, statements)
                self._database = statements, Outgoing(self._producer, Deletion(rows, rows.close))
            if self._database[0].kind is not kind:
                raise LocalProtocolError(
                    f"this outbox is in a {self._database[0].kind} database, and the connection belongs to {kind}"
                )
            return self._database

    def flush(self, seconds: float = EXIT_SECONDS) -> bool:
        """Wait until the messages of all commits so far are sent and deleted, or left to the relay. Returns whether all are."""
        return self._database is None or self._database[1].flush(seconds)

    def close(self, seconds: float = EXIT_SECONDS) -> bool:
        """As `flush`; the messages of later commits are left to the relay. It is called when the process ends, too."""
        return self._database is None or self._database[1].close(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _insert(driver: Driver, connection: Any, statements: Statements, pending: Sequence[Pending]) -> list[Row]:
    if not pending:
        return []
    if not driver.is_open(connection, exactly=True):
        raise _not_open()
    mark = "?" if driver_of(connection).paramstyle == "qmark" else "%s"
    ids: list[int] = []
    cursor = driver.cursor(connection)
    try:
        for chunk in inserts(pending):
            contents = [each.content for each in chunk]
            cursor.execute(statements.insert(len(contents)).replace("?", mark), contents)
            ids += inserted_ids(statements, cursor, contents)
    finally:
        cursor.close()
    return [Row(row_id, each) for row_id, each in zip(ids, pending, strict=True)]


class Transaction:
    """One transaction of `Outbox.transaction`."""

    def __init__(self, outgoing: Outgoing, driver: Driver, connection: Any) -> None:
        self._outgoing = outgoing
        self._driver = driver
        self._connection = connection
        self._pending: list[Pending] = []
        self._room = Room()
        self._has_ended = False

    def send(
        self,
        subject: str,
        body: Body,
        *,
        tags: Sequence[str] = (),
        delay: timedelta | None = None,
        due: datetime | None = None,
        message_id: str | None = None,
    ) -> str:
        """Send a message when the transaction commits, and not if it is rolled back. Returns at once.

        The body is encoded now, and middleware sees the message now. If the INSERT at the end of the block fails, its error is
        raised. After the commit nothing is raised: if no broker can be reached, the relay sends the message.

        Args:
            delay: time until delivery, from now on by this machine's clock.
            due: time of delivery, a datetime with a time zone.

        Returns:
            The message ID.

        Raises:
            LocalProtocolError, IllegalName: the message or the name is invalid; the block has ended; the transaction has failed; or
                it would have more than 100,000 messages or 256 MiB of them.
            ClientForked, ClientClosed: the producer is that of the parent process, or was never started.
        """
        self._check()
        pending = self._outgoing.prepare(subject, body, tags=tags, delay=delay, due=due, message_id=message_id)
        [kept] = self._keep([pending])
        return kept

    def send_many(self, subject: str, bodies: Iterable[Body], *, tags: Sequence[str] = ()) -> list[str]:
        """Send several messages of one subject, as `send`: all of them, or none if it raises. Returns their message IDs."""
        self._check()
        return self._keep(self._outgoing.prepare_many(subject, bodies, tags=tags))

    def _end(self) -> list[Pending]:
        """Accept no more messages. Returns those that were sent in the block."""
        self._has_ended = True
        return self._pending

    def _keep(self, pending: list[Pending]) -> list[str]:
        try:
            self._check()
            self._room.take(pending)
        except BaseException:
            self._outgoing.drop(pending, "it could not be added to the transaction")
            raise
        self._pending += pending
        return [each.message.message_id for each in pending]

    def _check(self) -> None:
        if self._has_ended:
            raise LocalProtocolError("the block of this transaction has ended: send in a new one")
        if not self._driver.is_open(self._connection, exactly=False):
            raise _not_open()


def _not_open() -> LocalProtocolError:
    return LocalProtocolError(
        "the transaction has failed, or was ended inside the block: by commit, rollback, a statement that commits by itself, or"
        " a deadlock. Its messages can't be committed together with its rows"
    )
