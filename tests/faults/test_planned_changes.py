"""Real processes of replicated broker groups: switch-overs and rolling restarts under load, without an error for clients (F6)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from qmq import Consumer, Producer
from qmq.node_admin import NodeAdmin
from tests.support.system import System
from tests.support.waiting import eventually, eventually_async


def replication(system: System, node: str) -> dict[str, Any]:
    """What a node reports of its role; empty while it does not answer."""
    name = node.removesuffix("-a")
    try:
        found: dict[str, Any] = system.admin(name, "/stats")["replication"]
    except OSError:
        return {}
    return found


def master_of(system: System, group: str) -> str:
    """The node that serves a group with all of its members in sync; "" while there is none."""
    for node in system.members(group):
        found = replication(system, node)
        if found.get("role") == "master" and len(found.get("in_sync") or ()) == system.copies:
            return node
    return ""


class Load:
    """A producer that sends one message after the other, and a consumer."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.received: set[str] = set()
        self.is_ending = False

    async def produce(self, url: str) -> None:
        async with Producer(url, app="load") as producer:
            while not self.is_ending:
                receipt = await producer.send("orders", {"n": str(len(self.sent))})
                self.sent.append(receipt.message_id)

    async def consume(self, url: str) -> None:
        async with Consumer(url, "orders", "billing", start="earliest") as consumer:
            while not (self.is_ending and self.received >= set(self.sent)):
                for delivery in await consumer.pull(100, timeout=1.0):
                    self.received.add(delivery.message_id)
                    await delivery.ack()

    async def goes_on(self) -> None:
        """Wait until more messages are sent and received."""
        sent, received = len(self.sent), len(self.received)
        await eventually_async(lambda: len(self.sent) > sent + 20 and len(self.received) > received + 20)


@asynccontextmanager
async def loaded(system: System) -> AsyncIterator[Load]:
    """Clients that work during the block. Each send must succeed, and its message must be received."""
    load = Load()
    async with asyncio.TaskGroup() as clients:
        clients.create_task(load.produce(system.meta_url))
        clients.create_task(load.consume(system.meta_url))
        try:
            await load.goes_on()
            yield load
        finally:
            load.is_ending = True


@pytest.fixture
def replicated(new_system: Callable[..., System]) -> System:
    """Two broker groups of two members, all in sync."""
    system = new_system(groups=2, copies=2)
    system.start()
    eventually(lambda: all(master_of(system, group) for group in system.brokers), what="all members are in sync")
    return system


async def in_sync(system: System, group: str, node: str = "") -> str:
    """Wait until a group has all of its members in sync; its master, which is `node` if that is given."""

    def found() -> str:
        master = master_of(system, group)
        return master if master == (node or master) else ""

    return await asyncio.to_thread(eventually, found)


async def test_f6_all_nodes_are_restarted_one_after_the_other(replicated: System) -> None:
    async with loaded(replicated) as load:
        for group in replicated.brokers:
            for process in replicated.members(group).values():
                assert await asyncio.to_thread(process.stop) == 0
                await load.goes_on()
                await asyncio.to_thread(process.start)
                await in_sync(replicated, group)


async def test_an_operator_switches_over_and_back(replicated: System) -> None:
    async with loaded(replicated) as load:
        for _ in range(2):
            master = await in_sync(replicated, "g1")
            _, port = replicated.ports[master.removesuffix("-a")]
            answer = await NodeAdmin(f"127.0.0.1:{port}", timeout_seconds=20).switch_over()
            assert answer["from"] == master
            assert answer["to"] != master
            await in_sync(replicated, "g1", answer["to"])
            await load.goes_on()
