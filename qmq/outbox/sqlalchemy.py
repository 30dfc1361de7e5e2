"""Messages in transactions of SQLAlchemy sessions.

    outbox = Outbox(engine, producer)
    with Session(engine) as session, session.begin():
        session.add(order)
        outbox.send(session, "order.created", {"order": 17})

`AsyncOutbox` is the same for an AsyncEngine and AsyncSession. Messages are kept with the session and written by one INSERT right
before its outermost transaction commits; after the commit they are sent from memory. What is rolled back, also with a savepoint,
is not sent.
"""

import asyncio
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self

from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine, ExceptionContext
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, SessionTransaction, scoped_session

from qmq import sync
from qmq.client.bodies import Body
from qmq.client.producer import Producer
from qmq.errors import LocalProtocolError, SendFailed, SettingError
from qmq.outbox.committed import EXIT_SECONDS, Outgoing, Pending, Row, inserts
from qmq.outbox.databases import STATEMENT_SECONDS, Kind
from qmq.outbox.deletion import Deletion, RowDeletion, Stored, inherited
from qmq.outbox.dialects import TABLE, Statements, inserted_ids
from qmq.outbox.producers import ProcessProducer
from qmq.outbox.room import Room

_KINDS = {
    "sqlite": Kind.SQLITE, "postgresql": Kind.POSTGRESQL, "mysql": Kind.MYSQL, "mariadb": Kind.MYSQL,
}  # fmt: skip
_DRIVERS = ("psycopg", "psycopg2", "pymysql", "mysqldb", "pysqlite")
"""Whose connections deletions can use."""
_ASYNC_DRIVERS = ("psycopg", "asyncpg", "aiosqlite", "aiomysql", "asyncmy")
_KEY = "qmq.outbox"
"""Of the messages in `Session.info`."""

logger = logging.getLogger("qmq.outbox")


class _Outbox:
    """What Outbox and AsyncOutbox have in common."""

    def __init__(self, engine: Engine, producer: ProcessProducer, deletion: Deletion, table: str) -> None:
        self.engine = engine
        self.kind = _kind_of(engine)
        self.outgoing = Outgoing(producer, deletion)
        self._statements = Statements(self.kind, table)
        self._insert_one = self._insert(1)
        _listen()
        event.listen(engine, "handle_error", _handle_error)

    def _insert(self, count: int) -> str:
        return _as_driver_has_it(self._statements.insert(count), self.engine)

    def _send(
        self,
        session: Session,
        subject: str,
        body: Body,
        tags: Sequence[str],
        delay: timedelta | None,
        due: datetime | None,
        message_id: str | None,
    ) -> str:
        prepare = self.outgoing.prepare
        [kept] = self._keep(
            session, lambda: [prepare(subject, body, tags=tags, delay=delay, due=due, message_id=message_id)]
        )
        return kept

    def _send_many(self, session: Session, subject: str, bodies: Iterable[Body], tags: Sequence[str]) -> list[str]:
        return self._keep(session, lambda: self.outgoing.prepare_many(subject, bodies, tags=tags))

    def _keep(self, session: Session, prepare: Callable[[], list[Pending]]) -> list[str]:
        messages = _messages_of(session)
        messages.check()  # before middleware sees the message
        pending = prepare()
        try:
            messages.add(self, pending)
        except BaseException:
            self.outgoing.drop(pending, "it could not be added to the transaction")
            raise
        return [each.message.message_id for each in pending]

    def insert(self, session: Session, pending: Sequence[Pending]) -> tuple[Connection, list[int]]:
        """Write messages into the session's transaction. Returns its connection and their IDs."""
        connection = self._connection(session)
        ids: list[int] = []
        for chunk in inserts(pending):
            contents = tuple([each.content for each in chunk])
            insert = self._insert_one if len(contents) == 1 else self._insert(len(contents))
            result = connection.exec_driver_sql(insert, contents)
            ids += inserted_ids(self._statements, _Inserted(connection, result), contents)
        return connection, ids

    def _connection(self, session: Session) -> Connection:
        """The connection of the session's transaction to our database; without one in use, a new one in this transaction."""
        used = [entry[0] for entry in session.get_transaction()._connections.values()]  # type: ignore[union-attr]
        ours = [connection for connection in used if connection.engine.pool is self.engine.pool]
        if used and not ours:
            others = ", ".join(sorted({repr(connection.engine) for connection in used}))
            raise LocalProtocolError(
                f"the session's transaction uses {others}, but this outbox is in {self.engine!r}: its messages would not be"
                " committed together with the rows. Use an outbox of the same engine, or a row of this engine in the transaction"
            )
        if not ours:
            is_ours = session.bind is not None and session.bind.engine.pool is self.engine.pool
            ours = [session.connection(bind_arguments={"bind": session.bind if is_ours else self.engine})]
        [connection, *_] = ours
        if _is_autocommit(connection):
            raise LocalProtocolError(
                "the session's connection has the isolation level AUTOCOMMIT: each statement is committed by itself, so messages"
                " can't be committed together with rows. Use a session with transactions"
            )
        return connection


def _as_driver_has_it(statement: str, engine: Engine) -> str:
    """A statement with the marks for values of the engine's driver."""
    style = engine.dialect.paramstyle
    if style == "numeric_dollar":  # asyncpg
        return "".join(f"${number}{part}" if number else part for number, part in enumerate(statement.split("?")))
    return statement if style == "qmark" else statement.replace("?", "%s")


def _kind_of(engine: Engine) -> Kind:
    kind = _KINDS.get(engine.dialect.name)
    if kind is None:
        raise SettingError(
            f"the outbox does not support the database {engine.dialect.name!r} of {engine!r}; supported: {', '.join(_KINDS)}"
        )
    if kind is Kind.SQLITE and engine.url.database in (None, "", ":memory:"):
        raise SettingError(
            "an SQLite database in memory has only one connection; the outbox needs one of its own. Use a file"
        )
    return kind


def _check_driver(engine: Engine, drivers: Sequence[str]) -> None:
    if engine.dialect.driver not in drivers:
        raise SettingError(
            f"the driver {engine.dialect.driver!r} of {engine!r} is not supported; supported: {', '.join(drivers)}. Outbox is for"
            " an Engine, AsyncOutbox for an AsyncEngine"
        )


def _is_autocommit(connection: Connection) -> bool:
    level = connection.get_execution_options().get("isolation_level")
    if level is None:  # as `create_engine` was called
        level = getattr(connection.dialect, "_on_connect_isolation_level", None)
    return level == "AUTOCOMMIT"


class _Inserted:
    """A result as a DB-API cursor, for `inserted_ids`."""

    def __init__(self, connection: Connection, result: Any) -> None:
        self._connection = connection
        self._result = result

    @property
    def lastrowid(self) -> int:
        return int(self._result.lastrowid)

    def execute(self, statement: str) -> None:
        self._result = self._connection.exec_driver_sql(statement)

    def fetchall(self) -> Any:
        return self._result.fetchall()


# --- messages of a session ------------------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class _Message:
    outbox: _Outbox
    pending: Pending
    id: int | None = None
    """Of its row, when it is written."""


class _Messages:
    """The messages of a session's outermost transaction. They live in `Session.info`, so a forgotten session takes them along.

    SQLAlchemy emits `before_commit` of an outermost transaction that is committed with a savepoint open, too, and releases the
    savepoint only then. So the events of savepoints are counted: if there is one `before_commit` too many when the last
    savepoint ends, the outermost transaction is being committed.
    """

    def __init__(self, session: Session, root: SessionTransaction) -> None:
        self._session = session
        self._root = root
        self._messages: dict[SessionTransaction, list[_Message]] = {root: []}
        """By the savepoint or outermost transaction that they belong to."""
        self._connections: dict[_Outbox, Connection] = {}
        self._rooms: dict[_Outbox, Room] = {}
        self._lock = threading.Lock()
        """Threads must not share a session, but if they do, no message may be lost silently."""
        self._committing: int | None = None
        """The thread that commits the transaction; what is sent from now on is written at once."""
        self._has_ended = False
        self.has_failed = False
        """Whether a statement failed between the INSERT of messages and the commit, so that the database may have rolled back."""
        self._savepoint_commits = 0
        self._released: SessionTransaction | None = None

    def check(self) -> None:
        """Raise LocalProtocolError if no message can be added."""
        if self._has_ended or not self._session.is_active:
            raise LocalProtocolError(
                "the session's transaction has failed, is prepared, or has ended, so messages can't be added to it. Roll it back,"
                " and send in the next one"
            )
        if self._committing not in (None, threading.get_ident()):
            raise LocalProtocolError("another thread commits this session. Use a session in one thread at a time")

    def add(self, outbox: _Outbox, pending: Sequence[Pending]) -> None:
        """Keep messages until the commit. Raises LocalProtocolError, and nothing is kept."""
        transaction = self._session.get_nested_transaction() or self._root
        with self._lock:
            self.check()
            self._rooms.setdefault(outbox, Room()).take(pending)
            added = [_Message(outbox, each) for each in pending]
            kept = self._messages.setdefault(transaction, [])
            kept += added
            is_committing = self._committing is not None
        if is_committing:
            try:
                self._insert(outbox, added)
            except BaseException:
                del kept[len(kept) - len(added) :]
                raise

    def before_commit(self) -> None:
        """Write the messages, if it is the outermost transaction that is committed."""
        if self._session.in_nested_transaction():
            self._savepoint_commits += 1
        else:
            self._write()

    def _write(self) -> None:
        with self._lock:
            self._committing = threading.get_ident()
            unwritten = [each for each in self._messages[self._root] if each.id is None]
        for outbox in dict.fromkeys(each.outbox for each in unwritten):
            self._insert(outbox, [each for each in unwritten if each.outbox is outbox])

    def _insert(self, outbox: _Outbox, messages: Sequence[_Message]) -> None:
        connection, ids = outbox.insert(self._session, [each.pending for each in messages])
        self._connections[outbox] = connection
        _written[connection] = weakref.ref(self)
        for message, found in zip(messages, ids, strict=True):
            message.id = found

    def after_commit(self) -> None:
        """Send the messages of the outermost transaction; give those of a savepoint to the transaction around it."""
        savepoint = self._session.get_nested_transaction()
        if savepoint is None:
            with self._lock:
                self._has_ended = True
            messages = self._messages.pop(self._root)
            for outbox in dict.fromkeys(each.outbox for each in messages):
                self._send(outbox, [each for each in messages if each.outbox is outbox])
            return
        self._savepoint_commits -= 1
        self._released = savepoint
        if messages := self._messages.pop(savepoint, []):
            self._messages.setdefault(_around(savepoint), []).extend(messages)

    def _send(self, outbox: _Outbox, messages: Sequence[_Message]) -> None:
        rows = [Row(each.id, each.pending) for each in messages if each.id is not None]
        if len(rows) < len(messages):
            logger.error(
                "%d messages are lost: another thread added them while the session was committed. Use a session in one thread",
                len(messages) - len(rows),
            )
            outbox.outgoing.drop([each.pending for each in messages if each.id is None], "the session was committed")
        if not rows:
            return
        if self._connections[outbox].in_transaction():
            outbox.outgoing.leave(rows, SendFailed("the session has joined a transaction that is still open"))
        elif self.has_failed:
            # SQLAlchemy does not notice: PostgreSQL, for example, answers COMMIT with ROLLBACK.
            outbox.outgoing.leave(
                rows, SendFailed("a statement failed before the commit, which may have been a rollback")
            )
        else:
            outbox.outgoing.send(rows)

    def after_end(self, transaction: SessionTransaction) -> None:
        """Drop the messages of a savepoint or outermost transaction that was not committed."""
        for each in self._messages.pop(transaction, ()):
            each.outbox.outgoing.drop([each.pending], "its transaction was not committed")
        if transaction is self._root:
            with self._lock:
                self._has_ended = True
            for connection in self._connections.values():
                _written.pop(connection, None)
        elif transaction.nested:
            if transaction is not self._released:
                self._savepoint_commits = 0  # what was being committed has failed
            elif self._savepoint_commits and not self._session.in_nested_transaction():
                self._savepoint_commits = 0
                self._write()

    def __del__(self) -> None:
        # Garbage is collected in any thread, also in one that holds a lock of a middleware: its hooks can't be called here.
        for messages in self._messages.values():
            for each in messages:
                each.outbox.outgoing.drop_later([each.pending], "its session was deleted without a commit")


_written: "weakref.WeakKeyDictionary[Connection, weakref.ref[_Messages]]" = weakref.WeakKeyDictionary()
"""Connections with messages that are written and not committed."""


def _handle_error(context: ExceptionContext) -> None:
    written = None if context.connection is None else _written.get(context.connection)
    messages = None if written is None else written()
    if messages is not None:
        messages.has_failed = True


def _around(savepoint: SessionTransaction) -> SessionTransaction:
    """The savepoint or outermost transaction around a savepoint; flushes have inner transactions, too."""
    found = savepoint.parent
    assert found is not None
    while found.parent is not None and not found.nested:
        found = found.parent
    return found


def _messages_of(session: Session) -> _Messages:
    """The messages of the session's transaction, which begins if there is none, as with `Session.add`."""
    if not session.in_transaction():
        if not session.autobegin:
            raise LocalProtocolError(
                "the session has no transaction, and autobegin is off: call session.begin() before"
            )
        session.begin()
    found: _Messages | None = session.info.get(_KEY)
    if found is None:
        root = session.get_transaction()
        assert root is not None
        found = session.info.setdefault(_KEY, _Messages(session, root))
    return found


_is_listening = False


def _listen() -> None:
    """Receive the events of all sessions of this process, from the first outbox on.

    To attach listeners to each session takes longer than an INSERT.
    """
    global _is_listening
    if not _is_listening:
        _is_listening = True
        event.listen(Session, "before_commit", _before_commit)
        event.listen(Session, "after_commit", _after_commit)
        event.listen(Session, "after_transaction_end", _after_transaction_end)


def _before_commit(session: Session) -> None:
    # Without messages, too: hooks of other libraries may send the first ones from now on, and the flush calls more of them.
    _messages_of(session).before_commit()


def _after_commit(session: Session) -> None:
    if (messages := session.info.get(_KEY)) is not None:
        try:
            messages.after_commit()
        except Exception:
            logger.exception("messages of a committed transaction are left to the relay of the outbox")


def _after_transaction_end(session: Session, transaction: SessionTransaction) -> None:
    if (messages := session.info.get(_KEY)) is not None:
        if transaction.parent is None:
            del session.info[_KEY]
        messages.after_end(transaction)


# --- the two faces --------------------------------------------------------------------------------------------------


class Outbox(_Outbox):
    """The outbox of one database, for sessions of an Engine. Make one for each engine, and keep it.

    It needs the table of `qmq outbox ddl`. Sent messages are deleted on a connection of its own, which is opened as the engine
    opens connections and is none of its pool.

    Args:
        producer: a `qmq.sync.Producer`, started; or a function that makes one, which is called at the first message of each
            process, for servers that fork. No broker needs to be reachable.
        table: name of the table, or schema and name with a dot between.

    Raises:
        SettingError: the database or driver is not supported, or the table's name is none.
    """

    def __init__(
        self, engine: Engine, producer: sync.Producer | Callable[[], sync.Producer], *, table: str = TABLE
    ) -> None:
        _check_driver(engine, _DRIVERS)
        rows = RowDeletion(self._connect, Statements(_kind_of(engine), table))
        super().__init__(engine, ProcessProducer(producer), Deletion(rows, rows.close), table)

    def send(
        self,
        session: "Session | scoped_session[Any]",
        subject: str,
        body: Body,
        *,
        tags: Sequence[str] = (),
        delay: timedelta | None = None,
        due: datetime | None = None,
        message_id: str | None = None,
    ) -> str:
        """Send a message when the session's outermost transaction commits, and not if it is rolled back. Returns at once.

        The body is encoded now, and middleware sees the message now. If the INSERT fails, the commit raises its error. After the
        commit nothing is raised: if no broker can be reached, the relay sends the message.

        Args:
            delay: time until delivery, from now on by this machine's clock.
            due: time of delivery, a datetime with a time zone.

        Returns:
            The message ID.

        Raises:
            LocalProtocolError, IllegalName: the message or the name is invalid; the session's transaction has failed or is
                committed already; or it would have more than 100,000 messages or 256 MiB of them.
            ClientForked, ClientClosed: the producer is that of the parent process, or was never started.
        """
        return self._send(_sync_session(session), subject, body, tags, delay, due, message_id)

    def send_many(
        self,
        session: "Session | scoped_session[Any]",
        subject: str,
        bodies: Iterable[Body],
        *,
        tags: Sequence[str] = (),
    ) -> list[str]:
        """Send several messages of one subject, as `send`: all of them, or none if it raises. Returns their message IDs."""
        return self._send_many(_sync_session(session), subject, bodies, tags)

    def flush(self, seconds: float = EXIT_SECONDS) -> bool:
        """Wait until the messages of all commits so far are sent and deleted, or left to the relay. Returns whether all are."""
        return self.outgoing.flush(seconds)

    def close(self, seconds: float = EXIT_SECONDS) -> bool:
        """As `flush`; the messages of later commits are left to the relay. It is called when the process ends, too."""
        return self.outgoing.close(seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _connect(self) -> Any:
        """A DB-API connection that is none of the application's pool."""
        connection = self.engine.pool.recreate().connect()
        connection.rollback()  # what listeners have begun
        connection.detach()
        return connection.dbapi_connection


class AsyncOutbox(_Outbox):
    """`Outbox` for an AsyncEngine, its AsyncSessions and a `qmq.Producer`.

    `send` and `send_many` only keep messages, as `AsyncSession.add` does, so they are no coroutines. Nothing waits for the database
    on the application's event loop: sent messages are deleted in a thread with an event loop and a connection of its own.

    Args:
        producer: a `qmq.Producer`, started; or a function that returns a started one, which is called at the first message of
            each process.
    """

    def __init__(self, engine: AsyncEngine, producer: Producer | Callable[[], Producer], *, table: str = TABLE) -> None:
        sync_engine = engine.sync_engine
        _check_driver(sync_engine, _ASYNC_DRIVERS)
        rows = _AsyncDeletion(sync_engine, Statements(_kind_of(sync_engine), table))
        super().__init__(sync_engine, ProcessProducer(producer), Deletion(rows, rows.close), table)

    def send(
        self,
        session: "AsyncSession | async_scoped_session[Any] | Session",
        subject: str,
        body: Body,
        *,
        tags: Sequence[str] = (),
        delay: timedelta | None = None,
        due: datetime | None = None,
        message_id: str | None = None,
    ) -> str:
        """As `Outbox.send`. Hooks of SQLAlchemy pass the Session that an AsyncSession wraps."""
        return self._send(_sync_session(session), subject, body, tags, delay, due, message_id)

    def send_many(
        self,
        session: "AsyncSession | async_scoped_session[Any] | Session",
        subject: str,
        bodies: Iterable[Body],
        *,
        tags: Sequence[str] = (),
    ) -> list[str]:
        """As `Outbox.send_many`."""
        return self._send_many(_sync_session(session), subject, bodies, tags)

    async def flush(self, seconds: float = EXIT_SECONDS) -> bool:
        """As `Outbox.flush`."""
        return await asyncio.to_thread(self.outgoing.flush, seconds)

    async def close(self, seconds: float = EXIT_SECONDS) -> bool:
        """As `Outbox.close`. Close it before the producer."""
        return await asyncio.to_thread(self.outgoing.close, seconds)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _sync_session(session: "Session | scoped_session[Any] | AsyncSession | async_scoped_session[Any]") -> Session:
    own: Session | AsyncSession = session() if isinstance(session, scoped_session | async_scoped_session) else session
    return own.sync_session if isinstance(own, AsyncSession) else own


class _AsyncDeletion:
    """Deletes rows with the driver of an AsyncEngine, on an event loop of the thread that calls it."""

    def __init__(self, engine: Engine, statements: Statements) -> None:
        self._engine = engine
        self._statements = statements
        self._open: tuple[asyncio.Runner, AsyncEngine, AsyncConnection] | None = None
        self._pid = 0
        """The process that has opened it."""

    def __call__(self, rows: Sequence[Stored]) -> None:
        if self._pid != os.getpid():
            self.close()
        if self._open is None:
            runner = asyncio.Runner()
            try:
                self._open, self._pid = (runner, *runner.run(self._connect())), os.getpid()
            except BaseException:
                runner.close()
                raise
        runner, _, connection = self._open
        try:
            runner.run(self._delete(connection, rows))
        except BaseException:
            self.close()
            raise

    async def _connect(self) -> tuple[AsyncEngine, AsyncConnection]:
        engine = AsyncEngine(Engine(self._engine.pool.recreate(), self._engine.dialect, self._engine.url))
        async with asyncio.timeout(STATEMENT_SECONDS):
            connection = await engine.connect()
            if self._statements.kind is Kind.MYSQL:
                # In InnoDB's default, deleting an ID that does not exist locks the gap up to the table's end against INSERTs.
                await connection.execution_options(isolation_level="READ COMMITTED")
        return engine, connection

    async def _delete(self, connection: AsyncConnection, rows: Sequence[Stored]) -> None:
        statement = _as_driver_has_it(self._statements.delete_sent(row for row, _ in rows), self._engine)
        async with asyncio.timeout(STATEMENT_SECONDS):
            await connection.exec_driver_sql(statement, tuple([key for _, key in rows]))
            await connection.commit()

    def close(self) -> None:
        """Close the connection until rows are to be deleted again."""
        opened, self._open = self._open, None
        if opened is None:
            return
        if self._pid != os.getpid():
            # In a forked child, loop and connection are the parent's, and must not even be closed.
            inherited.append(opened)
            return
        runner, engine, connection = opened
        with suppress(Exception), runner:
            runner.run(self._disconnect(engine, connection))

    async def _disconnect(self, engine: AsyncEngine, connection: AsyncConnection) -> None:
        async with asyncio.timeout(STATEMENT_SECONDS):
            await connection.close()
            await engine.dispose()
