"""A broker group that registers for the first time waits for approval, end to end: sockets, database and API (F-7)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from console.accounts.roles import Role
from console.collector.metadata import MetadataReader
from metaserver.choices import GroupState
from qmq.protocol.codes import BrokerRequestType, ClientType, Command, ResponseCode
from qmq.protocol.extensions import NodePolicyRequest
from spark_analytics.source.node_reader import find_nodes
from tests.served.metaserver.pairs import Pair, SharedRepository, pair
from tests.support.console.people import browser, person
from tests.support.drivers.metaserver_peers import Peer, peer
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async

pytestmark = pytest.mark.django_db(transaction=True)
LIST = "/api/v1/broker-groups/"


async def operate(method: str, path: str) -> Any:
    """An administrator changes something by the API."""

    def call() -> Any:
        with SharedRepository.lock:
            try:
                return getattr(browser(person("root", Role.ADMIN)), method)(path, {"reason": "a test"})
            finally:
                connection.close()

    answer = await asyncio.to_thread(call)
    assert answer.status_code == 200, answer.content
    return answer.json()


async def seconds(both: Pair, node: Peer, count: int) -> list[str]:
    """The node of group `wild` reports each second; the codes of the answers."""
    codes = []
    for _ in range(count):
        answer = await node.register("wild", port=6, request_type=BrokerRequestType.HEARTBEAT)
        codes.append(answer.code)
        await both.step()
        await both.step()
    return codes


async def places() -> list[str]:
    """The nodes that the collector connects to."""

    def read() -> list[str]:
        with SharedRepository.lock:
            try:
                return [place.node_id for place in MetadataReader(ManualClock())._read().places]
            finally:
                connection.close()

    return await asyncio.to_thread(read)


async def test_f7_a_new_group_gets_no_route_at_any_metaserver_until_it_is_approved(tmp_path: Path) -> None:
    async with pair(tmp_path, "approval") as both, peer(both.a) as node, peer(both.a) as client, peer(both.b) as other:
        client.ask("orders", ClientType.PRODUCER)
        other.ask("orders", ClientType.CONSUMER, "g")
        await eventually_async(lambda: both.a.handlers.counters.held + both.b.handlers.counters.held == 2)
        assert set(await seconds(both, node, 5)) == {"broker_group.unapproved"}
        assert client.pushed == other.pushed == []
        assert [m.directory.groups["wild"].state for m in both.running] == [GroupState.OFFLINE] * 2
        assert both.a.handlers.counters.refused_nodes["broker_group.unapproved"] == 5
        # Neither analytics nor the collector learn of its addresses, and its node gets no policy.
        for metaserver in both.running:
            url = "http://{}:{}/meta/address".format(*metaserver.admin.address)
            assert (await asyncio.to_thread(find_nodes, url)).nodes == ()
        assert await places() == []
        question = NodePolicyRequest("wild", "wild-a", "").encode()
        frame = await node.caller.call(Command.NODE_POLICY, question, timeout_s=20)
        assert frame.code == ResponseCode.BROKER_ERROR
        assert (await operate("post", f"{LIST}wild/approve/"))["is_change"]
        assert (await seconds(both, node, 4))[-1] == ""
        await eventually_async(lambda: len(client.pushed) == len(other.pushed) == 1)
        assert client.answers()[0].broker_groups[0].name == other.answers()[0].broker_groups[0].name == "wild"
        assert await places() == ["wild-a"]


@pytest.mark.database
async def test_f7_a_removed_group_waits_again_when_its_node_goes_on(tmp_path: Path) -> None:
    async with pair(tmp_path, "approval") as both, peer(both.a) as node:
        await seconds(both, node, 3)
        await operate("delete", f"{LIST}wild/")
        await both.run(2)
        assert [m.directory.groups for m in both.running] == [{}, {}]
        assert set(await seconds(both, node, 3)) == {"broker_group.unapproved"}


async def test_a_group_announced_by_the_api_serves_with_its_first_registration(tmp_path: Path) -> None:
    def announce() -> int:
        with SharedRepository.lock:
            try:
                body = {"name": "wild", "reason": "new rack"}
                return int(browser(person("root", Role.ADMIN)).post(LIST, body).status_code)
            finally:
                connection.close()

    async with pair(tmp_path, "approval") as both, peer(both.a) as node:
        assert await asyncio.to_thread(announce) == 201
        # Registered before the metaserver has read that it was announced.
        assert (await seconds(both, node, 4))[-1] == ""
        assert both.a.directory.groups["wild"].state is GroupState.READ_WRITE
