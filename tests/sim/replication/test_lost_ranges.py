"""Slaves of a master whose log is damaged where no member has the bytes: they copy the log around it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.sim.replication.copying import SETTINGS, assert_no_failures, in_sync, make_copies_small
from tests.sim.replication.damaging import commits, content, damage, flip
from tests.sim.replication.pair import Members, client_of, members, stored
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import message
from tests.support.waiting import eventually_async

BYTES = 2_000
COUNT = 200
KEPT = {**SETTINGS, "retention_bytes": 64 << 20}
"""Nothing is removed."""


@pytest.fixture(autouse=True)
def small_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    make_copies_small(monkeypatch)


async def fill(group: Members) -> None:
    """Have the first member store messages, some of which a consumer acknowledges."""
    async with client_of(group.broker("g1-a")) as client:
        for number in range(COUNT):
            assert await client.send(message(number, size=BYTES)) == {}
        await client.begin(group="workers")
        assert len((await client.pull(group="workers", limit=20))[1]) == 20
        assert await client.ack(0, 9, group="workers") == 0


@asynccontextmanager
async def damaged(count: int = 2, at: float = 0.3) -> AsyncIterator[tuple[Members, tuple[int, int], list[str]]]:
    """A master with one damaged commit below its checkpoint, and members that have never run; what consumers must get."""
    async with members(running_loop(), count, in_sync_min=1, starts=["g1-a"], **KEPT) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a")
        await fill(group)
        master = group.broker("g1-a")
        await eventually_async(lambda: master.checkpoints.last_position.offset == master.log.watermark.position.offset)
        found = commits(master.log)
        lost = found[int(len(found) * at)]
        number = found.index(lost)
        group.hosts["g1-a"].kill()
        flip(group.hosts["g1-a"], sum(lost) // 2)
        await group.start("g1-a")
        await group.promote("g1-a")
        # The first commit begins the epoch.
        yield group, lost, [f"m{n}" for n in range(COUNT) if n != number - 1]
        assert_no_failures(group)


async def check(group: Members, lost: tuple[int, int], expected: list[str], *names: str) -> None:
    """These members have the same log but for the damage, withhold that, and the first one serves everything else."""
    await group.all_equal()
    logs = [group.broker(name).log for name in names]
    assert [damage(log) for log in logs] == [[lost]] * len(names)
    first = content(logs[0], [lost])
    for log in logs[1:]:
        assert content(log, [lost]) == first
    async with client_of(group.broker(names[0])) as client:
        assert await stored(client) == expected
        # Acknowledged messages do not come again, others do.
        begin, pulled = await client.pull(group="workers", limit=10, last=-1)
        assert (begin, pulled[0]) == (10, "m10")


async def test_a_slave_copies_the_log_around_the_damage() -> None:
    async with damaged() as (group, lost, expected):
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        await check(group, lost, expected, "g1-a", "g1-b")
        slave = group.broker("g1-b")
        assert slave.log.stored.own_damage == ()
        assert slave.store.subjects["orders"].withheld_count == 1
        await group.hosts["g1-b"].stop()
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        group.hosts["g1-a"].kill()
        await group.promote("g1-b")
        await check(group, lost, expected, "g1-b")
        # The former master has damage that the new one has, too.
        await group.start("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        await check(group, lost, expected, "g1-b", "g1-a")
        assert group.broker("g1-a").log.stored.own_damage == ()
        async with client_of(group.broker("g1-b")) as client:
            assert await client.send(message(COUNT)) == {}
