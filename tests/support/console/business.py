"""Business databases with an outbox, for tests of the control plane: one of each kind, on real servers."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from qmq.client.middleware import OutgoingMessage
from qmq.outbox.databases import Address, Connection, Kind, connect
from qmq.outbox.dialects import Statements, ddl_statements
from qmq.outbox.rows import Status, content_of
from qmq.protocol.messages import KEY_CREATED
from tests.support.servers.services import Server, own_database

_OLD = {
    Kind.SQLITE: "strftime('%Y-%m-%d %H:%M:%f', 'now', '-3600 seconds')",
    Kind.POSTGRESQL: "clock_timestamp() - interval '1 hour'",
    Kind.MYSQL: "utc_timestamp() - interval 1 hour",
}


def content(subject: str = "orders", message_id: str = "m-1", **properties: str) -> str:
    """The content of a row."""
    created = {KEY_CREATED: "1700000000000"}
    return content_of(OutgoingMessage(subject, message_id, created | (properties or {"data": "{}"})))


@dataclass(frozen=True)
class Business:
    """A database, as its owner uses it."""

    address: Address
    folder: Path | None = None
    """Of an SQLite file."""

    @property
    def kind(self) -> Kind:
        return self.address.kind

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        path = str(self.folder / self.address.database) if self.folder else self.address.database
        connection = connect(replace(self.address, database=path))
        try:
            yield connection
        finally:
            connection.close()

    def execute(self, *statements: str) -> None:
        with self.connected() as connection:
            for statement in statements:
                connection.change(statement)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.connected() as connection:
            return connection.rows(sql)

    def make_tables(self) -> None:
        self.execute(*ddl_statements(self.kind))

    def insert(self, *contents: str, status: Status = Status.PENDING, errors: int = 0) -> None:
        """Rows that are an hour old."""
        statements = Statements(self.kind)
        with self.connected() as connection:
            before = connection.rows("SELECT coalesce(max(id), 0) FROM qmq_msg_queue")[0][0]
            connection.change(statements.insert(len(contents)), contents)
            connection.change(
                f"UPDATE qmq_msg_queue SET status = {int(status)}, error = {errors}, create_time = {_OLD[self.kind]},"
                f" update_time = {_OLD[self.kind]} WHERE id > {before}"
            )

    def statuses(self) -> list[tuple[int, int]]:
        """Status and errors of each row, by ID."""
        return [
            (int(status), int(errors))
            for status, errors in self.rows("SELECT status, error FROM qmq_msg_queue ORDER BY id")
        ]

    def values(self, **others: Any) -> dict[str, Any]:
        """What the API is given to register it."""
        found: dict[str, Any] = {"name": "shop", "kind": str(self.kind), "database": self.address.database}
        if self.kind is not Kind.SQLITE:
            found |= {"host": self.address.host, "port": self.address.port, "user": self.address.user}
        return found | others


@contextmanager
def on_server(server: Server, name: str) -> Iterator[Business]:
    """An empty database of a PostgreSQL or MariaDB."""
    with own_database(server.url, name) as url:
        at = urlsplit(url)
        kind = Kind.POSTGRESQL if at.scheme.startswith("postgres") else Kind.MYSQL
        yield Business(Address(kind, name, at.hostname or "", at.port or 0, at.username or ""))


@contextmanager
def user(business: Business, *rights: str, password: str = "") -> Iterator[dict[str, Any]]:
    """A user of the database with rights on both tables of the outbox; what the API is given for it."""
    name, where = f"u{os.getpid()}", "" if business.kind is Kind.POSTGRESQL else "@'%'"
    tables = ("qmq_msg_queue", "qmq_outbox_lease")
    if business.kind is Kind.POSTGRESQL:
        business.execute(f"CREATE ROLE {name} LOGIN")
    else:
        business.execute(f"CREATE USER {name}{where} IDENTIFIED BY '{password}'")
    for right in rights:
        business.execute(*(f"GRANT {right} ON {table} TO {name}{where}" for table in tables))
    try:
        yield business.values(user=name, **({"password": password} if password else {}))
    finally:
        if business.kind is Kind.POSTGRESQL:
            business.execute(f"DROP OWNED BY {name}", f"DROP ROLE {name}")
        else:
            business.execute(f"DROP USER {name}{where}")


def in_folder(folder: Path, name: str = "shop.sqlite3") -> Business:
    """An empty SQLite file."""
    (folder / name).touch()
    return Business(Address(Kind.SQLITE, name), folder)
