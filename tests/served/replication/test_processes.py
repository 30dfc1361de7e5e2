"""Broker groups of two members as processes: their master is killed, paused and stopped while clients send and consume."""

import asyncio
import json
import signal
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from qmq import Consumer, Producer, Timeouts
from tests.support.servers.system import System
from tests.support.waiting import ASK_SECONDS, eventually, eventually_async

TIMEOUTS = Timeouts(connect=1.0, send=2.0, ack=2.0, delivery=60.0)
SENDERS = 10


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    found = System(tmp_path, groups=1, copies=2, broker_flags=("--retry-delay-seconds", "0.2"))
    try:
        found.start()
        yield found
    finally:
        found.close()


def stats(system: System, node: str) -> dict[str, Any]:
    """The page of a member; {} while it does not respond."""
    name = "g1" if node == "g1-a" else node
    with (
        suppress(OSError),
        urllib.request.urlopen(f"http://127.0.0.1:{system.ports[name][1]}/stats", timeout=5) as page,
    ):
        found: dict[str, Any] = json.load(page)
        return found
    return {}


async def has_roles(system: System, **roles: str) -> None:
    """Wait until members have these roles: `a="master"`."""

    def have() -> bool:
        return [stats(system, f"g1-{letter}").get("role") for letter in roles] == list(roles.values())

    await asyncio.to_thread(eventually, have, what=str(roles), every_s=ASK_SECONDS)


async def master_and_slave(system: System) -> tuple[str, str]:
    """The letters of both members, once the slave is in sync. Which node registered first is the master."""

    def found() -> list[str]:
        roles = {stats(system, f"g1-{letter}").get("role"): letter for letter in "ab"}
        return [roles["master"], roles["in_sync"]] if roles.keys() == {"master", "in_sync"} else []

    master, slave = await asyncio.to_thread(eventually, found, what="a master and a slave in sync", every_s=ASK_SECONDS)
    return master, slave


@dataclass
class Traffic:
    """What clients sent and received."""

    sent: list[str] = field(default_factory=list)
    """Message IDs that were acknowledged."""
    received: Counter[str] = field(default_factory=Counter)

    async def flows(self, count: int = 200) -> None:
        """Wait until so many further messages were sent and received."""
        sent, received = len(self.sent) + count, len(self.received) + count
        await eventually_async(lambda: len(self.sent) >= sent and len(self.received) >= received, what="messages flow")


@asynccontextmanager
async def traffic(system: System) -> AsyncIterator[Traffic]:
    """Clients that send and consume all the time. No send fails, and in the end everything has been received."""
    found, stop = Traffic(), asyncio.Event()

    async def produce(producer: Producer) -> None:
        while not stop.is_set():
            found.sent.append((await producer.send("orders", {"number": len(found.sent)})).message_id)

    async def consume(consumer: Consumer) -> None:
        while True:
            for delivery in await consumer.pull(100, timeout=0.2):
                found.received[delivery.message_id] += 1
                await delivery.ack()

    async with (
        Producer(system.meta_url, app="test", timeouts=TIMEOUTS) as producer,
        Consumer(system.meta_url, "orders", "group", start="earliest", timeouts=TIMEOUTS) as consumer,
    ):
        consuming = asyncio.create_task(consume(consumer))
        producing = [asyncio.create_task(produce(producer)) for _ in range(SENDERS)]
        await found.flows()
        yield found
        stop.set()
        await asyncio.gather(*producing)
        await eventually_async(lambda: not set(found.sent) - set(found.received), what="all is received")
        consuming.cancel()


async def test_nothing_is_lost_when_a_master_is_killed_and_returns(system: System) -> None:
    master, slave = await master_and_slave(system)
    async with traffic(system) as clients:
        for old, new in ((master, slave), (slave, master)):
            system.members("g1")[f"g1-{old}"].kill()
            await has_roles(system, **{new: "master"})
            # Two copies are required: messages that were sent meanwhile wait for the old master.
            system.members("g1")[f"g1-{old}"].start(wait=False)
            await has_roles(system, **{new: "master", old: "in_sync"})
            await clients.flows()


async def test_no_send_fails_when_members_are_stopped_one_after_the_other(system: System) -> None:
    master, slave = await master_and_slave(system)
    async with traffic(system) as clients:
        for old, new in ((master, slave), (slave, master)):
            process = system.members("g1")[f"g1-{old}"]
            assert await asyncio.to_thread(process.stop) == 0
            assert f"node g1-{new} leads epoch" in process.log(), "the slave was promoted before the master stopped"
            await has_roles(system, **{new: "master"})
            process.start(wait=False)
            await has_roles(system, **{new: "master", old: "in_sync"})
            await clients.flows()


async def test_a_master_that_stood_still_follows_and_nothing_is_lost(system: System) -> None:
    master, slave = await master_and_slave(system)
    async with traffic(system) as clients:
        process = system.members("g1")[f"g1-{master}"]
        process.signal(signal.SIGSTOP)
        await has_roles(system, **{slave: "master"})
        process.signal(signal.SIGCONT)
        await has_roles(system, **{slave: "master", master: "in_sync"})
        await clients.flows()
