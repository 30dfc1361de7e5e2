"""The table of markers: its SQL for each kind of database, and what makes an existing table unfit.

Ours is made by `ddl`. A table made for QMQ's Java client has the same columns, and `problems` says what has to be changed in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from itertools import groupby
from operator import itemgetter

from qmq.idempotent.keys import KEY_BYTES_MAX
from qmq.outbox.databases import Connection, Kind
from qmq.outbox.dialects import TableName, statements_of

TABLE = "qmq_processed"
BATCH_ROWS = 1_000
"""Markers that one transaction of a cleanup deletes at most."""

_INSERT = {
    # With the column named, a table without a unique index on it is an error, and no other index can make a message look processed.
    Kind.SQLITE: "INSERT INTO {table} (k) VALUES (?) ON CONFLICT (k) DO NOTHING",
    Kind.POSTGRESQL: "INSERT INTO {table} (k) VALUES (?) ON CONFLICT (k) DO NOTHING",
    # Not INSERT IGNORE, which truncates a key that is too long for the column, and then takes two messages for one.
    Kind.MYSQL: "INSERT INTO {table} (k) VALUES (?)",
}
_EXPIRED = {
    Kind.SQLITE: "update_at < datetime('now', -? || ' seconds')",
    Kind.POSTGRESQL: "update_at < now() - ? * interval '1 second'",
    Kind.MYSQL: "update_at < now() - interval ? second",
}
_DELETE = {
    Kind.SQLITE: "DELETE FROM {table} WHERE k IN (SELECT k FROM {table} WHERE {expired} ORDER BY update_at LIMIT {rows})",
    Kind.POSTGRESQL: "DELETE FROM {table} WHERE k IN (SELECT k FROM {table} WHERE {expired} ORDER BY update_at LIMIT {rows})",
    Kind.MYSQL: "DELETE FROM {table} WHERE {expired} ORDER BY update_at LIMIT {rows}",
}


class Statements:
    """The statements for one table of markers, with `?` for values. Raises SettingError for an illegal name."""

    def __init__(self, kind: Kind, table: str = TABLE) -> None:
        name = TableName.parse(table).quoted(kind)
        self.insert = _INSERT[kind].format(table=name)
        """Insert a marker; the value: its key. A marker that is there already: no row, and in MySQL error DUPLICATE_KEY."""
        self.find = f"SELECT 1 FROM {name} WHERE k = {'CAST(? AS BINARY)' if kind is Kind.MYSQL else '?'}"
        """A row if there is a marker with this key, compared byte by byte whatever the collation of the column is."""
        self.delete_expired = _DELETE[kind].format(table=name, expired=_EXPIRED[kind], rows=BATCH_ROWS)
        """Delete BATCH_ROWS markers, the oldest first; the value: from how many seconds of age on."""
        self.cleanup_rights = [
            (name, "SELECT", f"SELECT k, update_at FROM {name} WHERE 1 = 0"),
            (name, "DELETE", f"DELETE FROM {name} WHERE 1 = 0"),
        ]
        """For each right that `delete_expired` needs, the table and a statement that fails without it and changes nothing."""


def ddl(kind: Kind, table: str = TABLE) -> str:
    """The statements that make the table and its index, each ended by a semicolon. Raises SettingError for an illegal name."""
    name = TableName.parse(table)
    text = resources.files("qmq.idempotent").joinpath(f"ddl/{kind}.sql").read_text()
    return text.format(table=name.quoted(kind), index=_index(name, "update_at", kind))


def _index(table: TableName, column: str, kind: Kind) -> str:
    """The name of an index, as it is written in SQL."""
    return TableName("", f"{table.name}_{column}").quoted(kind)


def ddl_statements(kind: Kind, table: str = TABLE) -> list[str]:
    """Each statement of `ddl` by itself, without comments."""
    return statements_of(ddl(kind, table))


@dataclass(frozen=True, slots=True)
class _Column:
    type: str
    length: int | None
    """In characters, of a binary type in bytes; None: without limit."""
    collation: str | None
    needs_value: bool
    """Whether an INSERT that does not name the column fails."""


@dataclass(frozen=True, slots=True)
class _Index:
    columns: tuple[str, ...]
    is_unique: bool
    is_partial: bool
    """Whether it holds not all rows, or only the beginning of a column, or is checked at the commit only."""


_SQLITE_COLUMNS = """
SELECT name, lower(type), NULL, NULL, "notnull" AND dflt_value IS NULL AND NOT (pk AND lower(type) = 'integer')
FROM pragma_table_info(?, ?)"""
_SQLITE_INDEXES = """
SELECT l.name, l."unique", l.partial, i.name
FROM pragma_index_list(?, ?) l JOIN pragma_index_info(l.name) i ORDER BY l.name, i.seqno"""
_POSTGRESQL_COLUMNS = """
SELECT attname, format_type(atttypid, NULL), NULL, NULL, attnotnull AND NOT atthasdef AND attidentity = ''
FROM pg_attribute WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped"""
_POSTGRESQL_INDEXES = """
SELECT i.indexrelid, i.indisunique, i.indpred IS NOT NULL OR NOT i.indimmediate, a.attname
FROM pg_index i CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS p(attnum, place)
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = p.attnum
WHERE i.indrelid = to_regclass(?) AND p.place <= i.indnkeyatts ORDER BY i.indexrelid, p.place"""
_MYSQL_COLUMNS = """
SELECT column_name, lower(data_type), character_maximum_length, lower(collation_name),
  is_nullable = 'NO' AND column_default IS NULL AND locate('auto_increment', extra) = 0
FROM information_schema.columns WHERE table_schema = coalesce(nullif(?, ''), database()) AND table_name = ?"""
_MYSQL_INDEXES = """
SELECT index_name, NOT non_unique, sub_part IS NOT NULL, column_name
FROM information_schema.statistics WHERE table_schema = coalesce(nullif(?, ''), database()) AND table_name = ?
ORDER BY index_name, seq_in_index"""
_MYSQL_ENGINE = """
SELECT engine FROM information_schema.tables
WHERE table_schema = coalesce(nullif(?, ''), database()) AND table_name = ?"""
_QUERIES = {
    Kind.SQLITE: (_SQLITE_COLUMNS, _SQLITE_INDEXES),
    Kind.POSTGRESQL: (_POSTGRESQL_COLUMNS, _POSTGRESQL_INDEXES),
    Kind.MYSQL: (_MYSQL_COLUMNS, _MYSQL_INDEXES),
}


def problems(connection: Connection, table: str = TABLE) -> list[str]:
    """What makes a table unfit for markers, each with the statement that corrects it; empty if it is fit.

    Raises:
        SettingError: the name is illegal.
        DatabaseFailed: the table's description can't be read.
    """
    name, kind = TableName.parse(table), connection.kind
    values = {
        Kind.SQLITE: (name.name, name.schema or "main"),
        Kind.POSTGRESQL: (name.quoted(kind),),
        Kind.MYSQL: (name.schema, name.name),
    }[kind]
    columns_query, indexes_query = _QUERIES[kind]
    columns = {
        str(row[0]): _Column(str(row[1]), row[2], row[3], bool(row[4]))
        for row in connection.rows(columns_query, values)
    }
    if not columns:
        return [f"there is no table {table}: `qmq idempotent ddl {kind}` prints the statements that make it"]
    rows = connection.rows(indexes_query, values)
    indexes = [
        _Index(tuple(str(row[3]) for row in group), bool(group[0][1]), any(row[2] for row in group))
        for group in (list(rows_of) for _, rows_of in groupby(rows, key=itemgetter(0)))
    ]
    engine = str(connection.rows(_MYSQL_ENGINE, values)[0][0]) if kind is Kind.MYSQL else ""
    return list(_problems(kind, name, columns, indexes, engine))


def _problems(
    kind: Kind, name: TableName, columns: dict[str, _Column], indexes: list[_Index], engine: str
) -> Iterator[str]:
    table = name.quoted(kind)
    if engine and engine.lower() != "innodb":
        yield f"its engine {engine} has no transactions: ALTER TABLE {table} ENGINE = InnoDB"
    if "k" not in columns:
        yield "it has no column k, which holds the key: use another table name, and make the table with `qmq idempotent ddl`"
        return
    if kind is Kind.POSTGRESQL and columns["k"].type != "bytea":
        yield (
            f"column k is {columns['k'].type}, not bytea:"
            f" ALTER TABLE {table} ALTER COLUMN k TYPE bytea USING convert_to(k, 'UTF8')"
        )
    if kind is Kind.MYSQL and (what := _mysql_key_problem(columns["k"])):
        yield f"column k {what}: ALTER TABLE {table} MODIFY k varbinary({KEY_BYTES_MAX}) NOT NULL"
    if not any(index.columns == ("k",) and index.is_unique and not index.is_partial for index in indexes):
        yield (
            "no unique index holds the whole column k and nothing else:"
            f" CREATE UNIQUE INDEX {_index(name, 'k', kind)} ON {table} (k)"
        )
    for other, column in columns.items():
        if column.needs_value and other != "k":
            yield f"column {other} has no default, so no marker can be inserted: ALTER TABLE {table} DROP COLUMN {other}"
    if "update_at" not in columns:
        fix = _ADD_TIME.get(kind, "copy it into a table that `qmq idempotent ddl sqlite` makes").format(table=table)
        yield f"it has no column update_at, by which old markers are deleted: {fix}"
    if not any(index.columns[0] == "update_at" and not index.is_partial for index in indexes):
        yield (
            "no index begins with update_at, so a cleanup reads the whole table for each batch:"
            f" CREATE INDEX {_index(name, 'update_at', kind)} ON {table} (update_at)"
        )


_ADD_TIME = {
    Kind.POSTGRESQL: "ALTER TABLE {table} ADD COLUMN update_at timestamptz NOT NULL DEFAULT CURRENT_TIMESTAMP",
    Kind.MYSQL: "ALTER TABLE {table} ADD COLUMN update_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP",
}


def _mysql_key_problem(column: _Column) -> str:
    """What would make two messages one; "" if nothing does."""
    if column.type != "varbinary" and not (
        column.type == "varchar" and (column.collation or "").endswith(("_nopad_bin", "_0900_bin"))
    ):
        rule = f" with the collation {column.collation}" if column.collation else ""
        return f"is {column.type}{rule}, by which keys can be equal that differ in case or trailing spaces"
    if column.length is not None and column.length < KEY_BYTES_MAX:
        return f"holds {column.length} bytes, and a key has up to {KEY_BYTES_MAX}"
    return ""
