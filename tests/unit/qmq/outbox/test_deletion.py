"""Deletion of sent messages: batches, failures, limits, closing."""

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence

import pytest

from qmq.errors import DatabaseFailed
from qmq.outbox import deletion as module
from qmq.outbox.databases import Kind
from qmq.outbox.deletion import DELETED_AT_ONCE, Deletion, RowDeletion, Stored
from qmq.outbox.dialects import Statements, ddl_statements
from tests.support.outbox import content
from tests.support.waiting import eventually


def stored(ids: Iterable[int]) -> list[Stored]:
    return [(row_id, f"m{row_id}") for row_id in ids]


class Database:
    """Records what is deleted. `failures` are raised first; with `gate` cleared, a DELETE does not end."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.failures: list[Exception] = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.rests = 0

    def delete(self, rows: Sequence[Stored]) -> None:
        self.entered.set()
        assert self.gate.wait(60)
        if self.failures:
            raise self.failures.pop(0)
        assert all(key == f"m{row_id}" for row_id, key in rows)
        self.batches.append([row_id for row_id, _ in rows])

    def rest(self) -> None:
        self.rests += 1


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def deletion(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deletion]:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.01)
    found = Deletion(database.delete, database.rest)
    yield found
    database.gate.set()
    assert found.close(60)
    if found._thread is not None:
        found._thread.join()


def test_rows_are_deleted_in_their_order_and_in_batches(database: Database, deletion: Deletion) -> None:
    database.gate.clear()
    deletion.add(stored([0]))
    assert database.entered.wait(60)
    deletion.add(stored(range(1, DELETED_AT_ONCE + 2)))
    assert deletion.pending == DELETED_AT_ONCE + 2
    assert not deletion.flush(0.0)
    database.gate.set()
    assert deletion.flush(60)
    assert database.batches == [[0], [*range(1, DELETED_AT_ONCE + 1)], [DELETED_AT_ONCE + 1]]
    assert deletion.pending == 0


def test_a_failed_batch_is_tried_again_before_later_rows(
    database: Database, deletion: Deletion, caplog: pytest.LogCaptureFixture
) -> None:
    database.failures = [DatabaseFailed("away"), RuntimeError("of a driver")]
    deletion.add(stored([1, 2]))
    assert deletion.flush(60)
    deletion.add(stored([3]))
    assert deletion.flush(60)
    assert database.batches == [[1, 2], [3]]
    assert caplog.text.count("can't be deleted") == 1


def test_ids_beyond_the_limit_are_left_to_the_relay(
    database: Database, deletion: Deletion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEPT_ROWS_MAX", 3)
    database.gate.clear()
    deletion.add(stored([1]))
    assert database.entered.wait(60)
    deletion.add(stored([2, 3, 4, 5]))
    assert (deletion.pending, deletion.left) == (3, 2)


def test_closing_gives_up_what_the_database_does_not_delete(database: Database, deletion: Deletion) -> None:
    database.failures = [DatabaseFailed("away")] * 1000
    deletion.add(stored([1, 2]))
    assert not deletion.close(0.0)
    eventually(lambda: deletion.left == 2)
    deletion.add(stored([3]))
    assert deletion.left == 3
    eventually(lambda: database.rests == 1)


def test_an_idle_connection_rests_once(database: Database, deletion: Deletion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
    deletion.add(stored([1]))
    eventually(lambda: database.rests == 1)
    deletion.add(stored([2]))
    eventually(lambda: database.rests == 2)
    assert database.batches == [[1], [2]]


def test_rows_are_deleted_on_a_connection_that_is_opened_again_after_a_failure(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "own.sqlite3"
    with sqlite3.connect(path) as made:
        for statement in ddl_statements(Kind.SQLITE):
            made.execute(statement)
        made.execute(Statements(Kind.SQLITE).insert(3), [content("a", f"m{number}") for number in (1, 2, 3)])
    opened: list[sqlite3.Connection] = []

    def connect() -> sqlite3.Connection:
        opened.append(sqlite3.connect(path))
        return opened[-1]

    rows = RowDeletion(connect, Statements(Kind.SQLITE))
    rows(stored([1]))
    rows(stored([1]))
    assert len(opened) == 1
    opened[0].close()
    with pytest.raises(DatabaseFailed):
        rows(stored([2]))
    rows(stored([2]))
    assert len(opened) == 2
    assert made.execute("SELECT id FROM qmq_msg_queue").fetchall() == [(3,)]
    rows.close()
    rows.close()
    with pytest.raises(sqlite3.ProgrammingError):
        opened[1].execute("SELECT 1")
    made.close()
