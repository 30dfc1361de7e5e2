"""Markers for handlers that use a DB-API connection of sqlite3, psycopg or PyMySQL."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import Any

from qmq.client.handlers import Handler
from qmq.errors import LocalProtocolError, MarkerFailed
from qmq.idempotent.handlers import AnyDelivery, Decorated, delivery_of
from qmq.idempotent.keys import Key, marker_key
from qmq.idempotent.markers import Execute, Marker, log_skipped
from qmq.idempotent.tables import TABLE, Statements
from qmq.outbox.databases import Kind, driver_of, kind_of

Connect = Callable[[], Any]
"""Returns a DB-API connection, which is closed after the delivery, or a context manager of one, such as `pool.connection()`."""
_IN_TRANSACTION = 1
"""The bit of MySQL's server status."""


def once(connect: Connect, *, key: Key = None, table: str = TABLE) -> Callable[[Handler], Callable[..., Any]]:
    """Decorate a handler so that what it does on its connection happens once for each consumer group and key.

    The handler is a plain function that takes `*, connection` besides the body and the delivery. Marker and effect are one
    transaction, committed when the handler returns and rolled back when it raises. The handler must neither commit nor roll back,
    and must not continue after an error of the database. If the marker exists, the delivery is acknowledged without calling it.

    Args:
        connect: called for each delivery, in the handler's thread. Returns a DB-API connection, which is closed afterwards, or a
            context manager of one, such as `pool.connection()`.
        key: None: the message ID; a text: the property of that name; a function: what it returns for the delivery.
        table: the table of markers, as `qmq idempotent ddl` makes it.

    Raises:
        LocalProtocolError: the handler is a coroutine function, or takes other arguments.
        SettingError: the table's name is illegal.
    """
    statements = {kind: Statements(kind, table) for kind in Kind}

    def decorate(handler: Handler) -> Callable[..., Any]:
        decorated = Decorated(
            handler,
            injected="connection",
            is_sync="use `def`, or an AsyncSession of SQLAlchemy (qmq.idempotent.sqlalchemy)",
        )

        def handle(*arguments: Any) -> Any:
            delivery = delivery_of(arguments)
            with _opened(connect) as connection:
                raw, kind = _raw(connection)
                with _transaction(raw, kind):
                    marker = Marker(_execute(raw), kind, statements[kind], marker_key(delivery, key))
                    if marker.insert():
                        result = decorated.call(arguments, connection=connection)
                        marker.check()
                        return result
            return log_skipped(delivery)

        return decorated.wraps(handle)

    return decorate


def mark(delivery: AnyDelivery, connection: Any, *, key: Key = None, table: str = TABLE) -> bool:
    """Insert the marker in the transaction of a DB-API connection; return whether the message is to be processed.

    For programs that iterate over a consumer, or begin and end transactions themselves. It must be the first statement of the
    transaction, and what must happen once must be in it. Acknowledge after the commit, also if this returns False.

    Args:
        key, table: as for `once`.

    Raises:
        KeyInvalid: the key can't be stored.
        MarkerFailed: the connection is in autocommit and in no transaction.
        SettingError: the driver is not supported, or the table's name is illegal.
    """
    raw, kind = _raw(connection)
    if _is_autocommit(raw, kind) and not _has_transaction(raw, kind):
        raise MarkerFailed(
            "the connection is in autocommit and in no transaction, so the marker would be committed before the effect; begin a"
            " transaction first",
            code="idempotent.no_transaction",
        )
    return Marker(_execute(raw), kind, Statements(kind, table), marker_key(delivery, key)).insert()


@contextmanager
def _opened(connect: Connect) -> Iterator[Any]:
    found = connect()
    manager: AbstractContextManager[Any] = closing(found) if hasattr(found, "cursor") else found
    with manager as connection:
        yield connection


@contextmanager
def _transaction(raw: Any, kind: Kind) -> Iterator[None]:
    """A transaction that the block ends: committed, or rolled back if it raises."""
    if _has_transaction(raw, kind):
        raise MarkerFailed(
            "the connection is in a transaction already, and the marker must be its first statement; `connect` must return a"
            " connection that nothing else uses",
            code="idempotent.transaction_open",
        )
    is_autocommit = _is_autocommit(raw, kind)
    if kind is Kind.SQLITE and getattr(raw, "autocommit", None) is not False:
        # Locks the database now, with a wait: a transaction that only reads at first can't wait later.
        _run(raw, "BEGIN IMMEDIATE")
    elif is_autocommit:
        _run(raw, "BEGIN")
    try:
        yield
        _end(raw, is_autocommit, "COMMIT")
    except BaseException:
        with suppress(Exception):  # a connection that is lost has rolled back
            _end(raw, is_autocommit, "ROLLBACK")
        raise


def _end(raw: Any, is_autocommit: bool, how: str) -> None:
    if is_autocommit:
        # The methods do nothing on a connection of sqlite3 with `autocommit=True`.
        _run(raw, how)
    elif how == "COMMIT":
        raw.commit()
    else:
        raw.rollback()


def _is_autocommit(raw: Any, kind: Kind) -> bool:
    """Whether a statement that no BEGIN came before is a transaction of its own."""
    if kind is Kind.MYSQL:
        return bool(raw.get_autocommit())
    if kind is Kind.POSTGRESQL:
        return bool(raw.autocommit)
    # From Python 3.12 on; -1 is the older mode, which `isolation_level` decides.
    autocommit = getattr(raw, "autocommit", -1)
    return raw.isolation_level is None if autocommit == -1 else bool(autocommit)


def _has_transaction(raw: Any, kind: Kind) -> bool:
    """Whether statements may have run in a transaction that is open."""
    if kind is Kind.MYSQL:
        return bool(raw.server_status & _IN_TRANSACTION)
    if kind is Kind.POSTGRESQL:
        return int(raw.info.transaction_status) != 0
    # With `autocommit=False` there is always one, and nothing says whether it was used.
    return bool(raw.in_transaction) and getattr(raw, "autocommit", None) is not False


def _raw(connection: Any) -> tuple[Any, Kind]:
    """The driver's connection, which SQLAlchemy's pools wrap, and its kind. Raises SettingError, LocalProtocolError."""
    raw = getattr(connection, "driver_connection", connection)
    kind = kind_of(raw)
    if inspect.iscoroutinefunction(raw.commit):
        raise LocalProtocolError(
            f"{type(raw).__qualname__} is an asynchronous connection; use a plain one, or an AsyncSession of SQLAlchemy"
        )
    return raw, kind


def _execute(raw: Any) -> Execute:
    is_format = driver_of(raw).paramstyle != "qmark"

    def execute(sql: str, values: tuple[Any, ...]) -> tuple[int, Any]:
        cursor = raw.cursor()
        try:
            cursor.execute(sql.replace("?", "%s") if is_format else sql, values)
            return cursor.rowcount, cursor.fetchone() if cursor.description else None
        finally:
            cursor.close()

    return execute


def _run(raw: Any, statement: str) -> None:
    cursor = raw.cursor()
    try:
        cursor.execute(statement)
    finally:
        cursor.close()
