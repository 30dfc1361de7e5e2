"""Consumer groups that a broker requests from a metaserver."""

import asyncio
from pathlib import Path

import pytest

from metaserver.domain import ClientSeen, Route, StoredConsumerGroup
from metaserver.requests.known_groups import PAGES_MAX
from metaserver.stored.write_behind import WriteBehind
from qmq.protocol.codes import ClientType, Command, ResponseCode
from qmq.protocol.extensions import KnownGroupsRequest, KnownGroupsResponse
from tests.sim.metaserver.repositories import FaultyRepository
from tests.support.drivers.metaserver_peers import Peer, peer, running
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async


async def requested(node: Peer, group: str, node_id: str, after: int = 0) -> KnownGroupsResponse | int:
    """The answer, or its code."""
    frame = await node.caller.call(
        Command.KNOWN_GROUPS, KnownGroupsRequest(group, node_id, after).encode(), timeout_s=20
    )
    return KnownGroupsResponse.decode(frame.body) if frame.code == ResponseCode.SUCCESS else frame.code


def consumer(subject: str, group: str) -> ClientSeen:
    return ClientSeen(subject, ClientType.CONSUMER, group, "c1", "")


async def test_only_a_node_of_the_group_gets_its_consumer_groups(tmp_path: Path) -> None:
    repository = FaultyRepository()
    repository.routes["orders"] = Route("orders", ("g1",), 1, 0)
    repository.routes["parts"] = Route("parts", ("g2",), 1, 0)
    repository.clients |= {
        consumer("orders", "billing"),
        consumer("parts", "stock"),
        ClientSeen("orders", ClientType.PRODUCER, "p", "c1", ""),
    }
    async with (
        running(tmp_path, ManualClock(), repository) as metaserver,
        peer(metaserver) as node,
        peer(metaserver) as other,
    ):
        assert isinstance(await requested(node, "g1", "g1-a"), int), "it has not registered"
        await node.register("g1", boot_id="a")
        await eventually_async(lambda: "g1" in repository.groups)
        assert await requested(node, "g1", "g1-a") == KnownGroupsResponse("g1", groups=(("orders", "billing"),))
        for group, node_id in (("g2", "g1-a"), ("g1", "g1-b"), ("g9", "g9-a")):
            assert isinstance(await requested(node, group, node_id), int)
        assert isinstance(await requested(other, "g1", "g1-a"), int), "on another connection"


async def test_without_the_database_the_answer_says_so(tmp_path: Path) -> None:
    repository = FaultyRepository()
    async with running(tmp_path, ManualClock(), repository) as metaserver, peer(metaserver) as node:
        await node.register("g1", boot_id="a")
        await eventually_async(lambda: "g1" in repository.groups)
        repository.is_away = True
        answer = await requested(node, "g1", "g1-a")
        assert answer == KnownGroupsResponse(
            "g1", problem="the database, which has the consumer groups, does not respond"
        )


async def test_registrations_that_are_not_stored_yet_count(tmp_path: Path) -> None:
    repository = FaultyRepository()
    repository.routes["orders"] = Route("orders", ("g1",), 1, 0)
    repository.clients.add(consumer("orders", "billing"))
    async with running(tmp_path, ManualClock(), repository) as metaserver, peer(metaserver) as node:
        await node.register("g1", boot_id="a")
        await eventually_async(lambda: "g1" in repository.groups)
        queued = metaserver.serving.write_behind._clients
        queued |= {consumer("orders", "new"): None, consumer("orders", "billing"): None, consumer("parts", "x"): None}
        answer = await requested(node, "g1", "g1-a")
        assert answer == KnownGroupsResponse("g1", groups=(("orders", "billing"), ("orders", "new")))


async def test_pages_under_way_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository, responds = FaultyRepository(), asyncio.Event()

    async def slow(*_: int) -> list[StoredConsumerGroup]:
        await responds.wait()
        return []

    monkeypatch.setattr(WriteBehind, "consumer_groups", slow)
    async with running(tmp_path, ManualClock(), repository) as metaserver, peer(metaserver) as node:
        await node.register("g1", boot_id="a")
        await eventually_async(lambda: "g1" in repository.groups)
        requests = [asyncio.create_task(requested(node, "g1", "g1-a")) for _ in range(PAGES_MAX + 1)]
        refused, admitted = await asyncio.wait(requests, return_when=asyncio.FIRST_COMPLETED)
        busy = KnownGroupsResponse("g1", problem=f"busy: it reads {PAGES_MAX} pages, the maximum")
        assert [task.result() for task in refused] == [busy]
        responds.set()
        assert await asyncio.gather(*admitted) == [KnownGroupsResponse("g1")] * PAGES_MAX
        assert await requested(node, "g1", "g1-a") == KnownGroupsResponse("g1"), "what has ended does not count"
