"""Addresses of databases, and what errors of drivers mean."""

import sqlite3
import sys

import pymysql
import pytest
from psycopg import errors as postgresql

from qmq.errors import DatabaseFailed, SettingError
from qmq.outbox.databases import ERROR_CHARS_MAX, Address, Connection, Kind, Tls, connect, failure_of, kind_of


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("sqlite:////var/shop.db", Address(Kind.SQLITE, "/var/shop.db")),
        ("sqlite:///shop.db", Address(Kind.SQLITE, "shop.db")),
        ("postgresql://db/shop", Address(Kind.POSTGRESQL, "shop", "db", 5432)),
        ("postgres://qmq@db:1/shop", Address(Kind.POSTGRESQL, "shop", "db", 1, "qmq")),
        ("mysql://a%40b:p%2Fw@db/shop", Address(Kind.MYSQL, "shop", "db", 3306, "a@b", "p/w")),
        ("mariadb://[::1]:3307/shop?tls=verify", Address(Kind.MYSQL, "shop", "::1", 3307, tls=Tls.VERIFY)),
    ],
)
def test_urls(url: str, address: Address) -> None:
    found = Address.parse(url)
    assert found == address
    assert "p/w" not in f"{found}{found!r}"
    assert Address.parse(url, "other").password == (
        address.password or ("" if address.kind is Kind.SQLITE else "other")
    )


def test_an_address_as_text_is_its_url_without_the_password() -> None:
    assert str(Address.parse("mysql://u:secret@[::1]/shop")) == "mysql://u@[::1]:3306/shop"
    assert str(Address.parse("sqlite:////a/b")) == "sqlite:////a/b"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("", "must begin with postgresql://"),
        ("oracle://db/shop", "must begin with postgresql://"),
        ("postgresql://db", "a host and the name of one database"),
        ("postgresql:///shop", "a host and the name of one database"),
        ("mysql://db/a/b", "a host and the name of one database"),
        ("mysql://db:port/a", "[Pp]ort"),
        ("mysql://db:70000/a", "[Pp]ort"),
        ("mysql://db/a?tsl=verify", r"the parameter 'tsl' is unknown.*tls"),
        ("mysql://db/a?tls=maybe", "tls is 'maybe'; must be one of off, encrypt, verify"),
        ("sqlite:///", "must be sqlite:/// and a path"),
        ("sqlite://host/a", "must be sqlite:/// and a path"),
        ("sqlite:////a?tls=off", "must be sqlite:/// and a path"),
        ("postgresql://[db/a", "IPv6|bracket"),
    ],
)
def test_other_urls_are_refused(url: str, text: str) -> None:
    with pytest.raises(SettingError, match=text):
        Address.parse(url)


@pytest.mark.parametrize(
    "url", ["postgresql://u:secret@db/a/b", "mysql://u:se:cr@et@db/x?a=1", "oracle://u:secret@x/y"]
)
def test_errors_do_not_show_the_password(url: str) -> None:
    with pytest.raises(SettingError) as raised:
        Address.parse(url)
    assert "secret" not in str(raised.value)
    assert "cr@et" not in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "error", "code"),
    [
        (Kind.POSTGRESQL, postgresql.UndefinedTable("x"), "table_missing"),
        (Kind.POSTGRESQL, postgresql.UndefinedColumn("x"), "table_differs"),
        (Kind.POSTGRESQL, postgresql.InsufficientPrivilege("x"), "access_denied"),
        (Kind.POSTGRESQL, postgresql.ReadOnlySqlTransaction("x"), "access_denied"),
        (Kind.POSTGRESQL, postgresql.QueryCanceled("x"), "timeout"),
        (Kind.POSTGRESQL, postgresql.LockNotAvailable("x"), "conflict"),
        (Kind.POSTGRESQL, postgresql.DeadlockDetected("x"), "conflict"),
        (Kind.POSTGRESQL, postgresql.AdminShutdown("x"), "unreachable"),
        (Kind.POSTGRESQL, postgresql.DiskFull("x"), "unreachable"),
        (Kind.POSTGRESQL, postgresql.SyntaxError("x"), "statement_failed"),
        (Kind.MYSQL, pymysql.err.ProgrammingError(1146, "x"), "table_missing"),
        (Kind.MYSQL, pymysql.err.OperationalError(1054, "x"), "table_differs"),
        (Kind.MYSQL, pymysql.err.OperationalError(1045, "x"), "access_denied"),
        (Kind.MYSQL, pymysql.err.OperationalError(1213, "x"), "conflict"),
        (Kind.MYSQL, pymysql.err.OperationalError(2013, "Lost (The read operation timed out)"), "timeout"),
        (Kind.MYSQL, pymysql.err.OperationalError(2013, "Lost"), "unreachable"),
        (Kind.MYSQL, pymysql.err.InterfaceError(0, ""), "unreachable"),
        (Kind.MYSQL, pymysql.err.ProgrammingError(1064, "x"), "statement_failed"),
        (Kind.SQLITE, Exception("no such table: x"), "table_missing"),
        (Kind.SQLITE, Exception("attempt to write a readonly database"), "access_denied"),
        (Kind.SQLITE, Exception("database is locked"), "conflict"),
        (Kind.SQLITE, Exception("interrupted"), "timeout"),
        (Kind.SQLITE, Exception("disk I/O error"), "statement_failed"),
    ],
)
def test_errors_of_drivers(kind: Kind, error: Exception, code: str) -> None:
    found = failure_of(error, kind)
    assert found.code == f"database.{code}"
    assert found.retriable is (code in ("unreachable", "timeout", "conflict"))


def test_texts_of_drivers_are_printable_and_short() -> None:
    text = str(failure_of(Exception("a\n\x1b[31mb" + "c" * 1000), Kind.SQLITE))
    assert text.isprintable()
    assert len(text) <= ERROR_CHARS_MAX


def test_connections_of_other_drivers_are_refused() -> None:
    with pytest.raises(SettingError, match=r"builtins\.int are not supported; supported drivers: sqlite3, psycopg"):
        kind_of(1)
    with pytest.raises(SettingError):
        Connection(object())


def test_a_missing_file_is_no_new_database(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DatabaseFailed, match=r"missing\.db: unable to open") as raised:
        connect(Address(Kind.SQLITE, str(tmp_path / "missing.db")))
    assert raised.value.code == "database.unreachable"
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sqlite3 has no `autocommit` before")
def test_connections_of_sqlite_without_autocommit_commit_by_themselves(tmp_path) -> None:  # type: ignore[no-untyped-def]
    raw = sqlite3.connect(tmp_path / "own", autocommit=False)  # type: ignore[call-overload]
    connection = Connection(raw)
    connection.change("CREATE TABLE t (i)")
    assert not raw.in_transaction
    connection.close()
