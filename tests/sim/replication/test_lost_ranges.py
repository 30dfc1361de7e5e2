"""Slaves of a master whose log is damaged where no member has the bytes: they copy the log around it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from broker_node.storage.oldest_sequence import begin_adjusted
from qmq.errors import ConnectionLost
from qmq_node.log.record import HEADER_BYTES
from qmq_node.repair.repairs import RETRY_SECONDS_MAX
from qmq_node.replication.rules.roles import CopyPhase
from tests.sim.replication.copying import SETTINGS, assert_no_failures, crash, in_sync, make_copies_small, phase_of
from tests.sim.replication.groups import Group, received
from tests.sim.replication.log_damage import commits, content, damage, flip, remove_segment
from tests.sim.replication.pair import Members, client_of, members, send, stored
from tests.sim.world.cluster import Cluster
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import message
from tests.support.waiting import eventually_async

BYTES = 2_000
COUNT = 300
KEPT = {**SETTINGS, "retention_bytes": 64 << 20, "scrub_bytes_per_second": 0}
"""Nothing is removed, and damage is found by starts and reads alone."""


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
    choose: Callable[[Commits, list[Segment]], list[int]] = one,
    count: int = 2,
    *,
    is_removed: bool = False,
    is_found_late: bool = False,
    **settings: Any,
) -> AsyncIterator[Case]:
    """A group whose master has damaged commits below its checkpoint, and whose other members have never run.

    Args:
        choose: which commits.
        is_removed: the segment with the first of them is missing.
        is_found_late: the second member is in sync with all that is stored before the master's log is damaged.
    """
    starts = ["g1-a", "g1-b"] if is_found_late else ["g1-a"]
    async with members(running_loop(), count, in_sync_min=1, starts=starts, **KEPT | settings) as group:
        await group.promote("g1-a")
        await in_sync(group, *starts)
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
        if is_found_late:
            await in_sync(group, "g1-a", "g1-b")
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


@pytest.mark.parametrize("is_power_cut", [False, True], ids=["kill", "power cut"])
@pytest.mark.parametrize("phase", [CopyPhase.STATE, CopyPhase.LOG, CopyPhase.CATCHING_UP])
async def test_a_slave_that_crashes_while_it_copies_around_damage_continues(
    phase: CopyPhase, is_power_cut: bool
) -> None:
    async with damaged(several, copy_bytes_per_second=1 << 20) as case:
        group, host, crashes = case.group, case.group.hosts["g1-b"], 0
        host.start()
        while crashes < 4 and group.membership.value.in_sync != ("g1-a", "g1-b"):
            await asyncio.sleep(0.001)
            if host.server is not None and phase_of(group, "g1-b") is phase:
                await asyncio.sleep(0.1 * crashes)
                crash(group, "g1-b", is_power_cut=is_power_cut)
                crashes += 1
                host.start()
        assert crashes
        await in_sync(group, "g1-a", "g1-b")
        await case.check("g1-a", "g1-b")


@pytest.mark.parametrize("choose", [one, first, several])
async def test_damage_that_is_found_while_the_node_leads_is_left_out_for_new_slaves_only(
    choose: Callable[[Commits, list[Segment]], list[int]],
) -> None:
    async with damaged(choose, 3, is_found_late=True) as case:
        group = case.group
        group.hosts["g1-b"].kill()
        await in_sync(group, "g1-a")
        await group.start("g1-c")
        await in_sync(group, "g1-a", "g1-c")
        await case.check("g1-a", "g1-c")
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b", "g1-c")
        assert damage(group.broker("g1-b").log) == []
        # What the others lack is repaired from there.
        await eventually_async(
            lambda: not any(damage(group.broker(name).log) for name in ("g1-a", "g1-c")), RETRY_SECONDS_MAX
        )
        for name in ("g1-b", "g1-c"):
            await group.promote(name)
            await in_sync(group, "g1-a", "g1-b", "g1-c")
            async with client_of(group.broker(name)) as client:
                assert len(await stored(client, f"all-{name}")) == COUNT


async def test_a_slave_that_lacks_what_is_damaged_copies_the_state() -> None:
    """Its log ends before the damage, so it would have to apply commits that no member has."""
    async with damaged(one, 2, is_found_late=True) as case:
        group = case.group
        group.hosts["g1-b"].kill()
        await in_sync(group, "g1-a")
        async with client_of(group.broker("g1-a")) as client:
            for number in range(COUNT, COUNT + 50):
                assert await client.send(message(number, size=BYTES)) == {}
        master, end = group.broker("g1-a"), group.broker("g1-a").log.written_end
        lost = commits(master.log)[-20]
        await eventually_async(lambda: master.checkpoints.last_position.offset >= lost[1])
        flip(group.hosts["g1-a"], sum(lost) // 2)
        group.hosts["g1-a"].kill()
        await group.start("g1-a")
        await group.promote("g1-a")
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        await group.all_equal()
        slave = group.broker("g1-b")
        assert slave.log.written_end >= end
        # It has copied all of the log, with both places.
        assert damage(slave.log) == [case.lost, lost]
        assert slave.store.subjects["orders"].withheld_count == 2


async def test_what_only_the_former_master_had_is_truncated_behind_a_lost_range() -> None:
    async with damaged(several) as case:
        group = case.group
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        await group.promote("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        # The one that copied is truncated, then the one whose disk is damaged.
        for old, new in (("g1-b", "g1-a"), ("g1-a", "g1-b")):
            group.membership.is_available = False
            group.hosts[new].kill()
            node = group.broker(old)
            async with client_of(node) as client:
                lost = asyncio.create_task(client.send(message(999)))
                await eventually_async(lambda node=node: node.log.synced_end > node.log.high_watermark)
                group.hosts[old].kill()
                with pytest.raises(ConnectionLost):
                    await lost
            group.membership.is_available = True
            await group.start(new)
            await group.promote(new)
            await group.start(old)
            await in_sync(group, "g1-a", "g1-b")
            assert group.hosts[old].starts >= 3, "it opened its log again after it was truncated"
        await case.check("g1-b", "g1-a")


async def test_a_lost_range_disappears_with_its_segment() -> None:
    async with damaged(one, retention_bytes=900 << 10) as case:
        group = case.group
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        assert damage(group.broker("g1-b").log) == [case.lost]
        group.hosts["g1-a"].kill()
        await group.promote("g1-b")
        await group.start("g1-a")
        async with client_of(group.broker("g1-b")) as client:
            number = COUNT
            while any(damage(group.broker(name).log) for name in ("g1-a", "g1-b")):
                assert await client.send(message(number, size=BYTES)) == {}
                number += 1
        for name in ("g1-a", "g1-b"):
            store = group.broker(name).store
            await begin_adjusted(store, store.subjects["orders"])
            assert store.subjects["orders"].withheld_count == 0
            await group.hosts[name].stop()
            await group.start(name)
            assert damage(group.broker(name).log) == []


@pytest.mark.parametrize("is_at_the_end", [False, True], ids=["in the middle", "at the end"])
async def test_an_only_member_that_stepped_past_damage_gets_a_slave(is_at_the_end: bool) -> None:
    async with Cluster(running_loop(), brokers=1, delays=0, broker_settings=KEPT) as cluster:
        group = Group(cluster)
        host = group.hosts["g1-a"]
        async with client_of(group.master) as client:
            await client.begin()
            for number in range(COUNT):
                assert await client.send(message(number, size=BYTES)) == {}
        checkpoints, watermark = group.master.checkpoints, group.master.log.watermark
        await eventually_async(lambda: checkpoints.last_position.offset == watermark.position.offset)
        found, bases = commits(group.master.log), [info.base for info in group.master.log.stored.segments()]
        last = max(base for base in bases if base < group.master.log.written_end)
        lost = [commit for commit in found if commit[0] >= last] if is_at_the_end else [found[40]]
        host.kill()
        for path in [path for path in host.disk.names if "/checkpoint/" in path and not is_at_the_end]:
            host.disk.remove(path)
        for commit in lost[:-1] or lost:
            flip(host, sum(commit) // 2)
        if is_at_the_end:
            for base in bases[bases.index(last) :]:
                remove_segment(host, base)
        host.start()
        await host.has_started.wait()
        await eventually_async(lambda: bool(damage(group.broker("g1-a").log)))
        left = await received(group)
        assert COUNT - len(lost) - 1 <= len(left) < COUNT
        assert "corrupted" in group.master.registration.refuse_sends()
        group.set(copies=2)
        second = group.hosts["g1-b"] = cluster.broker("g1", "b", KEPT)
        cluster.other_members["g1-b"] = second
        second.start()
        await group.in_sync("g1-a", "g1-b")
        subjects = [group.broker(name).store.subjects["orders"] for name in ("g1-a", "g1-b")]
        assert [subject.visible_end for subject in subjects] == [COUNT, COUNT]
        assert len({subject.withheld_count for subject in subjects}) == 1
        await group.master.replication.switch_over("g1-b")
        await group.serves("g1-b")
        await group.in_sync("g1-a", "g1-b")
        assert await received(group) == left
        # No member has more: the operator has decided by that.
        assert not group.master.registration.refuse_sends()
        async with client_of(group.master) as client:
            left += await send(client, range(COUNT, COUNT + 5))
        group.hosts["g1-b"].kill()
        await group.serves("g1-a")
        assert await received(group) == left


async def test_sequences_of_lost_messages_are_not_used_again() -> None:
    """Of one subject all messages are lost, of one the first ones, of one the last ones; a checkpoint knows them."""
    async with members(running_loop(), in_sync_min=1, starts=["g1-a"], **KEPT) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a")
        master, host, lost = group.broker("g1-a"), group.hosts["g1-a"], list[int]()
        async with client_of(master) as client:

            async def sent(subject: str, number: int, *, is_lost: bool) -> None:
                begin = master.log.gather.appended_end
                assert await client.send(message(number, subject=subject, size=BYTES)) == {}
                lost.extend([begin] if is_lost else [])

            for number in range(COUNT):
                await sent("orders", number, is_lost=False)
                if number in (20, 21):
                    await sent("all", number, is_lost=True)
                if number in (30, 31, 32, 33):
                    await sent("first", number, is_lost=number < 32)
                    await sent("last", number, is_lost=number > 31)
        await eventually_async(lambda: master.checkpoints.last_position.offset == master.log.watermark.position.offset)
        host.kill()
        for begin in lost:
            flip(host, begin + HEADER_BYTES + 1_000)
        await group.start("g1-a")
        await group.promote("g1-a")
        await group.start("g1-b")
        await in_sync(group, "g1-a", "g1-b")
        assert len(damage(group.broker("g1-b").log)) >= 4
        host.kill()
        await group.promote("g1-b")
        slave = group.broker("g1-b")
        ranges = {"all": (0, 2), "first": (0, 2), "last": (2, 4)}
        for name, withheld in ranges.items():
            subject = slave.store.subjects[name]
            assert (subject.begin, subject.visible_end) == (0, withheld[1] if name == "all" else 4)
            assert subject.withheld == [withheld]
        async with client_of(slave) as client:
            for name in ranges:
                end = slave.store.subjects[name].visible_end
                assert await client.send(message(1_000, subject=name)) == {}
                await eventually_async(lambda name=name, end=end: slave.store.subjects[name].visible_end == end + 1)
