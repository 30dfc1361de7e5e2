"""The SQL of the outbox: its tables, and its statements for each kind of database.

All times are the database's. `?` stands for a value (`Connection` converts it).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from qmq.errors import SettingError
from qmq.outbox.databases import Kind
from qmq.outbox.rows import UNSENT, Status
from qmq.protocol.names import MESSAGE_ID_CHARS_MAX

TABLE = "qmq_msg_queue"
LEASE_TABLE = "qmq_outbox_lease"
"""In the schema of the table."""
INLINE_BYTES_MAX = 8 << 10
"""Contents up to this size are read with their rows: of 2,000 rows, 16 MiB at most. Larger ones are read by their IDs."""
PENDING_COUNTED_MAX = 100_000
"""Rows that are counted exactly; of more, one more is counted."""
BACKOFF_SECONDS_MAX = 600.0
CLOCK_STEP_SECONDS = 60.0
"""An `update_time` that is this much further ahead than any back-off was written before the database's clock stepped back."""

_RESENT_SECONDS = 240
"""How far back `resend` sets `update_time`: longer than the usual grace, and no more, because MySQL counts ages from there."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}")


@dataclass(frozen=True, slots=True)
class TableName:
    """The name of the outbox table: `table` or `schema.table`, letters, digits, `_` and `$`."""

    schema: str
    name: str

    @classmethod
    def parse(cls, text: str) -> "TableName":
        """Raises SettingError for what is no such name."""
        schema, dot, name = text.rpartition(".")
        if not _NAME.fullmatch(name) or (dot and not _NAME.fullmatch(schema)):
            raise SettingError(
                f"table {text!r}: must be a name, or a schema and a name with a dot between; letters, digits, '_' and '$', "
                "at most 63 characters each"
            )
        return cls(schema, name)

    def quoted(self, kind: Kind) -> str:
        """As it is written in SQL."""
        mark = "`" if kind is Kind.MYSQL else '"'
        return ".".join(f"{mark}{part}{mark}" for part in (self.schema, self.name) if part)

    @property
    def lease_table(self) -> "TableName":
        return TableName(self.schema, LEASE_TABLE)

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}" if self.schema else self.name


def ddl(kind: Kind, table: str = TABLE) -> str:
    """The statements that make the two tables, each ended by a semicolon."""
    name = TableName.parse(table)
    text = resources.files("qmq.outbox").joinpath(f"ddl/{kind}.sql").read_text()
    return text.format(table=name.quoted(kind), lease_table=name.lease_table.quoted(kind))


def ddl_statements(kind: Kind, table: str = TABLE) -> list[str]:
    """Each statement of `ddl` by itself, without comments."""
    return statements_of(ddl(kind, table))


def statements_of(script: str) -> list[str]:
    """The statements of an SQL script, without its comments, which are lines of their own."""
    lines = [line for line in script.splitlines() if not line.startswith("--")]
    return [statement.strip() for statement in "\n".join(lines).split(";") if statement.strip()]


_NOW = {
    Kind.SQLITE: "strftime('%Y-%m-%d %H:%M:%f', 'now')",
    Kind.POSTGRESQL: "clock_timestamp()",
    Kind.MYSQL: "current_timestamp(6)",
}
_NOW_LATER = {
    Kind.SQLITE: "strftime('%Y-%m-%d %H:%M:%f', 'now', ? || ' seconds')",
    Kind.POSTGRESQL: "clock_timestamp() + ? * interval '1 second'",
    Kind.MYSQL: "current_timestamp(6) + interval ? second",
}
"""Now and a number of seconds, which may be negative."""
_NOW_MS = {
    Kind.SQLITE: "cast((julianday('now') - 2440587.5) * 86400000 as integer)",
    Kind.POSTGRESQL: "(extract(epoch from clock_timestamp()) * 1000)::bigint",
    Kind.MYSQL: "cast(unix_timestamp(current_timestamp(3)) * 1000 as signed)",
}
_CREATE_TIME = _NOW | {Kind.MYSQL: "utc_timestamp()"}
"""MySQL's `datetime` has no time zone; ours are in UTC."""
_SIZE = {
    Kind.SQLITE: "length(cast(content as blob))",
    Kind.POSTGRESQL: "octet_length(content)",
    Kind.MYSQL: "octet_length(content)",
}
_AGE_MS = {
    Kind.SQLITE: "cast((julianday('now') - julianday({column})) * 86400000 as integer)",
    Kind.POSTGRESQL: "(extract(epoch from clock_timestamp() - {column}) * 1000)::bigint",
    Kind.MYSQL: "cast(timestampdiff(microsecond, {column}, {now}) / 1000 as signed)",
}
_KEY_BEGIN = len('{"messageId":"') + 1
_KEY_CHARS_MAX = 6 * MESSAGE_ID_CHARS_MAX + 1
_QUOTED = f"substr(content, {_KEY_BEGIN}, {_KEY_CHARS_MAX})"
_KEY = {
    Kind.SQLITE: f"substr(content, {_KEY_BEGIN}, instr({_QUOTED}, '\"') - 1)",
    Kind.POSTGRESQL: f"split_part({_QUOTED}, '\"', 1)",
    Kind.MYSQL: f"cast(substring_index({_QUOTED}, '\"', 1) AS binary)",
}
"""`key_of` a row's content, if `content_of` has written it. MySQL's texts may be equal although their case differs."""


def key_of(content: str) -> str:
    """The message ID in what `content_of` has written, as JSON has it: no other row contains it."""
    return content[_KEY_BEGIN - 1 : content.index('"', _KEY_BEGIN - 1)]


def marks(count: int, mark: str = "?") -> str:
    """This number of marks for values, with commas between."""
    return ", ".join([mark] * count)


class Statements:
    """The statements for one table. Each is a method or attribute named after what it does; values are in the docstring."""

    def __init__(self, kind: Kind, table: str = TABLE) -> None:
        self.kind = kind
        self.table = TableName.parse(table)
        t, lease = self.table.quoted(kind), self.table.lease_table.quoted(kind)
        self._t = t
        now, later, now_ms = _NOW[kind], _NOW_LATER[kind], _NOW_MS[kind]
        unsent = ", ".join(str(int(status)) for status in UNSENT)
        self._row = f"(?, {_CREATE_TIME[kind]}, {now})"
        changed_ms = _AGE_MS[kind].format(column="update_time", now="current_timestamp(6)")
        self.age_ms = _AGE_MS[kind].format(column="create_time", now="utc_timestamp(6)")
        if kind is Kind.MYSQL:
            # Java programs write `create_time` in their own time zone, which the row does not contain. A row without errors was
            # last changed when it was inserted.
            self.age_ms = f"CASE error WHEN 0 THEN {changed_ms} ELSE {self.age_ms} END"
        self.due = (
            f"SELECT id, {_SIZE[kind]}, CASE WHEN {_SIZE[kind]} <= {INLINE_BYTES_MAX} THEN content END, error, {self.age_ms}"
            f" FROM {t} WHERE id > ? AND status IN ({unsent}) AND (update_time <= {later} OR update_time > {later})"
            " ORDER BY id LIMIT ?"
        )
        """Values: an ID; minus the age in seconds from which rows are due; BACKOFF_SECONDS_MAX + CLOCK_STEP_SECONDS; a limit.
        Columns: id, bytes of the content, the content if it is short, errors, age in milliseconds."""
        self.fail = f"UPDATE {t} SET error = error + 1, last_error = ?, update_time = {later} WHERE id = ?"
        """Values: a text; seconds from now; the ID. The row is due when its `update_time` is as old as `due` asks for."""
        self.end = f"UPDATE {t} SET status = ?, error = error + 1, last_error = ?, update_time = {now} WHERE id = ?"
        """Values: a status, a text, the ID."""
        self.pending = f"SELECT count(*) FROM (SELECT 1 FROM {t} WHERE status IN ({unsent}) LIMIT ?) AS found"
        """The number of unsent rows, at most the limit."""
        self.oldest = f"SELECT {self.age_ms} FROM {t} WHERE status IN ({unsent}) ORDER BY id LIMIT 1"
        """Age in milliseconds of the unsent row with the lowest ID."""
        failed = ", ".join(str(int(status)) for status in (Status.INVALID, Status.REFUSED))
        self.failed = f"SELECT count(*) FROM (SELECT 1 FROM {t} WHERE status IN ({failed}) LIMIT ?) AS found"
        """The number of rows that wait for an operator, at most the limit."""
        retry_ms = f"-({changed_ms})"
        self._shown = f"SELECT id, status, error, {self.age_ms}, {retry_ms}, last_error, {_SIZE[kind]}"
        self.row = f"{self._shown}, CASE WHEN {_SIZE[kind]} <= ? THEN content END FROM {t} WHERE id = ?"
        """Values: the bytes up to which the content is read, and an ID. Columns as those of `page`."""
        self.rights = _rights(t, lease)
        """For each table and right that a relay needs, a statement that fails without it and changes nothing."""

        self.lease = f"SELECT holder, generation, until_ms - {now_ms} FROM {lease} WHERE name = ?"
        """Columns: holder, generation, milliseconds until it ends."""
        ignore = "" if kind is Kind.MYSQL else " ON CONFLICT DO NOTHING"
        insert = "INSERT IGNORE" if kind is Kind.MYSQL else "INSERT"
        self.make_lease = f"{insert} INTO {lease} (name, holder, generation, until_ms) VALUES (?, '', 0, 0){ignore}"
        self.take_lease = (
            f"UPDATE {lease} SET holder = ?, generation = generation + 1, until_ms = {now_ms} + ?"
            f" WHERE name = ? AND (until_ms <= {now_ms} OR until_ms > {now_ms} + ?)"
        )
        """Values: the holder, the milliseconds of a lease, its name, the milliseconds of a lease."""
        self.renew_lease = (
            f"UPDATE {lease} SET until_ms = {now_ms} + ? WHERE name = ? AND holder = ? AND generation = ?"
        )
        self.release_lease = f"UPDATE {lease} SET until_ms = 0 WHERE name = ? AND holder = ? AND generation = ?"
        self.has_lease = (
            f"SELECT 1 FROM {lease} WHERE name = ? AND holder = ? AND generation = ? AND until_ms > {now_ms}"
        )

    def page(self, statuses: Iterable[int]) -> str:
        """Rows with one of these statuses; values: an ID that lies before them, and a limit.

        Columns: id, status, errors, age in milliseconds, milliseconds until `update_time` (negative: since), last error, bytes of
        the content, the content if it has at most INLINE_BYTES_MAX.
        """
        content = f"CASE WHEN {_SIZE[self.kind]} <= {INLINE_BYTES_MAX} THEN content END"
        return f"{self._shown}, {content} FROM {self._t} WHERE id > ? AND {_with(statuses)} ORDER BY id LIMIT ?"

    def count_changeable(self, statuses: Iterable[int]) -> str:
        """The number of rows that `resend` changes, at most the limit, which is the value."""
        return f"SELECT count(*) FROM (SELECT 1 FROM {self._t} WHERE {_changeable(statuses)} LIMIT ?) AS found"

    def changeable(self, statuses: Iterable[int]) -> str:
        """IDs of rows that `resend` changes; values: an ID that lies before them, and a limit."""
        return f"SELECT id FROM {self._t} WHERE id > ? AND {_changeable(statuses)} ORDER BY id LIMIT ?"

    def chosen(self, ids: Iterable[int], statuses: Iterable[int]) -> str:
        """The number of these rows that `resend` changes."""
        return f"SELECT count(*) FROM {self._t} WHERE id IN ({_listed(ids)}) AND {_changeable(statuses)}"

    def resend(self, ids: Iterable[int], statuses: Iterable[int]) -> str:
        """Make rows due at once, as if they were new: the next pass sends them, and their age counts from now."""
        earlier = _NOW_LATER[self.kind].replace("?", str(-_RESENT_SECONDS))
        values = f"status = {int(Status.PENDING)}, error = 0, create_time = {_CREATE_TIME[self.kind]}, update_time = {earlier}"
        return f"UPDATE {self._t} SET {values} WHERE id IN ({_listed(ids)}) AND {_changeable(statuses)}"

    def discard(self, ids: Iterable[int], statuses: Iterable[int]) -> str:
        """Delete rows that have one of these statuses."""
        return f"DELETE FROM {self._t} WHERE id IN ({_listed(ids)}) AND {_changeable(statuses)}"

    def insert(self, count: int) -> str:
        """Insert rows; a value for each: its content. PostgreSQL returns their IDs."""
        if self.kind is Kind.SQLITE:
            # The times are the columns' defaults: drivers and frameworks read a short statement in half the time.
            return f"INSERT INTO {self._t} (content) VALUES {marks(count, '(?)')}"
        returning = " RETURNING id" if self.kind is Kind.POSTGRESQL else ""
        return f"INSERT INTO {self._t} (content, create_time, update_time) VALUES {marks(count, self._row)}{returning}"

    def contents(self, ids: Iterable[int]) -> str:
        """IDs and contents of rows by their IDs."""
        return f"SELECT id, content FROM {self._t} WHERE id IN ({_listed(ids)})"

    def delete(self, ids: Iterable[int]) -> str:
        """Delete rows by their IDs, which this connection has read."""
        return f"DELETE FROM {self._t} WHERE id IN ({_listed(ids)})"

    def delete_sent(self, ids: Iterable[int]) -> str:
        """Delete those of our own rows whose messages are sent; a value for each ID: the key of its content (`key_of`).

        An ID alone may belong to another message meanwhile: a replica that becomes the primary gives the IDs of rows that it
        lacks to new rows, and so does a database that was restored.
        """
        listed = list(ids)
        return f"DELETE FROM {self._t} WHERE id IN ({_listed(listed)}) AND {_KEY[self.kind]} IN ({marks(len(listed))})"


def _with(statuses: Iterable[int]) -> str:
    return f"status IN ({_listed(statuses)})"


def _changeable(statuses: Iterable[int]) -> str:
    """Rows with a status that an operator may change: a pending row that never failed belongs to its program and the relay."""
    return f"{_with(statuses)} AND (status <> {int(Status.PENDING)} OR error > 0)"


def _rights(table: str, lease: str) -> list[tuple[str, str, str]]:
    """Tables, rights and statements."""
    columns, lease_columns = (
        "content, status, error, create_time, update_time, last_error",
        "name, holder, generation, until_ms",
    )
    changed, nothing = ("status", "error", "create_time", "update_time", "last_error"), "1 = 0"
    return [
        (table, "SELECT", f"SELECT id, {columns} FROM {table} WHERE {nothing}"),
        (table, "UPDATE", f"UPDATE {table} SET {', '.join(f'{name} = {name}' for name in changed)} WHERE {nothing}"),
        (table, "DELETE", f"DELETE FROM {table} WHERE {nothing}"),
        (lease, "SELECT", f"SELECT {lease_columns} FROM {lease} WHERE {nothing}"),
        (lease, "INSERT", f"INSERT INTO {lease} ({lease_columns}) SELECT {lease_columns} FROM {lease} WHERE {nothing}"),
        (lease, "UPDATE", f"UPDATE {lease} SET until_ms = until_ms WHERE {nothing}"),
    ]


def _listed(ids: Iterable[int]) -> str:
    return ",".join(str(int(each)) for each in ids)


def inserted_ids(statements: Statements, cursor: Any, contents: Sequence[str]) -> Sequence[int]:
    """The IDs of the rows that `Statements.insert` has inserted, in their order, from the DB-API cursor that ran it.

    - PostgreSQL evaluates the sequence in the order of the rows. RETURNING promises no order, so the IDs are sorted.
    - SQLite gives consecutive IDs to the rows of one INSERT; `lastrowid` is the last one.
    - MySQL gives them IDs at equal distances; `lastrowid` is the first one. A cluster may change the distance at any time: then
      IDs are wrong, which `Statements.delete_sent` notices, and the relay sends these messages again.
    """
    kind, count = statements.kind, len(contents)
    if kind is Kind.POSTGRESQL:
        return sorted(row[0] for row in cursor.fetchall())
    last = int(cursor.lastrowid)
    if kind is Kind.SQLITE:
        return range(last - count + 1, last + 1)
    if count == 1:
        return [last]
    cursor.execute("SELECT @@auto_increment_increment")
    [[distance]] = cursor.fetchall()
    return range(last, last + count * int(distance), int(distance))
