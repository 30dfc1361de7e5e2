"""A member whose log is damaged, and no other one is left: an operator promotes it, and it serves what it has."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from broker_node.broker import Broker
from metaserver.server import Metaserver
from qmq.protocol.codes import ReplicaRole
from qmq.protocol.delayed import ListDelayedRequest
from qmq_node.repair.repairs import CHECK_SECONDS
from qmq_node.replication.rules.membership import UncleanPromotion
from tests.sim.replication.delay_copying import HOUR_MS
from tests.sim.replication.groups import Group, cluster_of, promoted_by_operator, received
from tests.sim.replication.log_damage import commits, damage, flip, remove_segment
from tests.sim.replication.pair import DELAY_NODES, client_of, in_sync, incarnation_of, members, send
from tests.sim.world.disk import SimulatedDisk
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import delayed, message, now_ms
from tests.support.waiting import eventually_async

BYTES = 4_000
COUNT = 200
AGAIN = "00000000-0000-4000-8000-000000000010"
"""The second promotion by an operator."""
REPAIR_SECONDS = 2 * CHECK_SECONDS
OVERDUE_SECONDS = 10.0
"""After this time without a heartbeat of the master, another member would have been promoted."""


@dataclass
class Case:
    group: Group
    sent: list[str]
    """All that was acknowledged."""
    left: list[str]
    """What the damaged member can have at most."""
    lost: tuple[int, int]


@asynccontextmanager
async def damaged(kind: str) -> AsyncIterator[Case]:
    """A group of which only g1-b runs, with damage; g1-a had everything.

    Args:
        kind: "above the checkpoint": g1-b has to apply what is damaged; "below the checkpoint"; "at the end".
    """
    async with cluster_of(checkpoint_seconds=1.0) as group:
        group.set(in_sync_min=1, in_sync_version=group.membership.version + 1)
        async with client_of(group.master) as client:
            await client.begin()
            for number in range(COUNT):
                assert await client.send(message(number, size=BYTES)) == {}
        await group.all_equal()
        slave, host = group.broker("g1-b"), group.hosts["g1-b"]
        watermark = slave.log.watermark
        await eventually_async(lambda: slave.checkpoints.last_position.offset == watermark.position.offset)
        found, end = commits(slave.log), slave.log.written_end
        bases = [info.base for info in slave.log.stored.segments()]
        group.hosts["g1-a"].kill()
        host.kill()
        if kind == "at the end":
            last = max(base for base in bases if base < end)
            numbers = [number for number, commit in enumerate(found) if commit[0] >= last]
            for base in bases[bases.index(last) :]:
                remove_segment(host, base)
        else:
            numbers = [40, 41]
            for number in numbers:
                flip(host, sum(found[number]) // 2)
            for path in [path for path in host.disk.names if "/checkpoint/" in path and kind == "above the checkpoint"]:
                host.disk.remove(path)
        sent = [f"m{number}" for number in range(COUNT)]
        first = COUNT - len(found)
        left = [name for number, name in enumerate(sent) if number - first not in numbers]
        host.has_damaged_log = True
        host.start()
        await host.has_started.wait()
        yield Case(group, sent, left, (found[numbers[0]][0], found[numbers[-1]][1]))


KINDS = ["above the checkpoint", "below the checkpoint", "at the end"]


async def serves(group: Group, node: str) -> None:
    """Wait until a node serves, and does not wait for repairs any more."""
    await group.serves(node)
    # What is damaged is requested from members that do not run.
    await asyncio.sleep(REPAIR_SECONDS)
    await eventually_async(lambda: not group.broker(node).replication.repairs.has_untried, 60)


async def found_damage(case: Case) -> None:
    """Have the damage found that lies below the checkpoint, as a reader would."""
    log = case.group.broker("g1-b").log
    log.stored.add_damage(log.stored.damage_before(case.lost[1]))


@pytest.mark.parametrize("kind", KINDS)
async def test_it_is_promoted_by_an_operator_only_and_serves_what_it_has(kind: str) -> None:
    async with damaged(kind) as case:
        group = case.group
        await found_damage(case)
        await asyncio.sleep(OVERDUE_SECONDS)
        assert group.membership.master == "g1-a"
        meta = group.cluster.meta.server
        assert isinstance(meta, Metaserver)
        assert "node g1-b: its log " in meta.handlers.promotions.blocked["g1"]
        report = meta.directory.groups["g1"].reports["g1-b"].request
        at_risk = max(0, report.lacks_to - report.log_end) + report.damaged_bytes
        assert at_risk >= case.lost[1] - case.lost[0]
        await promoted_by_operator(group, "g1-b")
        await serves(group, "g1-b")
        assert await received(group) == case.left
        log = group.master.log
        assert log.stored.own_damage == ()
        assert damage(log)[0][0] <= case.lost[0] < case.lost[1] <= damage(log)[-1][1]
        async with client_of(group.master) as client:
            case.left += await send(client, range(COUNT, COUNT + 5))
        # It can have slaves, which are promoted as any other.
        group.empty_disk("g1-a")
        group.hosts["g1-a"].start()
        await group.in_sync("g1-a", "g1-b")
        assert damage(group.broker("g1-a").log)[-1][1] == damage(log)[-1][1]
        group.hosts["g1-b"].kill()
        await serves(group, "g1-a")
        assert await received(group) == case.left
        async with client_of(group.master) as client:
            case.left += await send(client, range(COUNT + 5, COUNT + 10))
        group.hosts["g1-b"].start()
        await group.in_sync("g1-a", "g1-b")
        assert await received(group) == case.left


def is_promoted(node: Broker) -> bool:
    return node.replication.member.role is ReplicaRole.PROMOTED


def has_recorded(node: Broker) -> bool:
    return bool(node.log.stored.lost.ranges)


def has_segment(node: Broker) -> bool:
    return node.log.stored.segments()[-1].base >= node.log.lacks_to > 0 or has_written(node)


def has_written(node: Broker) -> bool:
    return node.log.epochs.last_epoch == node.folder.replica.state.epoch


MOMENTS = [is_promoted, has_recorded, has_segment, has_written]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("milliseconds", [0, 1, 3, 100])
@pytest.mark.parametrize("moment", MOMENTS)
async def test_what_was_accepted_once_is_accepted_after_a_crash(
    kind: str, moment: Callable[[Broker], bool], milliseconds: int
) -> None:
    async with damaged(kind) as case:
        group, host = case.group, case.group.hosts["g1-b"]
        await found_damage(case)
        await promoted_by_operator(group, "g1-b")
        node = group.broker("g1-b")
        await eventually_async(lambda: moment(node), every_s=0.0001)
        await asyncio.sleep(milliseconds / 1000)
        host.cut_power()
        group.cluster.loop.network.power_on("g1-b")
        host.start()
        await host.has_started.wait()
        if not has_recorded(group.broker("g1-b")):
            # The operator has to decide once more.
            await found_damage(case)
            if kind != "below the checkpoint":
                await asyncio.sleep(OVERDUE_SECONDS)
            assert not group.broker("g1-b").replication.is_serving
            await promoted_by_operator(group, "g1-b", AGAIN)
        await serves(group, "g1-b")
        assert await received(group) == case.left
        async with client_of(group.master) as client:
            case.left += await send(client, range(COUNT, COUNT + 5))
        assert await received(group) == case.left


@pytest.mark.parametrize("kind", KINDS)
async def test_a_member_returns_that_has_everything(kind: str) -> None:
    async with damaged(kind) as case:
        group = case.group
        await found_damage(case)
        await promoted_by_operator(group, "g1-b")
        await serves(group, "g1-b")
        async with client_of(group.master) as client:
            await send(client, range(COUNT, COUNT + 5))
        group.hosts["g1-a"].has_damaged_log = True
        group.hosts["g1-a"].start()
        if kind != "at the end":
            # What both have is equal, and it keeps what is damaged at the master.
            await group.in_sync("g1-a", "g1-b")
            assert damage(group.broker("g1-a").log) == []
            group.hosts["g1-b"].kill()
            await serves(group, "g1-a")
            assert await received(group) == [*case.sent, *(f"m{number}" for number in range(COUNT, COUNT + 5))]
            return
        # It has applied what was accepted as lost: an operator decides what becomes of its folder.
        await eventually_async(
            lambda: group.runs("g1-a") and group.broker("g1-a").replication.member.role is ReplicaRole.FAILED, 60
        )
        assert "acknowledged messages would be lost" in group.broker("g1-a").readiness()
        assert await received(group) == [*case.left, *(f"m{number}" for number in range(COUNT, COUNT + 5))]


@pytest.mark.parametrize("is_at_the_end", [False, True], ids=["in the middle", "at the end"])
async def test_a_delay_node_is_promoted_without_what_is_damaged(is_at_the_end: bool) -> None:
    async with members(running_loop(), in_sync_min=1, kind=DELAY_NODES, checkpoint_seconds=5.0) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        due = {f"m{number}": now_ms() + HOUR_MS + number for number in range(30)}
        async with client_of(group.node("g1-a")) as client:
            for number, at in enumerate(due.values()):
                assert await client.send(delayed(number, at, data="x" * 100)) == {}
        await group.all_equal()
        found, host = commits(group.node("g1-b").log), group.hosts["g1-b"]
        # The first commit begins the epoch.
        number = len(found) - 2 if is_at_the_end else 11
        await group.hosts["g1-b"].stop()
        await in_sync(group, "g1-a")
        group.hosts["g1-a"].kill()
        for path in [path for path in host.disk.names if "/checkpoint/" in path and not is_at_the_end]:
            host.disk.remove(path)
        for place in range(number, len(found) if is_at_the_end else number + 1):
            flip(host, sum(found[place]) // 2)
        host.has_damaged_log = True
        await group.start("g1-b")
        if is_at_the_end:
            log = group.node("g1-b").log
            log.stored.add_damage(log.stored.damage_before(found[-1][1]))
        change = UncleanPromotion(
            *group.membership.value.place, "g1-b", incarnation_of("g1-b"), "g1-b", group.membership.value.place, AGAIN
        )
        group.membership.value = change.applied_to(group.membership.value)
        await eventually_async(lambda: group.is_master("g1-b"), 60)
        node = group.node("g1-b")
        assert node.log.stored.own_damage == ()
        assert node.log.stored.damaged
        left = due if is_at_the_end else {name: at for name, at in due.items() if name != f"m{number - 1}"}
        for name in ("g1-b", "g1-a"):
            async with client_of(group.node(name)) as client:
                answer = await client.listed(ListDelayedRequest("orders", 0, 1 << 47))
                assert {item.message.message_id: item.due_ms for item in answer.items} == left
                number = 100 if name == "g1-b" else 101
                left = left | {f"m{number}": now_ms() + HOUR_MS}
                assert await client.send(delayed(number, left[f"m{number}"], data="y")) == {}
            if name == "g1-b":
                host = group.hosts["g1-a"]
                host.disk = SimulatedDisk(running_loop(), host.name, running_loop().rng("new disk"), host.weather)
                await group.start("g1-a")
                await in_sync(group, "g1-a", "g1-b")
                await group.all_equal()
                await group.promote("g1-a")
