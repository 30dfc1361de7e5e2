"""The outbox of each database of the project: its statements, its messages on their way, and connections of its own."""

from collections.abc import Sequence
from typing import Any

from django.core import mail
from django.db import connections

from qmq.client.producer import Producer
from qmq.integrations.django import sending
from qmq.integrations.django.outbox.tables import kind_of, table
from qmq.outbox.committed import Outgoing, Pending
from qmq.outbox.databases import connect_with
from qmq.outbox.deletion import Deletion, RowDeletion
from qmq.outbox.dialects import Statements, inserted_ids

_databases: dict[str, "Database"] = {}


class Database:
    """The outbox of one database, for all threads of this process."""

    def __init__(self, connection: Any) -> None:
        alias = connection.alias
        self.kind = kind_of(connection)
        self.statements = Statements(self.kind, table())
        # Tests drop their database when they end, which PostgreSQL refuses while a connection is open.
        deletion = RowDeletion(lambda: open_connection(alias), self.statements, is_kept=not hasattr(mail, "outbox"))
        self.outgoing = Outgoing(_producer, Deletion(deletion, deletion.close))
        self._insert_one = self._insert(1)

    def insert(self, connection: Any, pending: Sequence[Pending]) -> Sequence[int]:
        """Insert rows with one statement, by Django's cursor; their IDs, in their order."""
        contents = [message.content for message in pending]
        cursor = connection.cursor()
        cursor.execute(self._insert_one if len(contents) == 1 else self._insert(len(contents)), contents)
        return inserted_ids(self.statements, cursor, contents)

    def _insert(self, count: int) -> str:
        # As Django's cursors take it.
        return self.statements.insert(count).replace("%", "%%").replace("?", "%s")


def database_of(connection: Any) -> Database:
    """The outbox of a connection's database. Raises ImproperlyConfigured."""
    found = _databases.get(connection.alias)
    if found is None:
        found = _databases.setdefault(connection.alias, Database(connection))
    return found


def databases() -> list[Database]:
    """Those that this process has used."""
    return list(_databases.values())


def open_connection(alias: str) -> Any:
    """A connection of the driver, with limits of time, that is not Django's: no transaction of the application is in it."""
    # A copy of this thread's wrapper is never connected: tests that replace the database, and settings, are respected.
    wrapper: Any = connections[alias].copy()
    wrapper.settings_dict["OPTIONS"].pop("pool", None)
    return connect_with(wrapper.Database, wrapper.get_connection_params())


def _producer() -> Producer:
    return sending.producer().inner
