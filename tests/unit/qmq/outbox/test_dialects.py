"""The SQL of the outbox, and the IDs of inserted rows."""

import sqlite3
from types import SimpleNamespace
from typing import Any

import pytest

from qmq.errors import SettingError
from qmq.outbox.databases import Kind
from qmq.outbox.dialects import LEASE_TABLE, Statements, TableName, ddl, ddl_statements, inserted_ids


@pytest.mark.parametrize("name", ["t", "_t$1", "qmq_produce.qmq_msg_queue", "x" * 63])
def test_names_of_tables(name: str) -> None:
    assert str(TableName.parse(name)) == name


@pytest.mark.parametrize("name", ["", ".", "a.", ".b", "a.b.c", "a b", "a;b", 'a"b', "1a", "é", "x" * 64, "a\nb"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(SettingError, match="must be a name, or a schema and a name"):
        TableName.parse(name)


def test_names_are_quoted_and_the_lease_lies_in_the_schema_of_the_table() -> None:
    name = TableName.parse("own.order")
    assert name.quoted(Kind.MYSQL) == "`own`.`order`"
    assert name.quoted(Kind.POSTGRESQL) == '"own"."order"'
    assert str(name.lease_table) == f"own.{LEASE_TABLE}"


@pytest.mark.parametrize("kind", list(Kind))
def test_ddl_makes_both_tables_and_has_no_placeholder_left(kind: Kind) -> None:
    text = ddl(kind, "own.queue")
    assert "{" not in text
    statements = ddl_statements(kind, "own.queue")
    assert len(statements) == text.count(";")
    assert sum(statement.startswith("CREATE TABLE IF NOT EXISTS") for statement in statements) == 2


def test_ddl_can_be_repeated_and_an_id_is_never_used_again() -> None:
    with sqlite3.connect(":memory:", isolation_level=None) as connection:
        for statement in ddl_statements(Kind.SQLITE) * 2:
            connection.execute(statement)
        statements = Statements(Kind.SQLITE)
        connection.execute(statements.insert(2), ["a", "b"])
        connection.execute(statements.delete([2]))
        cursor = connection.execute(statements.insert(3), ["c", "d", "e"])
        assert list(inserted_ids(statements, cursor, ["c", "d", "e"])) == [3, 4, 5]
        assert connection.execute(statements.contents([4])).fetchall() == [(4, "d")]
    connection.close()


def test_only_numbers_become_part_of_a_statement() -> None:
    delete: Any = Statements(Kind.SQLITE).delete
    assert delete([1, 20]) == 'DELETE FROM "qmq_msg_queue" WHERE id IN (1,20)'
    with pytest.raises(ValueError, match="invalid literal"):
        delete(["1) OR (1=1"])


def test_ids_of_postgresql_are_sorted() -> None:
    cursor = SimpleNamespace(fetchall=lambda: [(7,), (5,), (6,)])
    assert list(inserted_ids(Statements(Kind.POSTGRESQL), cursor, ["a", "b", "c"])) == [5, 6, 7]


def test_ids_of_mysql_begin_with_lastrowid_and_have_the_distance_of_the_server() -> None:
    asked: list[str] = []
    cursor = SimpleNamespace(lastrowid=11, execute=asked.append, fetchall=lambda: ((3,),))
    statements = Statements(Kind.MYSQL)
    assert list(inserted_ids(statements, cursor, ["a"])) == [11]
    assert asked == []
    assert list(inserted_ids(statements, cursor, ["a", "b"])) == [11, 14]
    assert asked == ["SELECT @@auto_increment_increment"]
