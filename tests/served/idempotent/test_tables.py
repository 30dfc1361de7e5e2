"""The table of markers: ours is fit, QMQ's is not until it is changed as `qmq idempotent check` says; cleanup; the commands."""

from contextlib import closing
from datetime import timedelta

import pytest

from qmq.cli import main
from qmq.errors import DatabaseFailed, SettingError
from qmq.idempotent.cleanup import Cleanup
from qmq.idempotent.dbapi import mark
from qmq.idempotent.tables import BATCH_ROWS, problems
from qmq.outbox.databases import Kind
from qmq_testing import delivery
from tests.served.idempotent.databases import Database

pytestmark = pytest.mark.database

OF_QMQ = """CREATE TABLE processed (
  id bigint NOT NULL AUTO_INCREMENT, k varchar(100) NOT NULL,
  update_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (id), UNIQUE KEY uniq_k (k)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_general_ci"""
"""As a user of QMQ's Java client makes it."""


def found(database: Database, table: str = "qmq_processed") -> list[str]:
    with closing(database.control()) as connection:
        return problems(connection, table)


def test_our_own_table_is_fit_also_in_a_schema_and_can_be_made_twice(database: Database) -> None:
    schema = {Kind.SQLITE: "main", Kind.POSTGRESQL: "public", Kind.MYSQL: database.address.database}[database.kind]
    assert (found(database), found(database, f"{schema}.qmq_processed")) == ([], [])
    database.execute("DROP TABLE effects")
    database.make_tables()


def test_a_table_of_qmq_is_fit_after_the_changes_that_the_check_names(database: Database) -> None:
    if database.kind is not Kind.MYSQL:
        pytest.skip("QMQ's Java client knows MySQL only")
    database.execute(OF_QMQ, "INSERT INTO processed (k) VALUES ('order.paid%billing%m0')")
    first = found(database, "processed")
    assert ["utf8mb4_general_ci" in first[0], "update_at" in first[1]] == [True, True], first
    database.execute(*(problem.partition(": ")[2] for problem in first))
    assert found(database, "processed") == []
    with closing(database.connect()) as connection:
        # What the Java client has processed counts.
        for message_id, is_first in (("m0", False), ("m1", True), ("M1", True), ("m1", False)):
            message = delivery("", subject="order.paid", group="billing", message_id=message_id)
            assert mark(message, connection, table="processed") is is_first


def test_an_unfit_table_delays_messages_and_loses_none(database: Database) -> None:
    """Keys that the column's collation or a truncation makes equal."""
    if database.kind is not Kind.MYSQL:
        pytest.skip("of MySQL: elsewhere the key is bytes in any column that takes it")
    database.execute(OF_QMQ)
    with closing(database.connect()) as connection:
        connection.cursor().execute("SET sql_mode = ''")
        for one, other in (("Key-A", "key-a"), ("Key-B", "Key-B "), ("p" * 95 + "1", "p" * 95 + "2")):
            assert mark(delivery("", message_id=one), connection, table="processed")
            with pytest.raises(Exception, match="unfit for markers") as raised:
                mark(delivery("", message_id=other), connection, table="processed")
            assert getattr(raised.value, "code", "") == "idempotent.key_collision"
        assert not mark(delivery("", message_id="Key-A"), connection, table="processed")


CHANGES = {
    "no unique index": {
        Kind.SQLITE: "CREATE TABLE t (k blob NOT NULL, update_at text DEFAULT CURRENT_TIMESTAMP)",
        Kind.POSTGRESQL: "CREATE TABLE t (k bytea NOT NULL, update_at timestamptz DEFAULT now())",
        Kind.MYSQL: "CREATE TABLE t (k varbinary(400) NOT NULL, update_at timestamp DEFAULT now())",
    },
    "column more has no default": {
        Kind.SQLITE: "CREATE TABLE t (k blob PRIMARY KEY, more int NOT NULL, update_at text DEFAULT CURRENT_TIMESTAMP)",
        Kind.POSTGRESQL: "CREATE TABLE t (k bytea PRIMARY KEY, more int NOT NULL, update_at timestamptz DEFAULT now())",
        Kind.MYSQL: "CREATE TABLE t (k varbinary(400) PRIMARY KEY, more int NOT NULL, update_at timestamp DEFAULT now())",
    },
    "no column update_at": {
        Kind.SQLITE: "CREATE TABLE t (k blob PRIMARY KEY)",
        Kind.POSTGRESQL: "CREATE TABLE t (k bytea PRIMARY KEY)",
        Kind.MYSQL: "CREATE TABLE t (k varbinary(400) PRIMARY KEY)",
    },
    "no column k": dict.fromkeys(Kind, "CREATE TABLE t (a int)"),
    "there is no table t": dict.fromkeys(Kind, "SELECT 1"),
    "not bytea": {Kind.POSTGRESQL: "CREATE TABLE t (k varchar(100) PRIMARY KEY, update_at timestamptz DEFAULT now())"},
    "no unique index holds the whole column": {
        Kind.MYSQL: "CREATE TABLE t (k varbinary(400), update_at timestamp DEFAULT now(), UNIQUE KEY k (k(100)))",
        Kind.POSTGRESQL: "CREATE TABLE t (k bytea, update_at timestamptz DEFAULT now(), UNIQUE (k, update_at))",
        Kind.SQLITE: "CREATE TABLE t (k blob, update_at text DEFAULT CURRENT_TIMESTAMP, UNIQUE (k, update_at))",
    },
    "holds 100 bytes": {Kind.MYSQL: "CREATE TABLE t (k varbinary(100) PRIMARY KEY, update_at timestamp DEFAULT now())"},
    "engine MyISAM": {
        Kind.MYSQL: "CREATE TABLE t (k varbinary(400) PRIMARY KEY, update_at timestamp DEFAULT now()) ENGINE MyISAM"
    },
}


HAVE_STATEMENTS = CHANGES.keys() - {"no column k", "there is no table t"}


@pytest.mark.parametrize("problem", CHANGES)
def test_what_makes_a_table_unfit_is_named_with_a_statement_that_corrects_it(database: Database, problem: str) -> None:
    if (statement := CHANGES[problem].get(database.kind)) is None:
        pytest.skip("of another server")
    database.execute(statement)
    first = found(database, "t")
    assert any(problem in one for one in first), first
    if problem in HAVE_STATEMENTS:
        # SQLite can't add a column whose default is the time.
        if "update_at" in problem and database.kind is Kind.SQLITE:
            return
        database.execute(*(one.partition(": ")[2] for one in first))
        assert found(database, "t") == []


def age(database: Database, count: int, days: int) -> None:
    """Insert markers that are this old."""
    when = {
        Kind.SQLITE: f"datetime('now', '-{days} days')",
        Kind.POSTGRESQL: f"now() - interval '{days} days'",
        Kind.MYSQL: f"now() - interval {days} day",
    }[database.kind]
    key = {Kind.SQLITE: "CAST('{}' AS BLOB)", Kind.POSTGRESQL: "'{}'::bytea", Kind.MYSQL: "'{}'"}[database.kind]
    for begin in range(0, count, 500):
        values = ", ".join(f"({key.format(f'{days} {n}')}, {when})" for n in range(begin, min(begin + 500, count)))
        database.execute(f"INSERT INTO qmq_processed (k, update_at) VALUES {values}")


def test_a_cleanup_deletes_what_is_old_enough_in_batches(database: Database) -> None:
    age(database, 2 * BATCH_ROWS + 1, 8)
    age(database, 3, 6)
    with closing(database.control()) as connection:
        batches = Cleanup(connection).batches()
        assert next(batches) == BATCH_ROWS
        # Each batch is committed before the next one.
        assert database.count("qmq_processed") == BATCH_ROWS + 4
        assert [*batches] == [BATCH_ROWS, 1]
        assert [*Cleanup(connection).batches()] == [0]
        assert [*Cleanup(connection, retention=timedelta(days=5)).batches()] == [3]


def test_a_retention_below_a_second_and_an_illegal_table_are_errors(database: Database) -> None:
    with closing(database.control()) as connection:
        with pytest.raises(SettingError, match="at least one second"):
            Cleanup(connection, retention=timedelta(0))
        with pytest.raises(SettingError, match="table 'a b'"):
            Cleanup(connection, table="a b")
        with pytest.raises(DatabaseFailed):
            next(Cleanup(connection, table="nowhere").batches())


def test_the_commands(database: Database, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        code = main(["idempotent", *arguments])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    url = str(database.address)
    code, statements = run("ddl", str(database.kind), "--table", "markers")
    assert code == 0
    database.execute(*("\n".join(filter(lambda line: line[:2] != "--", statements.splitlines())).split(";")[:-1]))
    assert run("check", "--database", url, "--table", "markers") == (0, "markers can hold markers\n")
    code, printed = run("check", "--database", url, "--table", "effects")
    assert (code, "effects: it has no column k" in printed) == (1, True)
    code, printed = run("check", "--database", url, "--table", "nowhere", "--json")
    assert (code, '"problems": ["there is no table nowhere' in printed) == (1, True)
    age(database, 3, 2)
    assert run("cleanup", "--database", url) == (0, "deleted 0 markers of qmq_processed\n")
    assert run("cleanup", "--database", url, "--older-than", "1d", "--json") == (
        0,
        '{"table": "qmq_processed", "deleted": 3}\n',
    )
    code, printed = run("cleanup", "--database", url, "--table", "a-b")
    assert (code, "table 'a-b'" in printed) == (2, True)
    code, printed = run("check", "--database", "oracle://x/y")
    assert (code, "must begin with" in printed) == (2, True)
