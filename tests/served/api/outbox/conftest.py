"""Business databases of each kind, and a control plane that may connect to them. No Redis."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from rest_framework.test import APIClient

from console.accounts.roles import Role
from tests.support.console.business import Business, in_folder, on_server
from tests.support.console.people import browser, person


@pytest.fixture(autouse=True)
def _allowed(settings: object, tmp_path: Path) -> None:
    settings.OUTBOX_NETWORKS = ["127.0.0.0/8"]  # type: ignore[attr-defined]
    settings.OUTBOX_SQLITE_FOLDER = str(tmp_path)  # type: ignore[attr-defined]


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
def admin(db: None) -> APIClient:
    return browser(person("ada", Role.ADMIN))
