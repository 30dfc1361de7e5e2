"""Where a group begins, when other requests for it arrive at the same moment."""

from pathlib import Path

from broker_node.broker import Broker
from qmq.protocol.codes import Command
from qmq.protocol.commands import PullRequest
from qmq.protocol.extensions import EnsureGroupRequest
from tests.sim.broker.connections import FakeConnection
from tests.sim.broker.sends import give
from tests.support.drivers.in_process import connected, message, running_broker
from tests.support.waiting import eventually_async


def ensure(broker: Broker, start: str) -> FakeConnection:
    """Ask for a group, unless it is there."""
    connection = FakeConnection(1)
    give(broker, connection, Command.ENSURE_GROUP, EnsureGroupRequest("orders", "g", start, 0, True, False).encode())
    return connection


async def test_a_pull_that_was_sent_with_the_request_for_its_group_comes_after_it(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(*(message(n) for n in range(5)))
        ensured, pulling = ensure(broker, "earliest"), FakeConnection(2)
        give(broker, pulling, Command.PULL_MESSAGE, PullRequest("orders", "g", "c1", 5, -1, -1, -1, False).encode())
        await eventually_async(lambda: ensured.codes and pulling.codes)
        assert broker.store.subjects["orders"].groups["g"].pulled_total == 5


async def test_a_group_that_is_made_during_the_search_for_another_begin_keeps_its_own(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(*(message(n) for n in range(5)))
        searching = ensure(broker, "time")  # the beginning: all messages are younger
        made = ensure(broker, "latest")
        await eventually_async(lambda: searching.codes and made.codes)
        assert broker.store.subjects["orders"].groups["g"].progress.next_sequence == 5
