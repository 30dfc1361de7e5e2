"""A delay group that delivers to a broker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from broker_node.broker import Broker
from delay_node.delay_node import DelayNode
from qmq.protocol.messages import Message
from tests.sim.world.cluster import Cluster, Host
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import connected, delayed, now_ms, stored_in
from tests.support.waiting import eventually_async

FIRST = 400
"""The number of the message that comes first."""


@asynccontextmanager
async def delay_group(copies: int = 2) -> AsyncIterator[tuple[Cluster, DelayNode]]:
    """A system with one broker and a delay group, and the master of that, when all members are in sync."""
    async with Cluster(running_loop(), brokers=1, delays=1, copies=copies, delay_copies=copies) as cluster:

        def in_sync() -> bool:
            stored = cluster.database.stored.groups.get("d1")
            return stored is not None and len(stored.membership.in_sync) == copies

        await eventually_async(in_sync, 60)
        master = serving(cluster).server
        assert isinstance(master, DelayNode)
        await eventually_async(lambda: not master.registration.refuse_sends(), 60)
        # From then on the subject has a route.
        async with connected(master) as client:
            assert await client.send(delayed(FIRST, now_ms())) == {}
        await eventually_async(lambda: len(arrived(cluster)) == 1, 60)
        yield cluster, master


def serving(cluster: Cluster) -> Host:
    return cluster.serving_delay_nodes()["d1"]


def arrived(cluster: Cluster) -> list[Message]:
    return stored_in([host.server for host in cluster.serving().values() if isinstance(host.server, Broker)], "orders")
