"""Slaves of a master whose log is damaged where no member has the bytes: they copy the log around it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from tests.sim.replication.copying import SETTINGS, assert_no_failures, in_sync, make_copies_small
from tests.sim.replication.damaging import commits, content, damage, flip, remove_segment
from tests.sim.replication.pair import Members, client_of, members, stored
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import message
from tests.support.waiting import eventually_async

BYTES = 2_000
COUNT = 300
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


@dataclass
class Case:
    """A group with a damaged master, and what must hold afterwards."""

    group: Members
    lost: tuple[int, int]
    expected: list[str]
    """The messages that are left."""

    async def check(self, *names: str) -> None:
        """These members have the same log but for the damage, withhold that, and the first one serves everything else."""
        await self.group.all_equal()
        logs = [self.group.broker(name).log for name in names]
        for log in logs:
            assert (damage(log)[0][0], damage(log)[-1][1]) == self.lost
            assert content(log, self.lost) == content(logs[0], self.lost)
        async with client_of(self.group.broker(names[0])) as client:
            assert await stored(client, f"readers-{names[0]}-{logs[0].written_end}") == self.expected
            # Acknowledged messages do not come again, others do.
            begin, pulled = await client.pull(group="workers", limit=10, last=-1)
            assert begin == 10
            assert pulled == [f"m{n}" for n in range(10, 20) if f"m{n}" in self.expected]


Commits = list[tuple[int, int]]
Segment = tuple[int, int]


def one(found: Commits, segments: list[Segment]) -> list[int]:
    return [60]


def first(found: Commits, segments: list[Segment]) -> list[int]:
    return [0]


def several(found: Commits, segments: list[Segment]) -> list[int]:
    return list(range(3, 9))


def begin_of_segment(found: Commits, segments: list[Segment]) -> list[int]:
    return [next(n for n, (begin, _) in enumerate(found) if begin == segments[1][0])]


def end_of_segment(found: Commits, segments: list[Segment]) -> list[int]:
    return [max(n for n, (_, end) in enumerate(found) if end <= segments[1][0])]


def whole_segment(found: Commits, segments: list[Segment]) -> list[int]:
    return [n for n, (begin, _) in enumerate(found) if segments[1][0] <= begin < sum(segments[1])]


@asynccontextmanager
async def damaged(
    choose: Callable[[Commits, list[Segment]], list[int]] = one, count: int = 2, *, is_removed: bool = False
) -> AsyncIterator[Case]:
    """A group whose master has damaged commits below its checkpoint, and whose other members have never run.

    Args:
        choose: which commits.
        is_removed: the segment with the first of them is missing.
    """
    async with members(running_loop(), count, in_sync_min=1, starts=["g1-a"], **KEPT) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a")
        await fill(group)
        master, host = group.broker("g1-a"), group.hosts["g1-a"]
        await eventually_async(lambda: master.checkpoints.last_position.offset == master.log.watermark.position.offset)
        found = commits(master.log)
        segments = [(info.base, info.bytes) for info in master.log.stored.segments()]
        numbers = choose(found, segments)
        bases, begin, end = [base for base, _ in segments], found[numbers[0]][0], found[numbers[-1]][1]
        # At the edge of a segment the unused rest of the one before belongs to it.
        begin = found[numbers[0] - 1][1] if begin in bases[1:] else begin
        end = found[numbers[-1] + 1][0] if found[numbers[-1] + 1][0] in bases else end
        host.kill()
        for number in numbers:
            flip(host, sum(found[number]) // 2)
        if is_removed:
            remove_segment(host, segments[1][0])
        await group.start("g1-a")
        await group.promote("g1-a")
        # The first commit begins the epoch.
        yield Case(group, (begin, end), [f"m{n}" for n in range(COUNT) if n + 1 not in numbers])
        assert_no_failures(group)


KINDS = [one, first, several, begin_of_segment, end_of_segment, whole_segment]


@pytest.mark.parametrize("choose", KINDS)
async def test_a_slave_copies_the_log_around_the_damage(choose: Callable[[Commits, list[Segment]], list[int]]) -> None:
    async with damaged(choose) as case:
        group = case.group
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        await case.check("g1-a", "g1-b")
        slave = group.broker("g1-b")
        assert slave.log.stored.own_damage == ()
        assert slave.store.subjects["orders"].withheld_count == COUNT - len(case.expected)
        await group.hosts["g1-b"].stop()
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        group.hosts["g1-a"].kill()
        await group.promote("g1-b")
        await case.check("g1-b")
        # The former master has damage that the new one has, too.
        await group.start("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        await case.check("g1-b", "g1-a")
        assert group.broker("g1-a").log.stored.own_damage == ()
        async with client_of(group.broker("g1-b")) as client:
            assert await client.send(message(COUNT)) == {}


async def test_a_slave_copies_a_log_of_which_a_segment_is_missing() -> None:
    async with damaged(whole_segment, is_removed=True) as case:
        await case.group.start("g1-b")
        await in_sync(case.group, "g1-a", "g1-b")
        await case.check("g1-a", "g1-b")
        case.group.hosts["g1-a"].kill()
        await case.group.promote("g1-b")
        await case.check("g1-b")
