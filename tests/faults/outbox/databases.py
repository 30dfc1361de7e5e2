"""An empty database of each kind for a program, and the points that a program has there at least."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from qmq.outbox.databases import Address, Kind
from tests.support.servers.services import own_database

SERVERS = {Kind.POSTGRESQL: "postgresql_server", Kind.MYSQL: "mariadb_server"}
"""Their fixtures."""
_NETWORK = {"before a request", "behind a request", "before an answer", "behind an answer"}
EXPECTED = {
    Kind.SQLITE: {"before INSERT INTO", "behind INSERT INTO", "before COMMIT", "behind COMMIT", "behind DELETE FROM"} | _NETWORK,
    Kind.POSTGRESQL: {"before a round trip", "between a request and its answer", "behind a round trip"} | _NETWORK,
    Kind.MYSQL: {"before INSERT INTO", "behind INSERT INTO", "before COMMIT", "behind COMMIT", "behind DELETE FROM"}
    | {"behind the server's answer"}
    | _NETWORK,
}  # fmt: skip


@contextmanager
def database_for(kind: Kind, folder: Path, request: pytest.FixtureRequest) -> Iterator[Address]:
    """An empty database, gone behind the block."""
    if kind is Kind.SQLITE:
        yield Address(kind, str(folder / "program.sqlite3"))
        return
    with own_database(request.getfixturevalue(SERVERS[kind]).url, "qmq_outbox_program") as url:
        at = urlsplit(url)
        yield Address(kind, at.path[1:], at.hostname or "", at.port or 0, at.username or "")
