"""Shared fixtures; a failing test prints where its processes wrote.

A test whose result depends on the database server is marked `@pytest.mark.database` by hand: services and their transactions,
locks and concurrent writers, migrations, unique constraints, filters and sort orders of lists, text (case, collation, characters),
time zones and precision of times, JSON fields, query plans, and the metaserver's repository. `make test` runs these on SQLite,
PostgreSQL and MariaDB. Tests that only read and write rows on the way (shapes of errors, rights, CSV, webhooks, invalid cursors)
run on SQLite there. Tests that use a database are found by their fixtures and marked `uses_database`; `make test-databases`
runs all of them on both servers.
"""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.conformance.driver import missing_tools
from tests.support.processes import PROJECT, System
from tests.support.required import is_ci, missing
from tests.support.services import (
    MariadbServer,
    PostgresqlServer,
    RedisServer,
    Server,
    ServerMissing,
    named_databases,
    own_database,
    running,
)

pytest_plugins = ["tests.support.groups"]
os.environ.setdefault("QMQ_SECRET_KEY", "a key for tests only")
# In CI the examples follow from the test alone: no change fails on a case that was there before. Elsewhere they are random, and a
# failure prints the blob that reproduces it. No example has a time limit.
hypothesis.settings.register_profile("tests", deadline=None, derandomize=is_ci(), print_blob=True)
hypothesis.settings.load_profile("tests")

NODE_FOLDERS = tuple(
    PROJECT / "tests" / name
    for name in ("fault", "integration/broker", "integration/client", "integration/delay", "integration/net")
)
"""Tests in these run nodes in this process."""
DATABASE_FIXTURES = {"db", "transactional_db", "django_db_reset_sequences", "database_url"}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only files with marked tests when just these are selected: the run on each server starts 10 s earlier."""
    if config.option.markexpr != "database" or not collection_path.match("test_*.py"):
        return None
    return "pytest.mark.database" not in collection_path.read_text() or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that uses a database; refuse the mark `database` on one that uses none."""
    for item in items:
        if item.get_closest_marker("django_db") or not DATABASE_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("uses_database")
        elif item.get_closest_marker("database"):
            raise pytest.UsageError(f"{item.nodeid} has the mark `database` and uses no database")


def pytest_collection_finish() -> None:
    """Give tests the usual umask: importing console.asgi, as a web server does, restricts it."""
    os.umask(0o022)


@pytest.fixture(scope="session", autouse=True)
def _state_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep lock files of consumers out of the user's own folder, also those of processes that tests start."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True)
def _collected(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect what a node's test left in cycles: a socket left open fails this test, not the one of the next collection."""
    yield
    if any(folder in request.path.parents for folder in NODE_FOLDERS):
        gc.collect()


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    """A metaserver and two broker groups as real processes on free ports; stopped afterwards."""
    found = System(tmp_path)
    try:
        found.start()
        yield found
    finally:
        found.stop()


@pytest.fixture
def database_url(tmp_path: Path) -> Iterator[str]:
    """An empty database for a test's own processes: on the server this run is on, else a SQLite file.

    Tests that use Django's models in this process take pytest-django's `db` and `transactional_db` instead.
    """
    url = os.environ.get("QMQ_DATABASE_URL", "")
    if not url or url.startswith("sqlite"):
        yield f"sqlite:///{tmp_path}/own.sqlite3"
        return
    with own_database(url, f"qmq_own_{os.getpid()}") as own:
        yield own


def server_for_tests(kind: type[Server], *, is_required: bool) -> Iterator[Server]:
    """A running server; without it the test fails when it is required or in CI, else it is skipped."""
    try:
        with running(kind) as server:
            yield server
    except ServerMissing as error:
        missing(str(error), is_required=is_required)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Server]:
    """A Redis of this run; a test that breaks it does so with `paused()` or `stopped()`."""
    yield from server_for_tests(RedisServer, is_required=bool(named_databases()))


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Server]:
    """A PostgreSQL to break; tests that only need a database take `database_url` or pytest-django's fixtures."""
    yield from server_for_tests(PostgresqlServer, is_required="postgresql" in named_databases())


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[Server]:
    """A MariaDB to break; as `postgresql_server`."""
    yield from server_for_tests(MariadbServer, is_required="mariadb" in named_databases())


@pytest.fixture(scope="session")
def java_tools() -> None:
    """Maven and Java, which the official Java client is built and run with."""
    if lacking := missing_tools():
        missing(lacking)
