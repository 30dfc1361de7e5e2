"""Markers in SQLite with each way in which Python's connections control transactions: all from Python 3.12 on."""

import sqlite3
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from qmq.errors import MarkerFailed
from qmq.idempotent.dbapi import mark, once
from qmq.idempotent.tables import ddl
from qmq.outbox.databases import Kind
from qmq_testing import delivery

MODES: list[dict[str, Any]] = [{}, {"isolation_level": None}, {"isolation_level": "EXCLUSIVE"}]
if sys.version_info >= (3, 12):
    MODES += [{"autocommit": True}, {"autocommit": False}]


class Refused(Exception):
    """A handler's own error."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "own.sqlite3")) as connection:
        connection.executescript(ddl(Kind.SQLITE) + "CREATE TABLE effects (what text)")
    return tmp_path / "own.sqlite3"


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_marker_and_effect_are_one_transaction(path: Path, mode: dict[str, Any]) -> None:
    @once(partial(sqlite3.connect, path, **mode))
    def handle(what: str, delivery: Any, *, connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO effects VALUES (?)", (what,))
        if delivery.message_id == "fails":
            raise Refused

    handle("a", delivery(message_id="m1"))
    handle("b", delivery(message_id="m1"))
    with pytest.raises(Refused):
        handle("c", delivery(message_id="fails"))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT what FROM effects").fetchall() == [("a",)]
        assert connection.execute("SELECT k FROM qmq_processed").fetchall() == [(b"test%test%m1",)]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_marker_alone_is_refused_only_where_it_would_be_committed_at_once(path: Path, mode: dict[str, Any]) -> None:
    with closing(sqlite3.connect(path, **mode)) as connection:
        if mode in ({"isolation_level": None}, {"autocommit": True}):
            with pytest.raises(MarkerFailed):
                mark(delivery(), connection)
            connection.execute("BEGIN")
        assert mark(delivery(), connection)
        connection.rollback() if mode != {"autocommit": True} else connection.execute("ROLLBACK")
        assert connection.execute("SELECT count(*) FROM qmq_processed").fetchone() == (0,)
