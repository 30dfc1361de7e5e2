"""Limits of requests that use business databases: a database that hangs holds up few of them."""

import threading
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from qmq.errors import QmqError

REQUESTS_MAX = 8
"""Concurrent requests of this process that use a business database; the others of `Limits.requests_max` serve other pages."""
OF_DATABASE_MAX = 1
"""Concurrent requests of this process that use one database."""
WAIT_SECONDS = 2.0
"""How long a request waits for its turn."""


class Gate:
    """Admits a number of requests in all, and a number for each database."""

    def __init__(
        self, most: int = REQUESTS_MAX, of_database: int = OF_DATABASE_MAX, wait_seconds: float = WAIT_SECONDS
    ) -> None:
        self._most, self._of_database, self._wait_seconds = most, of_database, wait_seconds
        self._changed = threading.Condition()
        self._inside: Counter[Hashable] = Counter()

    @contextmanager
    def entered(self, key: Hashable) -> Iterator[None]:
        """Admitted for a database in the block. Raises QmqError when there was no place within `wait_seconds`."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._has_room(key), self._wait_seconds):
                text = "Other requests are using this database, or too many databases are in use. Try again shortly."
                raise QmqError(text, code="outbox_database.busy", retriable=True)
            self._inside[key] += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside[key] -= 1
                self._inside += Counter()  # without those of 0
                self._changed.notify_all()

    def _has_room(self, key: Hashable) -> bool:
        return self._inside[key] < self._of_database and self._inside.total() < self._most
