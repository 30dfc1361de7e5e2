"""A whole system with its control plane as real processes."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from tests.support.control import ControlPlane
from tests.support.processes import System
from tests.support.services import RedisServer


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with a fresh database, and the token of its administrator: made once, copied for each test."""
    system = System(tmp_path_factory.mktemp("migrated"), groups=0)
    plane = ControlPlane(system, "redis://127.0.0.1:1/0")
    plane.migrate()
    return system.folder, plane.token


@pytest.fixture
def make_plane(
    tmp_path: Path, migrated: tuple[Path, str], redis_server: RedisServer
) -> Iterator[Callable[..., ControlPlane]]:
    """Make a system with its control plane (`groups`, `workers`, `beats`), not started; stopped afterwards."""
    made: list[ControlPlane] = []

    def make(*, groups: int = 2, redis_url: str | None = None, **options: int) -> ControlPlane:
        shutil.copytree(migrated[0] / "meta", tmp_path / "meta")
        url = redis_url or redis_server.url
        with redis.Redis.from_url(url) as stored:
            stored.flushall()  # words that the last system's worker gave back are not this one's
        plane = ControlPlane(System(tmp_path, groups=groups), url, **options)
        plane.token = migrated[1]
        made.append(plane)
        return plane

    yield make
    for plane in made:
        plane.stop()
        plane.system.stop()


@pytest.fixture
def plane(make_plane: Callable[..., ControlPlane]) -> ControlPlane:
    """Two broker groups, the metaserver, console, collector, a worker and beat, started."""
    found = make_plane()
    found.system.start()
    found.start()
    return found


@pytest.fixture
def console_only(make_plane: Callable[..., ControlPlane]) -> ControlPlane:
    """The console's process alone, over an empty database."""
    found = make_plane(groups=0)
    found.console.start()
    return found
