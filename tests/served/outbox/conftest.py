"""An outbox table, and a producer whose brokers do what a test says."""

from collections.abc import Iterator

import pytest

from qmq.outbox.databases import Address
from qmq.sync import Producer
from tests.support.outbox import Orders, Outcomes, ScriptedProducer

NOWHERE = "127.0.0.1:9"
"""No metaserver listens there."""


@pytest.fixture
def orders(database_url: str) -> Iterator[Orders]:
    """An outbox table and a table of the application in one database."""
    found = Orders(Address.parse(database_url.partition("?")[0]))
    yield found
    found.connection.close()


@pytest.fixture
def outcomes() -> Outcomes:
    return Outcomes()


@pytest.fixture
def scripted() -> ScriptedProducer:
    return ScriptedProducer()


@pytest.fixture
def producer(outcomes: Outcomes, scripted: ScriptedProducer) -> Iterator[Producer]:
    """A started producer; its requests go to `scripted`."""
    with Producer(NOWHERE, app="tests", middleware=[outcomes]) as found:
        found.inner.send_together = scripted.send_together  # type: ignore[method-assign]
        yield found
