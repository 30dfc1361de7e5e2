"""Delay groups whose master changes while messages fall due: nothing early, nothing lost, and what may be repeated."""

import asyncio
from collections import Counter

import pytest

from delay_node.delay_node import DelayNode
from delay_node.due_lanes import FRAMES_IN_FLIGHT
from qmq.protocol.delayed import DelayedTarget, Operation, Outcome
from qmq.protocol.messages import Message
from tests.sim.replication.delivering import arrived, delay_group, serving
from tests.sim.world.cluster import Cluster
from tests.support.drivers.in_process import connected, delayed, now_ms
from tests.support.waiting import eventually_async

COUNT = 400
SPREAD_MS = 4_000
"""Messages fall due over this time; the master changes in the middle."""


async def scheduled(master: DelayNode) -> list[Message]:
    """Have messages scheduled that fall due over SPREAD_MS, from a second on."""
    begin = now_ms() + 1_000
    sent = [delayed(number, begin + number * SPREAD_MS // COUNT) for number in range(COUNT)]
    async with connected(master) as client:
        assert await client.send(*sent) == {}
    return sent


async def watched(cluster: Cluster, sent: list[Message], within_ms: int) -> Counter[str]:
    """Wait until all messages have arrived: none early, none later than this. How often each one did."""
    due, seen = {message.message_id: message.time_ms for message in sent}, set[str]()
    while len(seen) < len(sent):
        now = now_ms()
        for message in arrived(cluster):
            if message.message_id in due and message.message_id not in seen:
                seen.add(message.message_id)
                late = now - due[message.message_id]
                assert 0 <= late <= within_ms, f"{message.message_id} came {late} ms after its time"
        assert now < max(due.values()) + 60_000, f"{len(seen)} of {len(sent)} have arrived"
        await asyncio.sleep(0.01)
    return Counter(message.message_id for message in arrived(cluster) if message.message_id in due)


def slow_down(cluster: Cluster) -> None:
    """From now on frames are on their way to the broker at any moment."""
    for host in cluster.members("g1").values():
        host.weather.sync_seconds = 0.2


async def test_a_switch_over_repeats_nothing_and_delays_little() -> None:
    async with delay_group() as (cluster, master):
        sent = await scheduled(master)
        slow_down(cluster)
        watching = asyncio.create_task(watched(cluster, sent, 2_000))
        await asyncio.sleep(1.0 + SPREAD_MS / 2000)
        switching = asyncio.create_task(master.replication.switch_over(""))
        counts = await watching
        await switching
        assert serving(cluster).server is not master
        assert set(counts.values()) == {1}


async def test_a_master_that_stops_repeats_nothing() -> None:
    async with delay_group() as (cluster, master):
        sent, host = await scheduled(master), serving(cluster)
        slow_down(cluster)
        watching = asyncio.create_task(watched(cluster, sent, 2_000))
        await asyncio.sleep(1.0 + SPREAD_MS / 2000)
        stopping = asyncio.create_task(host.stop())
        counts = await watching
        await stopping
        assert serving(cluster) is not host
        assert set(counts.values()) == {1}


@pytest.mark.parametrize("copies", [2, 3])
async def test_a_killed_master_repeats_only_what_was_on_its_way(copies: int) -> None:
    async with delay_group(copies) as (cluster, master):
        sent, host = await scheduled(master), serving(cluster)
        watching = asyncio.create_task(watched(cluster, sent, 10_000))
        await asyncio.sleep(1.0 + SPREAD_MS / 2000)
        host.kill()
        counts = await watching
        assert serving(cluster) is not host
        again = [name for name, count in counts.items() if count > 1]
        assert max(counts.values()) <= 2
        assert len(again) <= FRAMES_IN_FLIGHT * 500
        host.start()
        await eventually_async(lambda: len(cluster.database.stored.groups["d1"].membership.in_sync) == copies, 30)


async def test_what_is_claimed_is_too_late_to_cancel_after_a_failover() -> None:
    """The claim is on every member of the set before anything is sent."""
    async with delay_group() as (cluster, master):
        (broker,) = cluster.serving().values()
        due = now_ms() + 1_000
        async with connected(master) as client:
            assert await client.send(delayed(1, due), delayed(2, due + 3_600_000)) == {}
        assert broker.process is not None
        broker.process.pause()
        # The frame has left.
        await eventually_async(lambda: master.serving.dispatcher.sender.counters.batches == 2, 10)
        serving(cluster).kill()

        def successor() -> DelayNode | None:
            found = serving(cluster).server
            return found if isinstance(found, DelayNode) and found is not master and found.is_ready else None

        await eventually_async(lambda: successor() is not None, 30)
        node = successor()
        assert node is not None
        async with connected(node) as client:
            (late,) = await client.change(Operation.CANCEL, DelayedTarget("m1", "orders", due))
            (done,) = await client.change(Operation.CANCEL, DelayedTarget("m2", "orders", due + 3_600_000))
        assert (late.outcome, done.outcome) == (Outcome.TOO_LATE, Outcome.DONE)
        broker.process.resume()
        await eventually_async(lambda: "m1" in {message.message_id for message in arrived(cluster)}, 60)


async def test_nothing_is_sent_before_all_in_sync_members_have_the_claim() -> None:
    async with delay_group() as (cluster, master):
        slave = next(host for host in cluster.delay_nodes if host.server is not master)
        async with connected(master) as client:
            assert await client.send(delayed(1, now_ms() + 500)) == {}
        cluster.network.cut(serving(cluster).name, slave.name)
        await asyncio.sleep(1.5)
        assert len(cluster.database.stored.groups["d1"].membership.in_sync) == 2
        assert len(arrived(cluster)) == 1, "only what was sent before"
        cluster.network.heal()
        await eventually_async(lambda: len(arrived(cluster)) == 2, 60)
