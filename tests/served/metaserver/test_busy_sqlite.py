"""SQLite under parallel changes: they wait for each other, and one that waits too long says so."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import OperationalError
from django.db.backends.sqlite3.base import DatabaseWrapper
from django.db.utils import ConnectionHandler, load_backend
from pytest_django import DjangoDbBlocker

from api.problems import BUSY_RETRY_SECONDS, handle
from metaserver.stored.database import database_settings, is_busy

WRITERS, CHANGES = 8, 20


def opened(folder: Path, *, timeout: float | None = None) -> DatabaseWrapper:
    """A connection with the settings of the console; `timeout` in seconds instead of its own."""
    handler = ConnectionHandler({"default": database_settings("", str(folder))})
    settings = handler.settings["default"]
    if timeout is not None:
        settings["OPTIONS"]["timeout"] = timeout
    found: DatabaseWrapper = load_backend(settings["ENGINE"]).DatabaseWrapper(settings, "own")
    found.inc_thread_sharing()
    return found


@pytest.fixture(autouse=True)
def own_database(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The tests use files of their own, not the test database."""
    with django_db_blocker.unblock():
        yield


@pytest.fixture
def holder(own_database: None, tmp_path: Path) -> Iterator[DatabaseWrapper]:
    """A connection whose transaction holds the lock of writers."""
    connection = opened(tmp_path)
    connection.cursor().execute("CREATE TABLE counter (value INTEGER)")
    connection.cursor().execute("INSERT INTO counter VALUES (0)")
    connection.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
    yield connection
    connection.rollback()
    connection.close()


def added(connection: DatabaseWrapper) -> None:
    """Read, then write: in a deferred transaction SQLite refuses the write at once if another one wrote in between."""
    connection.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
    try:
        cursor = connection.cursor()
        cursor.execute("SELECT value FROM counter")
        (value,) = cursor.fetchone()
        cursor.execute("UPDATE counter SET value = %s", [value + 1])
        connection.commit()
    finally:
        connection.rollback()
        connection.set_autocommit(True)


def test_parallel_changes_wait_for_each_other(holder: DatabaseWrapper, tmp_path: Path) -> None:
    errors: list[OperationalError] = []
    begun = threading.Barrier(WRITERS + 1)

    def work() -> None:
        connection = opened(tmp_path)
        try:
            begun.wait()
            for _ in range(CHANGES):
                added(connection)
        except OperationalError as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    begun.wait()
    holder.commit()
    holder.set_autocommit(True)
    for thread in threads:
        thread.join()
    assert errors == []
    cursor = holder.cursor()
    cursor.execute("SELECT value FROM counter")
    assert cursor.fetchone() == (WRITERS * CHANGES,)


def test_a_change_that_waited_too_long_is_answered_503_busy(holder: DatabaseWrapper, tmp_path: Path) -> None:
    connection = opened(tmp_path, timeout=0)
    with pytest.raises(OperationalError) as caught:
        added(connection)
    connection.close()
    assert is_busy(caught.value)
    answer = handle(caught.value, {})
    assert answer is not None
    assert (answer.status_code, answer.data["code"]) == (503, "database.busy")
    assert answer.headers["Retry-After"] == str(BUSY_RETRY_SECONDS)
    assert "busy" in answer.data["detail"]
    assert "Try again" in answer.data["detail"]


def test_other_errors_are_not_taken_for_a_busy_database(holder: DatabaseWrapper) -> None:
    with pytest.raises(OperationalError) as caught:
        holder.cursor().execute("SELECT * FROM nothing")
    assert not is_busy(caught.value)
    answer = handle(caught.value, {})
    assert answer is not None
    assert answer.data["code"] == "database.away"
