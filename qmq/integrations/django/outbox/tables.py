"""The tables of the outbox in a project's databases: their name, and what the migration runs."""

from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections, router
from django.db.migrations.exceptions import IrreversibleError

from qmq.errors import SettingError
from qmq.outbox.databases import Kind
from qmq.outbox.dialects import TABLE, Statements, TableName, ddl_statements

APP_LABEL = "qmq_outbox"
MODEL_NAME = "outboxmessage"
"""What routers are asked about."""


def table() -> str:
    """The setting QMQ_OUTBOX_TABLE. Raises ImproperlyConfigured."""
    name = getattr(settings, "QMQ_OUTBOX_TABLE", TABLE)
    try:
        if not isinstance(name, str):
            raise SettingError(f"table {name!r}: must be a text")
        TableName.parse(name)
    except SettingError as error:
        raise ImproperlyConfigured(f"QMQ_OUTBOX_TABLE: {error}") from error
    return name


def kind_of(connection: Any) -> Kind:
    """The kind of a database of the project. Raises ImproperlyConfigured for one that the outbox does not support."""
    try:
        return Kind(connection.vendor)
    except ValueError as error:
        raise ImproperlyConfigured(
            f"database {connection.alias!r}: the outbox supports {', '.join(Kind)} and not {connection.vendor!r}. Name another"
            f" database with using=; a router's allow_migrate keeps the tables of {APP_LABEL!r} out of this one"
        ) from error


def is_wanted(alias: str) -> bool:
    """Whether the project's routers allow the tables in this database."""
    return bool(router.allow_migrate(alias, APP_LABEL, model_name=MODEL_NAME))


def create(apps: object, schema_editor: Any) -> None:
    """Make the tables."""
    for statement in ddl_statements(kind_of(schema_editor.connection), table()):
        schema_editor.execute(statement, params=None)


def drop(apps: object, schema_editor: Any) -> None:
    """Drop the tables. Raises IrreversibleError while messages wait, because dropping them would lose committed messages."""
    connection = schema_editor.connection
    statements = Statements(kind_of(connection), table())
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {statements.table.quoted(statements.kind)}")
        [count] = cursor.fetchone()
    if count:
        raise IrreversibleError(
            f"{count} messages in table {table()!r} of database {connection.alias!r} are not sent. Run"
            " `manage.py outbox_watchdog --once`, and delete what it can't send"
        )
    for name in (statements.table, statements.table.lease_table):
        schema_editor.execute(f"DROP TABLE {name.quoted(statements.kind)}", params=None)


def table_of_model() -> str:
    """`table()` as Django quotes names: one with a schema as the default database writes it."""
    name = TableName.parse(table())
    return name.quoted(kind_of(connections[DEFAULT_DB_ALIAS])) if name.schema else name.name
