"""A slave whose disk syncs more slowly than its master writes catches up and stays in the in-sync set."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from tests.sim.replication.pair import Members, client_of, in_sync, members
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import Client, message

SYNC_SECONDS = 0.05
SENDS_PER_SECOND = 1_000
CONNECTIONS = 8


@dataclass
class Sends:
    """Sends at a fixed rate, however long their answers take."""

    clients: list[Client]
    taken: list[tuple[float, float]] = field(default_factory=list)
    """When each send began, and for how long it took."""
    is_ending: bool = False

    async def run(self) -> None:
        begun, number = running_loop().now, 0
        async with asyncio.TaskGroup() as sending:
            while not self.is_ending:
                await asyncio.sleep(max(0.0, begun + number / SENDS_PER_SECOND - running_loop().now))
                sending.create_task(self._send(number))
                number += 1

    async def _send(self, number: int) -> None:
        began = running_loop().now
        assert await self.clients[number % CONNECTIONS].send(message(number)) == {}
        self.taken.append((began, running_loop().now - began))

    def p99_since(self, begin: float) -> float:
        seconds = sorted(took for began, took in self.taken if began >= begin)
        return seconds[len(seconds) * 99 // 100]


@asynccontextmanager
async def sends(group: Members) -> AsyncIterator[Sends]:
    async with AsyncExitStack() as stack:
        broker = group.broker("g1-a")
        found = Sends([await stack.enter_async_context(client_of(broker)) for _ in range(CONNECTIONS)])
        running = asyncio.create_task(found.run())
        yield found
        found.is_ending = True
        await running


def written(group: Members, name: str) -> tuple[int, int]:
    """Commits that a slave has written while it followed, and the syncs that they took."""
    follower = group.broker(name).replication.member.follower
    assert follower is not None
    return follower.counters.written_commits, follower.counters.commit_syncs


async def test_a_slave_with_slow_syncs_is_in_sync_soon_and_stays_while_its_master_writes() -> None:
    loop = running_loop()
    async with members(loop, in_sync_min=1, starts=("g1-a",), segment_bytes=8 << 20) as group:
        group.hosts["g1-a"].weather.slowness = 0.3
        group.hosts["g1-b"].weather.sync_seconds = SYNC_SECONDS
        await group.promote("g1-a")
        await in_sync(group, "g1-a")
        async with sends(group) as sending:
            await asyncio.sleep(2.0)
            began, commits = loop.now, group.broker("g1-a").committer.commits
            await group.start("g1-b")
            await in_sync(group, "g1-a", "g1-b")
            assert loop.now - began < 60
            stays_from, version = loop.now, group.membership.value.version
            await asyncio.sleep(10.0)
            written_commits = group.broker("g1-a").committer.commits - commits
            assert written_commits / (loop.now - began) > 0.9 * SENDS_PER_SECOND
            assert group.membership.value.version == version, "it stays in the set"
            assert sending.p99_since(stays_from) <= 0.25
            copied, syncs = written(group, "g1-b")
            assert copied > 10 * syncs
        await group.all_equal()
        assert group.states()[0] == group.states()[1]
