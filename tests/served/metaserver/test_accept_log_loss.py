"""Accepted log loss, end to end: the API stores an operator's decision, and the metaservers that run apply it (F-6)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from console.accounts.roles import Role
from metaserver.choices import GroupState
from metaserver.models import Node
from qmq.protocol.codes import BrokerRequestType
from qmq.protocol.extensions import NodeRegisterResponse
from tests.served.metaserver.pairs import Pair, SharedRepository, pair
from tests.support.console.people import browser, person
from tests.support.drivers.metaserver_peers import Peer, peer

pytestmark = pytest.mark.django_db(transaction=True)

READ_WRITE, READ_ONLY = GroupState.READ_WRITE, GroupState.READ_ONLY
ACCEPT = "/api/v1/nodes/g1-a/accept-log-loss/"


async def accept(log_end: int) -> None:
    """An administrator accepts the loss by the API."""

    def post() -> Any:
        with SharedRepository.lock:
            try:
                body = {"log_end": str(log_end), "reason": "an older copy was restored"}
                return browser(person("root", Role.ADMIN)).post(ACCEPT, body)
            finally:
                connection.close()

    answer = await asyncio.to_thread(post)
    assert answer.status_code == 200, answer.content


async def stored_log_end() -> int:
    """The node's log end in the database."""

    def read() -> int:
        with SharedRepository.lock:
            try:
                return Node.objects.get(node_id="g1-a").log_end
            finally:
                connection.close()

    return await asyncio.to_thread(read)


async def report(both: Pair, node: Peer, log_end: int, seconds: int = 4) -> NodeRegisterResponse:
    """The node reports the same log end each second; the last answer."""
    for _ in range(seconds):
        answer = await node.register("g1", log_end=log_end, request_type=BrokerRequestType.HEARTBEAT)
        await both.step()
        await both.step()
    return answer


@pytest.mark.database
@pytest.mark.parametrize("metaservers", [1, 2])
async def test_f6_an_accepted_log_loss_ends_read_only_at_running_metaservers(tmp_path: Path, metaservers: int) -> None:
    async with pair(tmp_path) as both, peer(both.a) as node:
        if metaservers == 1:
            await both.close(both.b)
        await report(both, node, 5000)
        assert (await report(both, node, 3000)).state == 2
        assert set(both.states()) == {READ_ONLY}
        await accept(3000)
        answer = await report(both, node, 3100)
        assert (answer.accepted, answer.state, answer.reason) == (True, 1, "")
        assert set(both.states()) == {READ_WRITE}
        assert await stored_log_end() == 3100
        assert (await report(both, node, 3050)).state == 2, "the decision is no licence for later losses"
        assert set(both.states()) == {READ_ONLY}


async def test_f6_a_node_that_moves_to_another_metaserver_keeps_its_accepted_log_end(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, peer(both.a) as first, peer(both.b) as second:
        await report(both, first, 5000)
        await report(both, first, 3000)
        await accept(3000)
        # `a` receives no heartbeat after the decision; `b` never received one before it.
        answer = await report(both, second, 3100)
        assert (answer.accepted, answer.state) == (True, 1)
        assert (await report(both, first, 3200)).state == 1
        assert set(both.states()) == {READ_WRITE}


@pytest.mark.database
async def test_f6_a_log_end_written_after_the_decision_does_not_undo_it(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, peer(both.a) as node:
        await both.close(both.b)
        await report(both, node, 5000)
        await report(both, node, 3000)
        await accept(3000)
        # The metaserver has not read the decision yet and stores what it remembers.
        both.a.serving.write_behind.node(both.a.directory.nodes["g1-a"])
        await both.stored(both.a)
        assert await stored_log_end() == 3000
        assert (await report(both, node, 3000)).state == 1
