"""The test of a registered database: whether its rows could be relayed and its markers deleted, without changing a row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from console.outbox.access import FOLDER_SETTING, NETWORKS_SETTING, address_of, connect_checked
from console.outbox.models import OutboxDatabase
from console.sealing import SealBroken
from qmq.errors import DatabaseFailed
from qmq.idempotent.tables import Statements as MarkerStatements
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
    field: str = ""
    """The field of the database that the problem is most likely about; "" if it is usable."""
    advice: str = ""
    """What this field must be, or what to do in the database."""
    missing_rights: tuple[MissingRight, ...] = ()

    @property
    def is_usable(self) -> bool:
        return not self.code


_ADVICE = {
    "database.access_denied": ("user", "must be one of the database, with this password"),
    "database.address_forbidden": ("host", f"must be in the networks of {NETWORKS_SETTING}"),
    "database.driver_missing": ("kind", "needs its driver"),
    "outbox_database.password_unreadable": ("password", "must be entered again"),
}
_UNUSABLE = ("host", "must be that of a database that answers")
_UNUSABLE_FILE = ("database", f"must be an SQLite database in the folder of {FOLDER_SETTING}")


def check_usability(row: OutboxDatabase, connector: Connector = connect_checked) -> Usability:
    """Connect to a database and check its tables and the user's rights."""
    try:
        connection = connector(address_of(row))
    except (DatabaseFailed, SealBroken) as error:
        return _failed(row, error)
    try:
        return _check_tables(row, connection)
    finally:
        connection.close()


def _failed(row: OutboxDatabase, error: DatabaseFailed | SealBroken, table: str = "") -> Usability:
    field, advice = _UNUSABLE_FILE if row.kind == Kind.SQLITE else _ADVICE.get(error.code, _UNUSABLE)
    return Usability(error.code, f"{table}: {error}" if table else str(error), field, advice)


def _check_tables(row: OutboxDatabase, connection: Connection) -> Usability:
    kind = Kind(row.kind)
    checked = [("table", row.table, "qmq outbox ddl", Statements(kind, row.table).rights)]
    if row.marker_table:
        needed = MarkerStatements(kind, row.marker_table).cleanup_rights
        checked.append(("marker_table", row.marker_table, "qmq idempotent ddl", needed))
    missing: list[MissingRight] = []
    for field, name, ddl, rights in checked:
        for table, right, sql in rights:
            try:
                connection.change(sql)
            except DatabaseFailed as error:
                if error.code == "database.access_denied":
                    missing.append(MissingRight(table, right))
                elif error.code in ("database.table_missing", "database.table_differs"):
                    detail = f"{table}: {error}. Make the tables with the statements of: {ddl} {kind} --table {name}"
                    return Usability(error.code, detail, field, f"must be a table as `{ddl}` makes it")
                else:
                    return _failed(row, error, table)
    return _without_rights(row, missing) if missing else Usability()


def _without_rights(row: OutboxDatabase, missing: Sequence[MissingRight]) -> Usability:
    by_table: dict[str, list[str]] = {}
    for each in missing:
        by_table.setdefault(each.table, []).append(each.right)
    listed = "; ".join(f"{', '.join(rights)} on {table}" for table, rights in by_table.items())
    if row.kind == Kind.SQLITE:
        field, advice, detail = "database", "must be a file that the console can write", f"the file refuses {listed}"
    else:
        field, advice, detail = "user", _grants(row, by_table), f"user {row.user!r} lacks rights: {listed}"
    return Usability("database.access_denied", detail, field, advice, tuple(missing))


def _grants(row: OutboxDatabase, by_table: Mapping[str, Sequence[str]]) -> str:
    """The statements that give the user these rights, one for each table. Tables are as SQL has them."""
    if row.kind == Kind.MYSQL:
        user = row.user.replace("\\", "\\\\").replace("'", "''")
        account, database = f"'{user}'@'%'", f"`{row.database.replace('`', '``')}`."
        note = " (another host than '%' if the account has one)"
    else:
        account, database, note = '"{}"'.format(row.user.replace('"', '""')), "", ""
    statements = (
        f"GRANT {', '.join(rights)} ON {'' if '`.`' in table else database}{table} TO {account};"
        for table, rights in by_table.items()
    )
    return " ".join(statements) + note
