"""Nodes that become members of a group, or replace its only one: the membership is changed in the database before they
are answered."""

import asyncio
from pathlib import Path

import pytest

from metaserver.choices import GroupKind
from metaserver.requests.handlers import node_lines
from metaserver.server import Metaserver
from qmq.protocol.codes import ClientType
from qmq_testing.repository import MemoryRepository
from tests.sim.metaserver.repositories import FaultyRepository
from tests.support.drivers.in_process import get_json
from tests.support.drivers.metaserver_peers import peer, running
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async


async def stored_group(metaserver: Metaserver, repository: MemoryRepository) -> None:
    """Wait until the group of the first node is stored."""
    await eventually_async(lambda: "g1" in repository.groups)


@pytest.mark.parametrize("kind", GroupKind)
async def test_an_empty_node_is_stored_as_a_member_before_it_is_answered(tmp_path: Path, kind: GroupKind) -> None:
    repository = FaultyRepository()
    async with running(tmp_path, ManualClock(), repository) as metaserver, peer(metaserver) as node:
        await node.register("g1", kind=kind, boot_id="a")
        await stored_group(metaserver, repository)
        async with peer(metaserver) as slave:
            answer = await slave.register("g1", "g1-b", kind=kind, port=2, boot_id="b", state=4)
        assert (answer.accepted, answer.reason) == (True, "")
        assert answer.membership is not None
        assert answer.membership.members == ("g1-a", "g1-b")
        assert repository.groups["g1"].membership.members == ("g1-a", "g1-b")
        assert metaserver.serving.membership_changes.counters.changes == 1


async def test_a_node_waits_as_a_spare_while_the_database_is_away(tmp_path: Path) -> None:
    repository = FaultyRepository()
    async with running(tmp_path, ManualClock(), repository) as metaserver, peer(metaserver) as node:
        await node.register("g1", boot_id="a")
        await stored_group(metaserver, repository)
        repository.is_away = True
        async with peer(metaserver) as slave:
            answer = await slave.register("g1", "g1-b", port=2, boot_id="b", state=4)
            assert (answer.accepted, answer.state) == (True, 4)
            assert "the change of the group's membership is not stored yet" in answer.reason
            assert (await node.register("g1", boot_id="a")).state == 1, "the master serves on"
            repository.is_away = False
            answer = await slave.register("g1", "g1-b", port=2, boot_id="b", state=4)
            assert answer.reason == ""
        assert metaserver.serving.membership_changes.counters.unavailable == 1


async def test_a_change_whose_reply_was_lost_is_found_done(tmp_path: Path) -> None:
    repository = FaultyRepository()
    async with running(tmp_path, ManualClock(), repository) as metaserver, peer(metaserver) as node:
        await node.register("g1", boot_id="a")
        await stored_group(metaserver, repository)
        repository.loses_replies = True
        async with peer(metaserver) as slave:
            answer = await slave.register("g1", "g1-b", port=2, boot_id="b", state=4)
        assert (answer.accepted, answer.reason) == (True, "")
        assert repository.groups["g1"].membership.version == 1


async def test_of_two_nodes_that_two_metaservers_add_one_becomes_a_member(tmp_path: Path) -> None:
    repository, clock = FaultyRepository(), ManualClock()
    async with (
        running(tmp_path / "1", clock, repository) as one,
        running(tmp_path / "2", clock, repository) as other,
        peer(one) as master,
        peer(other) as master_too,
    ):
        await master.register("g1", boot_id="a")
        await stored_group(one, repository)
        await master_too.register("g1", boot_id="a")
        async with peer(one) as b, peer(other) as c:
            answers = await asyncio.gather(
                b.register("g1", "g1-b", port=2, boot_id="b", state=4),
                c.register("g1", "g1-c", port=3, boot_id="c", state=4),
            )
        memberships = [answer.membership for answer in answers]
        assert all(answer.accepted for answer in answers)
        assert all(
            membership is not None and membership.members == repository.groups["g1"].membership.members
            for membership in memberships
        )
        assert len(repository.groups["g1"].membership.members) == 2
        assert sum("has all of its 2 copies" in answer.reason for answer in answers) == 1


async def test_the_replacement_of_the_only_member_is_stored_before_it_serves(tmp_path: Path) -> None:
    repository, clock = FaultyRepository(), ManualClock()
    async with running(tmp_path, clock, repository) as metaserver, peer(metaserver) as node:
        await node.register("g1")
        await stored_group(metaserver, repository)
        clock.advance(20)
        repository.is_away = True
        async with peer(metaserver) as other:
            refused = await other.register("g1", "g1-b", port=2)
            assert (refused.accepted, refused.code) == (False, "node.group_taken")
            assert "its replacement by this node is not stored yet" in refused.reason
            assert "g1-b" not in repository.groups["g1"].membership.members
            repository.is_away = False
            assert (await other.register("g1", "g1-b", port=2)).state == 1
        stored = repository.groups["g1"].membership
        assert (stored.master, stored.members, stored.in_sync, stored.epoch) == ("g1-b", ("g1-b",), ("g1-b",), 2)


async def test_clients_get_the_address_of_a_delay_groups_master_only(tmp_path: Path) -> None:
    repository, kind = FaultyRepository(), GroupKind.DELAY
    async with (
        running(tmp_path, ManualClock(), repository, copies=3) as metaserver,
        peer(metaserver) as master,
        peer(metaserver) as b,
        peer(metaserver) as c,
        peer(metaserver) as producer,
        peer(metaserver) as consumer,
    ):
        await master.register("g1", kind=kind, boot_id="a")
        await stored_group(metaserver, repository)
        await b.register("g1", "g1-b", kind=kind, port=2, boot_id="b", state=4)
        await c.register("g1", "g1-c", kind=kind, port=3, boot_id="c", state=4)
        assert repository.groups["g1"].membership.members == ("g1-a", "g1-b", "g1-c")
        producer.ask("orders", ClientType.DELAY_PRODUCER)
        await eventually_async(lambda: len(producer.pushed) == 1)
        (answer,) = producer.answers()
        assert [group.master for group in answer.broker_groups] == ["10.0.0.1:1"]
        _, page = await get_json(metaserver, "/meta/delay-groups")
        assert [group["address"] for group in page["delay_groups"]] == ["10.0.0.1:1"]
        lines = node_lines(metaserver.directory, 0)
        assert [(line.node_id, line.role) for line in lines] == [
            ("g1-a", "master"),
            ("g1-b", "slave"),
            ("g1-c", "slave"),
        ]
        consumer.ask("orders", ClientType.CONSUMER, "g")
        await eventually_async(lambda: metaserver.handlers.counters.held == 1)
        assert metaserver.directory.route_of("orders")[0] is None, "a delay group serves no subject"
