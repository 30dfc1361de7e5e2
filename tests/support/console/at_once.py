"""Several calls at the same moment, each in a thread with a database connection of its own."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections

JOIN_SECONDS = 60.0
needs_two_writers = pytest.mark.skipif(
    connection.vendor == "sqlite", reason="SQLite lets one writer in at a time; its test database is one connection's"
)


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """What each call returned, or the exception it raised."""
    start = threading.Barrier(len(calls))
    found: list[Any] = [None] * len(calls)

    def run(number: int, call: Callable[[], Any]) -> None:
        try:
            start.wait(JOIN_SECONDS)
            found[number] = call()
        except Exception as error:  # noqa: BLE001 - handed to the test, which says which it wants
            found[number] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=item) for item in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_SECONDS)
    assert not any(thread.is_alive() for thread in threads), "a call hangs"
    return found
