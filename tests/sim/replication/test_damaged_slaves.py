"""Slaves whose log lacks acknowledged bytes: they read them from other members, or replace the log when that is possible."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NoReturn

import pytest

from broker_node.broker import Broker
from broker_node.storage.subject_table import StorePaths
from qmq.errors import ReadRefused
from qmq.protocol.codes import BrokerRequestType, ReplicaRole
from qmq.protocol.replication import COPY_DAMAGED, ReadRangeRequest
from qmq_node.repair.log_ranges import LogRanges
from qmq_node.replication.slave.state_copy import WAIT_SECONDS
from tests.sim.replication.copying import SETTINGS, Traffic, all_equal, assert_no_failures, in_sync, make_copies_small
from tests.sim.replication.damaging import repaired
from tests.sim.replication.pair import Members, client_of, members
from tests.sim.world.loop import running_loop
from tests.support.waiting import eventually_async


@pytest.fixture(autouse=True)
def small_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    make_copies_small(monkeypatch)


def refuse(ranges: LogRanges, request: ReadRangeRequest) -> NoReturn:
    """As `LogRanges.read` of a member whose log is damaged, too."""
    raise ReadRefused("damaged", code=COPY_DAMAGED)


def segments(group: Members, name: str) -> list[str]:
    """The files of a node's log, oldest first."""
    folder = StorePaths(f"/{name}").log
    return sorted(f"{folder}/{file}" for file in group.hosts[name].disk.list_dir(folder) if file.isdigit())


@asynccontextmanager
async def damaged(place: int = -1) -> AsyncIterator[tuple[Members, Traffic]]:
    """A group of master g1-a and slave g1-b, which does not run, and of which a segment is lost, by default the last one."""
    async with members(running_loop(), in_sync_min=1, **SETTINGS) as group:
        traffic = Traffic()
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        async with client_of(group.broker("g1-a")) as client:
            await traffic.prepare(client)
            await traffic.fill(client, group, "g1-a")
        await group.all_equal()
        # Both checkpoint what they have.
        await asyncio.sleep(3.0)
        host = group.hosts["g1-b"]
        host.kill()
        host.disk.remove(segments(group, "g1-b")[place])
        host.has_damaged_log = True
        yield group, traffic
        assert_no_failures(group)


async def waits(group: Members, why: str) -> Broker:
    """The slave waits for this reason, reports its damage, and leaves its log as it is."""
    files = segments(group, "g1-b")
    slave = group.broker("g1-b")
    await eventually_async(lambda: why in slave.readiness(), 60)
    await asyncio.sleep(2 * WAIT_SECONDS)
    assert why in slave.readiness()
    request = slave.registration.request(BrokerRequestType.HEARTBEAT)
    assert request.replica_role is ReplicaRole.WAITING
    assert "lacks acknowledged bytes from offset" in request.problems[0]
    assert request.log_end == slave.log.written_end
    assert files == segments(group, "g1-b")
    assert slave.folder.replica.state.copying is None
    return slave


@pytest.mark.parametrize("place", [0, -2, -1])
async def test_a_slave_that_lost_a_segment_gets_it_from_the_master(
    place: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with damaged(place) as (group, traffic):
        await in_sync(group, "g1-a")
        await group.start("g1-b")
        await repaired(group, "g1-b")
        await in_sync(group, "g1-a", "g1-b")
        await all_equal(group)
        assert "repaired from g1-a" in caplog.text
        assert "replaces its log by a copy" not in caplog.text
        group.hosts["g1-a"].kill()
        await group.promote("g1-b")
        async with client_of(group.broker("g1-b")) as client:
            await traffic.check(client)


async def test_a_slave_with_damage_at_its_end_that_no_one_can_repair_copies_the_log_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LogRanges, "read", refuse)
    async with damaged() as (group, traffic):
        await in_sync(group, "g1-a")
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        await all_equal(group)
        group.hosts["g1-a"].kill()
        await group.promote("g1-b")
        async with client_of(group.broker("g1-b")) as client:
            await traffic.check(client)


async def test_a_damaged_log_stays_until_the_set_is_without_it_and_the_master_responds() -> None:
    async with damaged() as (group, traffic):
        group.membership.is_available = False
        group.hosts["g1-a"].kill()
        await group.start("g1-b")
        # It could be promoted by an operator: it has most of the messages.
        await waits(group, "its log stays until master g1-a has removed it from the in-sync set")
        group.membership.value = replace(group.membership.value.with_in_sync(frozenset({"g1-a"})))
        # What the set has may be lost: its only member does not respond.
        await waits(group, "it copies the log when the master's state can be read: ")
        await group.start("g1-a")
        await waits(group, "this node does not lead a broker group")
        group.membership.is_available = True
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        await all_equal(group)
        await group.promote("g1-b")
        async with client_of(group.broker("g1-b")) as client:
            await traffic.check(client)


async def test_a_node_with_a_damaged_log_does_not_lead() -> None:
    async with damaged() as (group, _):
        group.membership.is_available = False
        group.hosts["g1-a"].kill()
        await group.start("g1-b")
        group.membership.promote("g1-b")
        await waits(group, "it can't lead epoch 3")
