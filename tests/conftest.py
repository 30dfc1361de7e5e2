"""Shared fixtures, and what belongs to every test: its limit, and the logs of its processes when it fails.

A test whose result depends on the database server is marked `@pytest.mark.database` by hand: services and their transactions,
locks and concurrent writers, migrations, unique constraints, filters and sort orders of lists, text (case, collation, characters),
time zones and precision of times, JSON fields, query plans, and the metaserver's repository. `make test` runs these on SQLite,
PostgreSQL and MariaDB. Tests that only read and write rows on the way (shapes of errors, rights, CSV, webhooks, invalid cursors)
run on SQLite there. Tests that use a database are found by their fixtures and marked `uses_database`; `make test-databases`
runs all of them on both servers.
"""

import functools
import gc
import os
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

from tests.served.conformance.driver import missing_tools
from tests.support.required import is_ci, missing
from tests.support.runner.open_sockets import origins, remember_sockets
from tests.support.servers.processes import LOG_CHARS, PROJECT
from tests.support.servers.services import (
    MariadbServer,
    PostgresqlServer,
    RedisServer,
    Server,
    named_databases,
    own_database,
)
from tests.support.servers.shared import PEOPLE, NewSystems, server_for_tests
from tests.support.servers.system import System
from tests.support.waiting import limited_to

pytest_plugins = ["tests.support.runner.groups"]
remember_sockets()
os.environ.setdefault("QMQ_SECRET_KEY", "a key for tests only")
# In CI the examples follow from the test alone: no change fails on a case that was there before. Elsewhere they are random, and a
# failure prints the blob that reproduces it. No example has a time limit.
hypothesis.settings.register_profile("tests", deadline=None, derandomize=is_ci(), print_blob=True)
hypothesis.settings.load_profile("tests")

NODE_FOLDERS = tuple(PROJECT / "tests/served" / name for name in ("broker", "client", "net"))
"""Tests in these run nodes in this process."""
SERVED_SETTINGS = {"QMQ_TRUSTED_ORIGINS": "https://console.example"}
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


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt modules and tests from garbage collection: these half a million objects last, and going through them again and again
    took a third of the collection of tests and a tenth of the run on MariaDB."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_finish() -> None:
    """Give tests the usual umask, since importing console.asgi, as a web server does, restricts it; and SIGINT its usual meaning: a
    shell ignores it for jobs in its background, and so would all programs of the tests."""
    os.umask(0o022)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _state_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep lock files of consumers out of the user's own folder, also those of processes that tests start."""
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("state"))


@pytest.fixture(autouse=True)
def _collected(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collect what a node's test left in cycles: a socket left open fails this test, not the one of the next collection."""
    if not any(folder in request.path.parents for folder in NODE_FOLDERS):
        yield
        return
    # What tests before left in cycles is not this test's. What lives now isn't looked at again: most of it lasts.
    gc.collect()
    gc.freeze()
    yield
    gc.collect()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Make the limit of a test the deadline of what it waits for."""
    mark = item.get_closest_marker("timeout")
    seconds = mark.args[0] if mark is not None and mark.args else item.config.getini("timeout")
    with limited_to(float(seconds)):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the end of each process's log, and where an unclosed socket was made, to the report of a failed test."""
    report = yield
    if report.failed:
        if made := origins(report.longreprtext):
            report.sections.append(("where the socket was made", made))
        values = getattr(item, "funcargs", {}).values()
        systems = [value for value in values if isinstance(value, System)]
        systems += [system for value in values if isinstance(value, NewSystems) for system in value.made]
        for process in (process for system in dict.fromkeys(systems) for process in system.processes):
            if log := process.log():
                report.sections.append((f"the end of {process.name}'s log", log[-LOG_CHARS:]))
    return report


@pytest.fixture
def new_system(tmp_path: Path) -> Iterator[NewSystems]:
    """Create a system of the test's own, not started: `new_system(groups=1, console=True)`."""
    with NewSystems(tmp_path) as create:
        yield create


@pytest.fixture
def system(new_system: NewSystems) -> System:
    """A metaserver and two broker groups of the test's own, started."""
    found = new_system()
    found.start()
    return found


@pytest.fixture
def make_plane(new_system: NewSystems) -> Callable[..., System]:
    """Create a system with its control plane (other parts of `System` may be given), not started."""
    return functools.partial(new_system, console=True, workers=1, beats=1)


@pytest.fixture
def plane(make_plane: Callable[..., System]) -> System:
    """Two broker groups, the metaserver, console, collector, a worker and beat, of the test's own and started."""
    found = make_plane()
    found.start()
    return found


@pytest.fixture
def console_only(make_plane: Callable[..., System]) -> System:
    """The console's process alone, over an empty database."""
    found = make_plane(groups=0)
    found.prepare()
    found.console.start()
    return found


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """The long-lived system of this run: metaserver, two broker groups, a delay group. A test uses subjects of its own, and starts
    again what it stops."""
    with NewSystems(tmp_path_factory.mktemp("served")) as create:
        found = create(delays=1, console=True, people=PEOPLE, settings=SERVED_SETTINGS)
        found.start_nodes()
        yield found


@pytest.fixture(scope="session")
def served_console(served: System) -> System:
    """The long-lived system, with its console, a collector and a Redis, and with PEOPLE."""
    served.start_control()
    return served


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
