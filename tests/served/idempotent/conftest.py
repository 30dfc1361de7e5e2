"""Each test has a database of its own, on the server of this run."""

import pytest

from tests.served.idempotent.databases import Database


@pytest.fixture
def database(database_url: str) -> Database:
    """An empty database with the tables that handlers use."""
    found = Database(database_url)
    found.make_tables()
    return found
