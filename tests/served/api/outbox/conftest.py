"""Business databases of each kind, and a control plane that may connect to them. No Redis."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from console.accounts.roles import Role
from tests.support.console.business import Business, in_folder, on_server
from tests.support.console.people import browser, person
from tests.support.servers.threaded_system import ThreadedSystem, threaded_system


@pytest.fixture(autouse=True)
def _allowed(settings: Any, tmp_path: Path) -> None:
    settings.OUTBOX_NETWORKS = ["127.0.0.0/8"]
    settings.OUTBOX_SQLITE_FOLDER = str(tmp_path)


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Business]:
    """A database without tables."""
    if request.param == "sqlite":
        yield in_folder(tmp_path)
        return
    with on_server(request.getfixturevalue(f"{request.param}_server"), f"business_{os.getpid()}") as found:
        yield found


@pytest.fixture
def business(empty: Business) -> Business:
    """A database with an empty outbox."""
    empty.make_tables()
    return empty


@pytest.fixture
def cluster(tmp_path: Path, settings: Any, transactional_db: None) -> Iterator[ThreadedSystem]:
    """A broker group, which relays send to."""
    folder = tmp_path / "nodes"
    folder.mkdir()
    with threaded_system(folder, groups=1) as running:
        settings.META_URL = running.meta_url
        running.save_metadata()
        yield running


@pytest.fixture
def admin(db: None) -> APIClient:
    return browser(person("ada", Role.ADMIN))
