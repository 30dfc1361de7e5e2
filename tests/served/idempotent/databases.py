"""The database of a test: connections of the driver, the table of markers, and one for effects."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from qmq.idempotent.tables import TABLE, ddl_statements
from qmq.outbox.databases import Address, Connection, Kind, connect

LOCK_SECONDS = 1
"""How long statements wait for a lock, in tests that want them to give up."""


class Database:
    """One database, empty at first."""

    def __init__(self, url: str) -> None:
        # Without what is for Django alone.
        self.address = Address.parse(url.partition("?")[0])
        self.kind = self.address.kind
        if self.kind is Kind.SQLITE:
            with closing(sqlite3.connect(self.address.database)) as raw:
                raw.execute("PRAGMA journal_mode = WAL")

    def make_tables(self, table: str = TABLE) -> None:
        """Make the table of markers, and `effects`."""
        self.execute(*ddl_statements(self.kind, table), "CREATE TABLE effects (what varchar(400) NOT NULL)")

    def control(self) -> Connection:
        """A connection as the commands use it."""
        return connect(self.address)

    def execute(self, *statements: str) -> None:
        """Run statements, each committed by itself."""
        with closing(self.control()) as connection:
            for statement in statements:
                connection.change(statement)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What a query finds."""
        with closing(self.control()) as connection:
            return connection.rows(sql, values)

    def count(self, table: str) -> int:
        return int(self.rows(f"SELECT count(*) FROM {table}")[0][0])

    @property
    def effects(self) -> list[str]:
        """What was committed, in order of text."""
        return sorted(str(row[0]) for row in self.rows("SELECT what FROM effects"))

    def connect(self, **options: Any) -> Any:
        """A new connection of the driver, as applications open it."""
        at = self.address
        if self.kind is Kind.SQLITE:
            return sqlite3.connect(at.database, **{"timeout": 60, **options})
        if self.kind is Kind.POSTGRESQL:
            import psycopg

            return psycopg.connect(host=at.host, port=at.port, user=at.user, dbname=at.database, **options)
        import pymysql

        return pymysql.connect(
            host=at.host, port=at.port, user=at.user, database=at.database, ssl_disabled=True, **options
        )

    def impatient(self) -> Any:
        """A connection on which statements wait LOCK_SECONDS for a lock."""
        if self.kind is Kind.SQLITE:
            return self.connect(timeout=LOCK_SECONDS)
        if self.kind is Kind.POSTGRESQL:
            return self.connect(options=f"-c lock_timeout={LOCK_SECONDS}s")
        return self.connect(init_command=f"SET SESSION innodb_lock_wait_timeout = {LOCK_SECONDS}")

    def has_waiting(self) -> bool:
        """Whether a transaction waits for the lock of another. SQLite can't say: its connections try again and again.

        InnoDB's answer stays the same while it is asked for more often than every 0.1 s.
        """
        if self.kind is Kind.SQLITE:
            return True
        if self.kind is Kind.POSTGRESQL:
            return bool(self.rows("SELECT 1 FROM pg_locks WHERE NOT granted"))
        return bool(self.rows("SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"))

    @property
    def mark(self) -> str:
        """The driver's mark for a value."""
        return "?" if self.kind is Kind.SQLITE else "%s"


def write(connection: Any, database: Database, what: str) -> None:
    """An effect, in the transaction of a connection."""
    cursor = connection.cursor()
    cursor.execute(f"INSERT INTO effects (what) VALUES ({database.mark})", (what,))
    cursor.close()
