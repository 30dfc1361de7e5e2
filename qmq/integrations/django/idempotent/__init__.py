"""Markers for handlers of a Django project: their effect in a database happens once for each consumer group and key.

Add "qmq.integrations.django.idempotent" to INSTALLED_APPS; `manage.py migrate --database ALIAS` makes the table `qmq_processed`.
"""

from collections.abc import Callable
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from qmq.client.handlers import Handler
from qmq.errors import MarkerFailed, SettingError
from qmq.idempotent.handlers import Decorated, delivery_of
from qmq.idempotent.keys import Key, marker_key
from qmq.idempotent.markers import Execute, Marker, log_skipped
from qmq.idempotent.tables import TABLE, Statements
from qmq.outbox.databases import Kind

__all__ = ["once"]


def once(
    *, using: str = DEFAULT_DB_ALIAS, key: Key = None, table: str = TABLE
) -> Callable[[Handler], Callable[..., Any]]:
    """Decorate a handler so that what it does in a database happens once for each consumer group and key.

    The handler is a plain function. Marker and effect are one transaction (`transaction.atomic`), committed when the handler
    returns and rolled back when it raises. A delivery whose marker exists is acknowledged, and the handler not called. The handler
    must not continue after an error of the database, unless the error has left an `atomic` block of its own.

    Args:
        using: the alias of the database that the handler writes to.
        key: None: the message ID; a text: the property of that name; a function: what it returns for the delivery.
        table: the table of markers, as the migration or `qmq idempotent ddl` makes it.

    Raises:
        LocalProtocolError: the handler is a coroutine function, or takes other arguments.
        SettingError: the table's name is illegal.

    A call raises RuntimeError inside of an `atomic` block, other than that of a TestCase, and MarkerFailed while autocommit is off.
    """
    statements = {kind: Statements(kind, table) for kind in Kind}

    def decorate(handler: Handler) -> Callable[..., Any]:
        decorated = Decorated(handler, is_sync="transactions of Django need `def`")

        def handle(*arguments: Any) -> Any:
            delivery = delivery_of(arguments)
            connection = connections[using]
            kind = kind_of(connection)
            if not connection.in_atomic_block and not connection.get_autocommit():
                raise MarkerFailed(
                    f"autocommit of database {using!r} is off, so that no block commits; leave it on for idempotent handlers",
                    code="idempotent.transaction_open",
                )
            # Durable: RuntimeError inside of another block, but not inside of the one of a TestCase.
            with transaction.atomic(using=using, durable=True):
                marker = Marker(_execute(connection), kind, statements[kind], marker_key(delivery, key))
                if marker.insert():
                    result = decorated.call(arguments)
                    marker.check()
                    return result
            return log_skipped(delivery)

        return decorated.wraps(handle)

    return decorate


def kind_of(connection: BaseDatabaseWrapper) -> Kind:
    """The kind of a database. Raises SettingError for one in which markers are not supported."""
    try:
        return Kind(connection.vendor)
    except ValueError:
        raise SettingError(
            f"markers in databases of {connection.vendor!r} are not supported; supported: {', '.join(Kind)}"
        ) from None


def _execute(connection: BaseDatabaseWrapper) -> Execute:
    def execute(sql: str, values: tuple[Any, ...]) -> tuple[int, Any]:
        with connection.cursor() as cursor:
            cursor.execute(sql.replace("?", "%s"), values)
            return cursor.rowcount, cursor.fetchone() if cursor.description else None

    return execute
