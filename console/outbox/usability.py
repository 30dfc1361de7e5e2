"""The test of a registered database: whether a relay could work with it, without changing a row."""

from collections.abc import Callable
from dataclasses import dataclass

from console.outbox.access import address_of, connect_checked
from console.outbox.models import OutboxDatabase
from console.sealing import SealBroken
from qmq.errors import DatabaseFailed
from qmq.outbox.databases import Address, Connection, Kind
from qmq.outbox.dialects import Statements

Connector = Callable[[Address], Connection]


@dataclass(frozen=True, slots=True)
class MissingRight:
    """A right that the user of a database lacks."""

    table: str
    right: str


@dataclass(frozen=True, slots=True)
class Usability:
    """The result of a test."""

    code: str = ""
    """"": a relay can work with the database."""
    detail: str = "the database can be relayed"
    missing_rights: tuple[MissingRight, ...] = ()

    @property
    def is_usable(self) -> bool:
        return not self.code

    @property
    def field(self) -> str:
        """The field of the database that the problem is most likely about."""
        return _FIELDS.get(self.code, "host")


_FIELDS = {
    "database.access_denied": "user", "database.table_missing": "table", "database.table_differs": "table",
    "outbox_database.password_unreadable": "password", "database.driver_missing": "kind",
}  # fmt: skip


def check_usability(row: OutboxDatabase, connector: Connector = connect_checked) -> Usability:
    """Connect to a database and check its tables and the user's rights."""
    try:
        connection = connector(address_of(row))
    except (DatabaseFailed, SealBroken) as error:
        return Usability(error.code, str(error))
    try:
        return _check_tables(row, connection)
    finally:
        connection.close()


def _check_tables(row: OutboxDatabase, connection: Connection) -> Usability:
    statements = Statements(Kind(row.kind), row.table)
    ddl = f"Make the tables with the statements of: qmq outbox ddl {row.kind} --table {row.table}"
    missing: list[MissingRight] = []
    for table, right, sql in statements.rights:
        try:
            connection.change(sql)
        except DatabaseFailed as error:
            if error.code == "database.access_denied":
                missing.append(MissingRight(table, right))
            elif error.code in ("database.table_missing", "database.table_differs"):
                return Usability(error.code, f"{table}: {error}. {ddl}")
            else:
                return Usability(error.code, f"{table}: {error}")
    if missing:
        names = ", ".join(f"{each.right} on {each.table}" for each in missing)
        return Usability("database.access_denied", f"user {row.user!r} lacks rights: {names}", tuple(missing))
    return Usability()
