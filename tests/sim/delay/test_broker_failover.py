"""Deliveries while a broker group of several members gets another master."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from delay_node.delay_node import DelayNode
from delay_node.due_lanes import FRAMES_IN_FLIGHT
from delay_node.lanes import FRAME_MESSAGES
from tests.sim.replication.failures import FAILURES, address_of, fail
from tests.sim.replication.groups import Group
from tests.sim.replication.pair import client_of
from tests.sim.world.cluster import Cluster
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import delayed, now_ms
from tests.support.waiting import eventually_async

SUBJECTS = 4
PER_SECOND = 200
SECONDS = 14
FAILED_AFTER_SECONDS = 3.0
CAUGHT_UP_SECONDS = 0.2
"""Within so long of the start of service of the new master, everything that was due is stored there."""


@asynccontextmanager
async def group_and_delay_node(copies: int) -> AsyncIterator[tuple[Group, DelayNode]]:
    async with Cluster(running_loop(), brokers=1, delays=1, copies=copies) as cluster:
        group = Group(cluster)
        if copies > 1:
            await group.in_sync(*group.hosts)
        await cluster.delays["d1"].has_started.wait()
        yield group, delay_node(group)


def delay_node(group: Group) -> DelayNode:
    server = group.cluster.delays["d1"].server
    assert isinstance(server, DelayNode)
    return server


async def schedule(node: DelayNode, begin_ms: int, count: int) -> None:
    """Messages of all subjects, PER_SECOND of them due each second from `begin_ms` on."""
    async with client_of(node) as client:
        for first in range(0, count, 400):
            numbers = range(first, min(first + 400, count))
            batch = [delayed(n, begin_ms + n * 1000 // PER_SECOND, f"s{n % SUBJECTS}") for n in numbers]
            assert not await client.send(*batch)


def stored(group: Group) -> int:
    """Messages that the master has, repeated ones included."""
    return sum(subject.visible_end for subject in group.master.store.subjects.values())


def due_now(begin_ms: int, count: int) -> int:
    """How many of the messages are due."""
    return max(0, min(count, (now_ms() - begin_ms) * PER_SECOND // 1000 + 1))


@pytest.mark.parametrize("failure", FAILURES)
async def test_messages_are_late_by_the_failover_and_not_by_frames_in_flight_to_the_former_master(failure: str) -> None:
    async with group_and_delay_node(copies=3) as (group, node):
        begin_ms, count = now_ms() + 2_000, PER_SECOND * SECONDS
        await schedule(node, begin_ms, count)
        await asyncio.sleep(2.0 + FAILED_AFTER_SECONDS)
        assert stored(group) > 0
        delivered = node.store.counters.delivered
        fail(group.hosts["g1-a"], failure)
        await group.serves("g1-b", "g1-c")
        served_at = running_loop().now
        due = due_now(begin_ms, count)
        assert due - delivered > PER_SECOND, "messages waited for the failover"
        await eventually_async(lambda: node.store.counters.delivered >= due, 60)
        assert running_loop().now - served_at < CAUGHT_UP_SECONDS
        assert node.serving._pool.connected(address_of(group.hosts["g1-a"])) is None
        # From here on they are on time again.
        while now_ms() < begin_ms + SECONDS * 1000:
            on_time = due_now(begin_ms, count)
            await asyncio.sleep(0.1)
            assert node.store.counters.delivered >= on_time
        await eventually_async(lambda: node.store.pending == 0)
        assert count <= stored(group) <= count + FRAMES_IN_FLIGHT * FRAME_MESSAGES, (
            "only what was in flight is repeated"
        )


async def test_a_node_that_has_just_started_delivers_as_soon_as_it_knows_the_routes() -> None:
    async with group_and_delay_node(copies=1) as (group, node):
        begin_ms, count = now_ms() + 2_000, PER_SECOND * 2
        await schedule(node, begin_ms, count)
        host = group.cluster.delays["d1"]
        host.kill()
        await asyncio.sleep(5)
        host.start()
        await host.has_started.wait()
        began = running_loop().now
        await eventually_async(lambda: delay_node(group).store.pending == 0)
        assert running_loop().now - began < CAUGHT_UP_SECONDS
        assert stored(group) == count
