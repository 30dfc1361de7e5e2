"""Whole systems that clients of our library use without a pause."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from qmq import Consumer, Producer
from tests.sim.replication.groups import Group
from tests.sim.world.cluster import Cluster
from tests.sim.world.loop import running_loop
from tests.support.waiting import eventually_async


class Traffic:
    """A producer and a consumer that never pause."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.received: set[str] = set()
        self.longest = 0.0
        """The longest time that one send took."""
        self.is_ending = False

    async def produce(self, url: str) -> None:
        async with Producer(url) as producer:
            while not self.is_ending:
                number, began = len(self.sent), running_loop().now
                receipt = await producer.send("orders", {"number": number})
                self.longest = max(self.longest, running_loop().now - began)
                self.sent.append(receipt.message_id)

    async def consume(self, url: str) -> None:
        async with Consumer(url, "orders", "g", start="earliest") as consumer:
            async for delivery in consumer:
                async with delivery:
                    self.received.add(delivery.message_id)
                if self.is_ending and self.received >= set(self.sent):
                    return


@asynccontextmanager
async def system(groups: int, copies: int = 2) -> AsyncIterator[tuple[Cluster, Traffic]]:
    """A system whose groups have all their members in sync, used by clients. What was sent must be received."""
    async with Cluster(running_loop(), brokers=groups, delays=0, copies=copies) as cluster:
        for name in cluster.brokers:
            group = Group(cluster, name)
            await group.in_sync(*group.hosts)
        traffic = Traffic()
        producing = asyncio.create_task(traffic.produce(cluster.meta_url))
        consuming = asyncio.create_task(traffic.consume(cluster.meta_url))
        try:
            await eventually_async(lambda: len(traffic.received) > 100 or producing.done() or consuming.done(), 60)
            yield cluster, traffic
            await asyncio.sleep(2.0)
        finally:
            traffic.is_ending = True
            await producing
            await asyncio.wait_for(consuming, 300)
