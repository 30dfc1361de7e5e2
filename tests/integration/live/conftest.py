"""One live system for the tests that leave it as it was; a fresh one for those that break it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import server_for_tests
from tests.support.live import LiveSystem
from tests.support.services import RedisServer, Server, named_databases

ACCOUNTS = {
    "viewer": "viewer",
    "operator": "operator",
    "admin": "admin",
    "disabled": "operator",
    "signed-out": "admin",
    "ended": "admin",
    "idle": "viewer",
    "new-password": "viewer",
}


@pytest.fixture(scope="session")
def live_redis() -> Iterator[Server]:
    """A Redis of these tests' own: some flush it."""
    yield from server_for_tests(RedisServer, is_required=bool(named_databases()))


@pytest.fixture(scope="session")
def live(live_redis: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSystem]:
    """The system. A test that stops something starts it again."""
    folder: Path = tmp_path_factory.mktemp("live")
    found = LiveSystem(folder, live_redis, ACCOUNTS)
    try:
        found.start()
        yield found
    finally:
        found.stop()
