"""A running system behind the API, and the four people who ask."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from console.accounts.roles import Role, Scope
from metaserver.services import groups
from tests.served.api.nodes.crew import Crew
from tests.served.api.nodes.people import give
from tests.support.console.metadata import broker_group, route
from tests.support.console.people import TESTER, machine, person
from tests.support.servers.threaded_system import ThreadedSystem, threaded_system


@pytest.fixture
def cluster(tmp_path: Path, settings: Any, transactional_db: None) -> Iterator[ThreadedSystem]:
    """Two broker groups and a delay node; the API asks them."""
    with threaded_system(tmp_path, groups=2) as running:
        settings.META_URL = running.meta_url
        running.save_metadata()
        yield running


@pytest.fixture
def crew(cluster: ThreadedSystem) -> Crew:
    """Everybody, with subject `orders` there (ten messages) and owned by team sales."""
    cluster.send("orders", 10)
    cluster.send("free", 1)
    return _crew()


@pytest.fixture
def crew_without_nodes(db: None) -> Crew:
    """As `crew`, with broker group g1 and group `billing` of `orders` in the database only: for requests that are refused
    before a node is asked. A node that is asked all the same is an answer of 503."""
    broker_group("g1")
    for subject in ("orders", "free"):
        route(subject, "g1")
    groups.create_group("orders", "billing", {}, actor=TESTER)
    return _crew()


def _crew() -> Crew:
    give("orders", "sales")
    give("free", "else")
    return Crew(
        machine(person("ada", Role.ADMIN), Scope.ADMIN),
        machine(person("olga", Role.OPERATOR, ["sales"]), Scope.OPERATE),
        machine(person("otto", Role.OPERATOR, ["else"]), Scope.OPERATE),
        machine(person("vera", Role.VIEWER), Scope.READ),
    )
