"""Django's PostgreSQL backend with a client-side time limit, `OPTIONS["answer_seconds"]` for one answer (None: no limit).

PostgreSQL's own limits depend on the server: one that hangs, or a network that drops packets, does not enforce them. After the
limit the connection is closed, and everything on it fails immediately.
"""

from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg import errors


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that waits `answer_seconds` for an answer."""

    answer_seconds: float | None = None

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """As psycopg's; a caller's own limit goes before ours."""
        if timeout is not None or self.answer_seconds is None:
            return super().wait(gen, interval, timeout)
        try:
            return super().wait(gen, interval, self.answer_seconds)
        except errors._WaitTimeout as error:
            # A late answer to this query must not be treated as the answer to the next one.
            self.pgconn.finish()
            raise psycopg.OperationalError(f"no response within {self.answer_seconds:g} s") from error


class DatabaseWrapper(base.DatabaseWrapper):
    """The backend."""

    def get_connection_params(self) -> dict[str, Any]:
        params: dict[str, Any] = super().get_connection_params()
        params.pop("answer_seconds", None)
        return params

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        connection = super().get_new_connection(conn_params)
        # Django names psycopg's own class; ours adds no state but this one.
        connection.__class__ = BoundedConnection
        connection.answer_seconds = self.settings_dict["OPTIONS"].get("answer_seconds")
        return connection
