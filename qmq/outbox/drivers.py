"""How transactions of DB-API connections begin and end: sqlite3, psycopg and PyMySQL."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib import import_module
from typing import Any, Protocol

from qmq.errors import SettingError
from qmq.outbox.databases import Kind, driver_of

_IN_TRANSACTION = 1
"""A flag of MySQL's answers, SERVER_STATUS_IN_TRANS."""


class Driver(Protocol):
    """How transactions of a driver's connections begin and end."""

    kind: Kind
    continues_after_errors: bool
    """Whether statements can follow an error that has rolled the transaction back: they are in a new one then, unnoticed."""

    def is_idle(self, connection: Any) -> bool:
        """Whether no transaction is open."""

    def is_autocommit(self, connection: Any) -> bool:
        """Whether a statement is a transaction of its own while no other is open."""

    def begin(self, connection: Any) -> AbstractContextManager[object]:
        """A transaction that is committed at the end of the block, and rolled back if the block raises."""

    def is_open(self, connection: Any, *, exactly: bool) -> bool:
        """Whether the transaction can still be committed. `exactly`: if necessary, the server is asked."""

    def cursor(self, connection: Any) -> Any:
        """A cursor whose rows are tuples."""


@contextmanager
def _ended(commit: Callable[[], object], roll_back: Callable[[], object]) -> Iterator[None]:
    try:
        yield
        commit()
    except BaseException:
        with suppress(Exception):  # the first error says more
            roll_back()
        raise


class _Sqlite:
    kind = Kind.SQLITE
    continues_after_errors = True

    def is_idle(self, connection: Any) -> bool:
        # With `autocommit=False` the driver itself keeps a transaction open all the time.
        return not connection.in_transaction or getattr(connection, "autocommit", None) is False

    def is_autocommit(self, connection: Any) -> bool:
        mode = getattr(connection, "autocommit", None)  # since Python 3.12
        return mode if isinstance(mode, bool) else connection.isolation_level is None

    def begin(self, connection: Any) -> AbstractContextManager[object]:
        mode = getattr(connection, "autocommit", None)
        if mode is False:
            return _ended(connection.commit, connection.rollback)
        # A deferred transaction that begins with a SELECT fails at its first write if another connection has written meanwhile.
        level = "IMMEDIATE" if mode is True or connection.isolation_level is None else connection.isolation_level
        connection.execute(f"BEGIN {level}")
        return _ended(lambda: connection.execute("COMMIT"), lambda: connection.execute("ROLLBACK"))

    def is_open(self, connection: Any, *, exactly: bool) -> bool:
        return bool(connection.in_transaction)

    def cursor(self, connection: Any) -> Any:
        return connection.cursor()


class _Psycopg:
    kind = Kind.POSTGRESQL
    continues_after_errors = False

    def is_idle(self, connection: Any) -> bool:
        statuses = type(connection.info.transaction_status)
        # Of a closed connection it is UNKNOWN, which `begin` reports.
        return connection.info.transaction_status in (statuses.IDLE, statuses.UNKNOWN)

    def is_autocommit(self, connection: Any) -> bool:
        return bool(connection.autocommit)

    def begin(self, connection: Any) -> AbstractContextManager[object]:
        transaction: AbstractContextManager[object] = connection.transaction()
        return transaction

    def is_open(self, connection: Any, *, exactly: bool) -> bool:
        status = connection.info.transaction_status
        return status is type(status).INTRANS

    def cursor(self, connection: Any) -> Any:
        return connection.cursor(row_factory=import_module("psycopg.rows").tuple_row)


class _Pymysql:
    kind = Kind.MYSQL
    continues_after_errors = True

    def is_idle(self, connection: Any) -> bool:
        return not self.is_open(connection, exactly=not connection.get_autocommit())

    def is_autocommit(self, connection: Any) -> bool:
        return bool(connection.get_autocommit())

    def begin(self, connection: Any) -> AbstractContextManager[object]:
        connection.begin()
        return _ended(connection.commit, connection.rollback)

    def is_open(self, connection: Any, *, exactly: bool) -> bool:
        if exactly:
            # Errors and results of SELECT do not tell. A deadlock rolls the transaction back, and DDL commits it.
            connection.ping(reconnect=False)
        return bool(connection.server_status & _IN_TRANSACTION)

    def cursor(self, connection: Any) -> Any:
        return connection.cursor(import_module("pymysql.cursors").Cursor)


_DRIVERS: dict[str, Driver] = {"sqlite3": _Sqlite(), "psycopg": _Psycopg(), "pymysql": _Pymysql()}


def transactions_of(connection: Any) -> Driver:
    """The driver of a connection. Raises SettingError for one that is not supported, and for a connection of asyncio."""
    module = driver_of(connection)
    driver = _DRIVERS.get(module.__name__)
    if driver is None or not isinstance(connection, getattr(module, "Connection", object)):
        raise SettingError(
            f"connections of {type(connection).__module__}.{type(connection).__qualname__} are not supported; supported are those"
            f" of {', '.join(_DRIVERS)} without asyncio"
        )
    return driver
