"""Markers for handlers that use a DB-API connection of sqlite3, psycopg or PyMySQL."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any

from qmq.client.handlers import Handler
from qmq.errors import MarkerFailed
from qmq.idempotent.handlers import AnyDelivery, Decorated, delivery_of
from qmq.idempotent.keys import Key, marker_key
from qmq.idempotent.markers import Execute, Marker, log_skipped
from qmq.idempotent.tables import TABLE, Statements
from qmq.outbox.databases import Kind, driver_of
from qmq.outbox.drivers import transactions_of

Connect = Callable[[], Any]
"""Returns a DB-API connection, which is closed after the delivery, or a context manager of one, such as `pool.connection()`."""


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
                raw = _raw(connection)
                driver = transactions_of(raw)
                if not driver.is_idle(raw):
                    raise MarkerFailed(
                        "the connection is in a transaction already, and the marker must be its first statement; `connect` must"
                        " return a connection that nothing else uses",
                        code="idempotent.transaction_open",
                    )
                with driver.begin(raw):
                    marker = Marker(_execute(raw), driver.kind, statements[driver.kind], marker_key(delivery, key))
                    if marker.insert():
                        result = decorated.call(arguments, connection=connection)
                        if driver.continues_after_errors:
                            marker.check()
                        elif not driver.is_open(raw, exactly=True):
                            raise marker.lost()
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
        SettingError: the connection is not supported, or the table's name is illegal.
    """
    raw = _raw(connection)
    driver = transactions_of(raw)
    if driver.is_autocommit(raw) and driver.is_idle(raw):
        raise MarkerFailed(
            "the connection is in autocommit and in no transaction, so the marker would be committed before the effect; begin a"
            " transaction first",
            code="idempotent.no_transaction",
        )
    return Marker(_execute(raw), driver.kind, Statements(driver.kind, table), marker_key(delivery, key)).insert()


@contextmanager
def _opened(connect: Connect) -> Iterator[Any]:
    found = connect()
    manager: AbstractContextManager[Any] = closing(found) if hasattr(found, "cursor") else found
    with manager as connection:
        yield connection


def _raw(connection: Any) -> Any:
    """The driver's connection, which SQLAlchemy's pools wrap."""
    return getattr(connection, "driver_connection", connection)


def _execute(raw: Any) -> Execute:
    driver, is_format = transactions_of(raw), driver_of(raw).paramstyle != "qmark"

    def execute(sql: str, values: tuple[Any, ...]) -> tuple[int, Any]:
        cursor = driver.cursor(raw)
        try:
            cursor.execute(sql.replace("?", "%s") if is_format else sql, values)
            return cursor.rowcount, cursor.fetchone() if cursor.description else None
        finally:
            cursor.close()

    return execute
