"""Connections to real servers that refuse, lack a table, are read-only, hang, or have a certificate of their own."""

import os
import shutil
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from qmq.clock import SYSTEM_CLOCK
from qmq.errors import DatabaseFailed
from qmq.outbox.databases import Address, Connection, Kind, Tls, connect
from qmq.outbox.dialects import TABLE, Statements
from tests.support.outbox import Orders
from tests.support.servers.services import PostgresqlServer, Server, named_databases, own_database
from tests.support.servers.shared import server_for_tests
from tests.support.waiting import eventually

SECONDS = 1.0
"""The limit of statements in these tests."""
SERVERS = {Kind.POSTGRESQL: "postgresql_server", Kind.MYSQL: "mariadb_server"}


@pytest.fixture(params=list(SERVERS))
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(SERVERS[request.param])
    return found


@pytest.fixture
def orders(server: Server) -> Iterator[Orders]:
    with own_database(server.url, "qmq_outbox_connect") as url:
        found = Orders(Address.parse(url.partition("?")[0]))
        yield found
        found.connection.close()


@pytest.fixture
def user(orders: Orders) -> Iterator[Address]:
    """A user who may only read."""
    name = "qmq_reader"
    if orders.address.kind is Kind.POSTGRESQL:
        make = [f"CREATE ROLE {name} LOGIN PASSWORD 'right'", f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}"]
        drop = [f"DROP OWNED BY {name}", f"DROP ROLE {name}"]
    else:
        make = [
            f"CREATE USER {name}@'%' IDENTIFIED BY 'right'",
            f"GRANT SELECT ON {orders.address.database}.* TO {name}@'%'",
        ]
        drop = [f"DROP USER {name}@'%'"]
    for statement in make:
        orders.connection.change(statement)
    yield replace(orders.address, user=name, password="right")
    for statement in drop:
        orders.connection.change(statement)


def fails(action: Callable[[], Any], code: str) -> DatabaseFailed:
    with pytest.raises(DatabaseFailed) as raised:
        action()
    assert raised.value.code == f"database.{code}", raised.value
    return raised.value


def test_a_read_only_user(user: Address) -> None:
    connection = connect(user)
    statements = Statements(user.kind)
    assert connection.rows(statements.pending, [1]) == [(0,)]
    fails(lambda: connection.change(statements.delete([1])), "access_denied")
    fails(lambda: connection.change(statements.end, [-2, "x", 1]), "access_denied")
    # The connection is usable afterwards.
    assert connection.rows(statements.pending, [1]) == [(0,)]
    connection.close()


def test_a_wrong_password_and_an_unknown_user(user: Address) -> None:
    for wrong in (replace(user, password="wrong"), replace(user, user="nobody")):
        if user.kind is Kind.POSTGRESQL:
            continue  # this server trusts everybody; the next test has one with passwords
        error = fails(lambda wrong=wrong: connect(wrong), "access_denied")
        assert str(wrong) in str(error)
        assert "wrong" not in str(error)


def test_an_unknown_database(orders: Orders) -> None:
    fails(lambda: connect(replace(orders.address, database="missing")), "access_denied")


def test_a_missing_table_and_other_columns(orders: Orders) -> None:
    connection, statements = orders.connection, orders.statements
    orders.connection.change(f"ALTER TABLE {TABLE} DROP COLUMN last_error")
    fails(lambda: connection.change(statements.end, [-2, "x", 1]), "table_differs")
    orders.connection.change(f"DROP TABLE {TABLE}")
    fails(lambda: connection.rows(statements.pending, [1]), "table_missing")


def test_a_lock_and_a_long_statement_end_in_time(orders: Orders) -> None:
    [row_id] = orders.add("{}")
    other = connect(orders.address, seconds=SECONDS)
    with orders.connection.transaction():
        orders.connection.change(f"UPDATE {TABLE} SET error = 1 WHERE id = ?", [row_id])
        with pytest.raises(DatabaseFailed) as raised:
            other.change(orders.statements.delete([row_id]))
    # The limits of statements and of locks are the same.
    assert raised.value.code in ("database.conflict", "database.timeout")
    assert raised.value.retriable
    sleep = (
        "SELECT pg_sleep(60)"
        if orders.address.kind is Kind.POSTGRESQL
        else "SELECT sleep(60) FROM information_schema.tables"
    )
    fails(lambda: other.rows(sleep), "timeout")
    other.close()


def test_a_server_that_is_stopped_and_one_that_is_paused(server: Server, orders: Orders) -> None:
    open_one = connect(orders.address, seconds=SECONDS)
    began = SYSTEM_CLOCK.monotonic()
    with server.paused():
        fails(lambda: connect(orders.address, seconds=SECONDS), "timeout")
        fails(lambda: open_one.rows("SELECT 1"), "timeout")
    assert SYSTEM_CLOCK.monotonic() - began < 60, "neither waits for the server"
    open_one.close()
    # A late answer must not become the answer of another statement.
    again = connect(orders.address, seconds=SECONDS)
    assert again.rows("SELECT 2") == [(2,)]
    with server.stopped():
        fails(lambda: connect(orders.address, seconds=SECONDS), "unreachable")
        fails(lambda: again.rows("SELECT 1"), "unreachable")
    again.close()
    orders.connection.close()
    orders.connection = connect(orders.address)


@contextmanager
def silent_port() -> Iterator[int]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepted: list[socket.socket] = []

        def accept() -> None:
            with suppress(OSError):
                while True:
                    accepted.append(listener.accept()[0])

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for each in accepted:
                each.close()


@pytest.mark.parametrize("tls", list(Tls))
@pytest.mark.parametrize("kind", list(SERVERS))
def test_a_server_that_accepts_and_never_answers(kind: Kind, tls: Tls) -> None:
    with silent_port() as port:
        error = fails(lambda: connect(Address(kind, "x", "127.0.0.1", port, tls=tls), seconds=SECONDS), "timeout")
    assert error.retriable


def test_sqlite_waits_for_a_lock_and_interrupts_long_statements(tmp_path: Path) -> None:
    found = Orders(Address(Kind.SQLITE, str(tmp_path / "own.sqlite3")))
    own = connect(found.address, seconds=0.1)
    found.connection.change("BEGIN IMMEDIATE")
    fails(lambda: own.change(found.statements.delete([1])), "conflict")
    found.connection.change("ROLLBACK")
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    fails(lambda: own.rows(endless), "timeout")
    assert own.rows("SELECT 1") == [(1,)]
    own.close()
    found.connection.close()
    with sqlite3.connect(f"file:{found.address.database}?mode=ro", uri=True) as raw:
        fails(lambda: Connection(raw).change(found.statements.delete([1])), "access_denied")
    raw.close()


@pytest.fixture
def tls_server() -> Iterator[Address]:
    """A PostgreSQL with passwords and a certificate that no authority has signed."""
    for server in server_for_tests(PostgresqlServer, is_required="postgresql" in named_databases()):
        data = server.folder / "data"
        names = [str(data / "server.key"), str(data / "server.crt")]
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
             "-keyout", names[0], "-out", names[1]],
            check=True, capture_output=True,
        )  # fmt: skip
        if os.geteuid() == 0:
            for name in names:
                shutil.chown(name, server.user, server.user)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("ALTER ROLE qmq PASSWORD 'right'")
            connection.execute("ALTER SYSTEM SET ssl = on")
            # The first line is for the probe that stops the server.
            (data / "pg_hba.conf").write_text("host postgres qmq all trust\nhostssl qmq all all scram-sha-256\n")
            connection.execute("SELECT pg_reload_conf()")
        yield Address(Kind.POSTGRESQL, "qmq", "localhost", urlsplit(server.url).port or 0, "qmq", "right")


def test_tls_and_passwords_of_postgresql(tls_server: Address) -> None:
    def open_encrypted() -> Connection | None:
        with suppress(DatabaseFailed):  # the server has not read its settings yet
            return connect(replace(tls_server, tls=Tls.ENCRYPT), host_address="127.0.0.1")
        return None

    encrypted = eventually(open_encrypted)
    assert encrypted is not None
    assert encrypted.rows("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == [(True,)]
    encrypted.close()
    error = fails(lambda: connect(replace(tls_server, tls=Tls.VERIFY)), "unreachable")
    assert "certificate verify failed" in str(error)
    fails(lambda: connect(tls_server), "access_denied")
    error = fails(lambda: connect(replace(tls_server, tls=Tls.ENCRYPT, password="wrong")), "access_denied")
    assert "wrong" not in str(error)


def test_deleting_an_id_that_is_gone_blocks_no_insert(orders: Orders) -> None:
    """In InnoDB's default isolation it locks the gap up to the table's end."""
    [row_id] = orders.add("{}")
    deleting, inserting = Connection(orders.open()), connect(orders.address, seconds=SECONDS)
    with deleting.transaction():
        assert deleting.change(orders.statements.delete([row_id + 1000])) == 0
        inserting.change(orders.statements.insert(1), ["{}"])
    deleting.close()
    inserting.close()
    assert len(orders.rows()) == 2
