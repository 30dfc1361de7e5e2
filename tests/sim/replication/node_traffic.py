"""Clients of the bare protocol that use one broker group without a pause."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from qmq.errors import ConnectionLost
from tests.sim.replication.pair import Members, client_of, stored
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import Client, message

BEFORE = 0.5
"""Seconds for which clients work before a switch-over."""


class Traffic:
    """Clients that send and pull without a pause, at whichever node serves. A lost connection is opened again, as clients do."""

    def __init__(self, group: Members) -> None:
        self._group = group
        self.acknowledged: list[str] = []
        self.pulled: set[str] = set()
        self.longest = 0.0
        """The longest time between two acknowledged sends."""
        self.lost = 0
        """Connections that ended."""
        self.is_ending = False

    async def _at_master(self, work: Callable[[Client], object]) -> None:
        while not self.is_ending:
            master = next((name for name in self._group.hosts if self._group.is_master(name)), None)
            if master is not None:
                try:
                    async with client_of(self._group.broker(master)) as client:
                        await work(client)  # type: ignore[misc]
                except ConnectionLost:
                    self.lost += 1
            await asyncio.sleep(0.01)

    async def send(self) -> None:
        """Send message after message, each until it is acknowledged. None may be rejected."""
        at = running_loop().now
        number = 0

        async def work(client: Client) -> None:
            nonlocal at, number
            while not self.is_ending:
                assert await client.send(message(number)) == {}
                self.longest, at = max(self.longest, running_loop().now - at), running_loop().now
                self.acknowledged.append(f"m{number}")
                number += 1

        await self._at_master(work)

    async def pull(self) -> None:
        """Pull and acknowledge."""

        async def work(client: Client) -> None:
            last = -1
            while not self.is_ending:
                begin, found = await client.pull(limit=100, last=last, timeout_ms=5_000)
                self.pulled.update(found)
                if found:
                    last = begin + len(found) - 1
                    assert await client.ack(begin, last) == 0

        await self._at_master(work)


@asynccontextmanager
async def traffic(group: Members, seconds_after: float = 1.0) -> AsyncIterator[Traffic]:
    """Clients that work during the block and a while before and after it. What was acknowledged must then be stored and pulled."""
    clients = Traffic(group)
    tasks = [asyncio.create_task(clients.send()), asyncio.create_task(clients.pull())]
    await asyncio.sleep(BEFORE)
    try:
        yield clients
        await asyncio.sleep(seconds_after)
    finally:
        clients.is_ending = True
        await asyncio.gather(*tasks)
    master = next(name for name in group.hosts if group.is_master(name))
    async with client_of(group.broker(master)) as client:
        kept = await stored(client)
        while (pulled := await client.pull(limit=1000))[1]:
            clients.pulled.update(pulled[1])
            await client.ack(pulled[0], pulled[0] + len(pulled[1]) - 1)
    assert set(clients.acknowledged) <= set(kept), "an acknowledged message is lost"
    assert set(clients.acknowledged) <= clients.pulled
    assert len(clients.acknowledged) > 100
