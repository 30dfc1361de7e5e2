"""A delay group whose master removes its log soon, so that slaves have to copy."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from delay_node.delay_node import DelayNode
from qmq.protocol.delayed import ListDelayedRequest
from qmq_node.replication.master.retention_holds import HOLD_SECONDS
from qmq_node.replication.rules.roles import CopyPhase
from tests.sim.replication.copying import assert_no_failures, in_sync
from tests.sim.replication.pair import DELAY_NODES, Members, client_of, members
from tests.sim.world.loop import SimulatedLoop
from tests.support.drivers.delay_states import differences, state_of
from tests.support.drivers.in_process import Client, delayed, now_ms
from tests.support.waiting import eventually_async

HOUR_MS = 3_600_000
HOURS = 12
BYTES = 4_000
SETTINGS: dict[str, Any] = {"checkpoint_seconds": 1.0, "copy_bytes_per_second": 1 << 20}
SLOW: dict[str, Any] = {**SETTINGS, "copy_bytes_per_second": 128 << 10}


def delay_node(group: Members, name: str) -> DelayNode:
    found = group.node(name)
    assert isinstance(found, DelayNode)
    return found


class Schedule:
    """What a client schedules, and what must be pending afterwards."""

    def __init__(self) -> None:
        self.due: dict[str, int] = {}
        self.first_hour_ms = (now_ms() // HOUR_MS + 3) * HOUR_MS

    async def send(self, client: Client, count: int, hours: range = range(HOURS)) -> None:
        """Schedule messages, some at a time, in these hours."""
        for begin in range(0, count, 10):
            numbers = range(len(self.due), len(self.due) + min(10, count - begin))
            due = {
                number: self.first_hour_ms + HOUR_MS * (hours.start + number % len(hours)) + number
                for number in numbers
            }
            assert await client.send(*(delayed(number, at, data="x" * BYTES) for number, at in due.items())) == {}
            self.due |= {f"m{number}": at for number, at in due.items()}

    async def fill(self, client: Client, master: DelayNode, away: bool = False) -> None:
        """Schedule until the master has removed all of the log that was there when this began."""
        end = master.log.written_end
        if away:
            await self.send(client, 60)
            await asyncio.sleep(HOLD_SECONDS)
        while master.log.begin < end:
            await self.send(client, 20)
            await asyncio.sleep(0.1)

    async def check(self, client: Client) -> None:
        """A master that was a copy lists all of it."""
        found: dict[str, int] = {}
        request = ListDelayedRequest("orders", 0, 1 << 47)
        while True:
            answer = await client.listed(request)
            found |= {item.message.message_id: item.due_ms for item in answer.items}
            if not answer.cursor:
                break
            request = ListDelayedRequest("orders", 0, 1 << 47, cursor=answer.cursor)
        assert found == self.due


@asynccontextmanager
async def ahead(
    loop: SimulatedLoop, count: int = 2, settings: dict[str, Any] = SETTINGS
) -> AsyncIterator[tuple[Members, Schedule]]:
    """A master whose log has lost its first segments, and slaves that have never run."""
    async with members(loop, count, in_sync_min=1, starts=["g1-a"], kind=DELAY_NODES, **settings) as group:
        schedule = Schedule()
        await group.promote("g1-a")
        await in_sync(group, "g1-a")
        async with client_of(group.node("g1-a")) as client:
            await schedule.fill(client, delay_node(group, "g1-a"))
        yield group, schedule
        assert_no_failures(group)


async def copies(group: Members, name: str, phase: CopyPhase) -> None:
    """Wait until a node is in a phase of its copy, and has begun it."""
    host = group.hosts[name]

    def is_there() -> bool:
        if host.server is None:
            return False
        follower = delay_node(group, name).replication.member.follower
        progress = follower.copy.progress if follower is not None else None
        return progress is not None and progress.phase is phase and (phase is CopyPhase.LOG or progress.done_bytes > 0)

    await eventually_async(is_there, 60)


async def all_equal(group: Members) -> None:
    """All members that run have the same log, and the same state."""
    await group.all_equal()
    running = [name for name, host in group.hosts.items() if host.server is not None]
    states = [state_of(delay_node(group, name).store) for name in running]
    for name, state in zip(running, states, strict=True):
        assert not differences(states[0], state), name


async def check_promoted(group: Members, schedule: Schedule, name: str = "g1-b") -> None:
    """Promote a slave that was in sync, and check what clients see."""
    await all_equal(group)
    await group.promote(name)
    node = delay_node(group, name)
    assert node.store.counters.lost == 0
    async with client_of(node) as client:
        await schedule.check(client)
