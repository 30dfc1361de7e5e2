"""F15: a sync of a master's log fails. F17: a slave's disk is slow."""

import asyncio
import math
import time
from collections.abc import Callable

import pytest

from tests.faults.replication.failover import consumed_again
from tests.faults.replication.faulty_node import MODULE, Disks
from tests.faults.replication.load import Load
from tests.faults.replication.scene import (
    NODE_FLAGS,
    PER_SECOND,
    TURNS,
    Figures,
    becomes,
    in_sync,
    logs_are_equal,
    process_of,
    repeated,
    report_of,
    role_of,
    start,
)
from tests.support.system import System
from tests.support.waiting import eventually_async
from tests.support.whole import in_whole_fault_runs

SLOW_SECONDS, HANGING_SECONDS = 0.2, 10.0
NORMAL_P99_SECONDS = 0.1
"""Sends are as before the fault when 99 % of them are answered within it."""
WINDOW_SECONDS = 0.5


@repeated
@pytest.mark.parametrize("copies", [2, pytest.param(3, marks=in_whole_fault_runs)])
async def test_f15_a_master_whose_sync_failed_is_replaced(new_system: Callable[..., System], copies: int) -> None:
    system = new_system(groups=2, copies=copies, broker_flags=NODE_FLAGS, broker_module=MODULE)
    disks, figures = Disks(system), Figures(f"F15, {copies} members")
    await start(system)
    async with Load(system.meta_url, PER_SECOND) as load:
        for _ in range(TURNS):
            old = await in_sync(system, "g1")
            await load.flows()
            disks.fail(old)
            await eventually_async(lambda node=old: disks.has_failed(node), what="a sync fails")
            failed_at, failed_at_ms = time.monotonic(), time.time() * 1000
            await figures.timed("serves no longer", 1, lambda node=old: role_of(system, node) != "master")
            await consumed_again(load, figures, failed_at_ms)
            await becomes(system, "master", *(node for node in system.members("g1") if node != old))
            await load.flows()
            figures.add("slowest send of the subject", load.sends.seconds(failed_at)[-1], 2)
            await asyncio.to_thread(process_of(system, old).stop)
            process_of(system, old).start(wait=False)
            await figures.timed("in sync after its start", 30, lambda node=old: role_of(system, node) == "in_sync")
    figures.report()
    assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(system)


@repeated
@pytest.mark.parametrize("copies", [pytest.param(2, marks=in_whole_fault_runs), 3])
async def test_f17_a_slave_whose_disk_hangs_is_removed_and_returns(
    new_system: Callable[..., System], copies: int
) -> None:
    system = new_system(groups=2, copies=copies, broker_flags=NODE_FLAGS, broker_module=MODULE)
    disks, figures = Disks(system), Figures(f"F17, {copies} members")
    await start(system)
    async with Load(system.meta_url, PER_SECOND) as load:
        for _ in range(TURNS):
            master = await in_sync(system, "g1")
            slave = min(node for node in system.members("g1") if node != master)
            await load.flows()
            disks.delay(slave, SLOW_SECONDS)
            await load.flows(PER_SECOND)
            assert slave in report_of(system, master)["in_sync"], "a slave that makes progress stays"
            began = time.monotonic()
            disks.delay(slave, HANGING_SECONDS)
            await figures.timed(
                "removed", 4, lambda node=slave, of=master: node not in report_of(system, of).get("in_sync", [node])
            )

            def are_fast(since: float = began) -> bool:
                load.check()
                return back_at(load, since) < math.inf

            await eventually_async(are_fast, what="sends are as fast as before")
            figures.add("p99 of sends is back", back_at(load, began) - began, 5)
            disks.delay(slave, 0)
            await figures.timed("in sync again", 30, lambda node=slave: role_of(system, node) == "in_sync")
    figures.report()
    assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(system)


def back_at(load: Load, since: float) -> float:
    """Return from when on sends have been fast for three windows; infinity: they are not yet."""
    now = time.monotonic() - NORMAL_P99_SECONDS
    windows = int((now - since) / WINDOW_SECONDS)
    fast = 0
    for number in range(windows):
        begin = since + number * WINDOW_SECONDS
        found = load.sends.seconds(begin, begin + WINDOW_SECONDS)
        is_fast = bool(found) and found[int(len(found) * 0.99)] <= NORMAL_P99_SECONDS
        fast = fast + 1 if is_fast else 0
        if fast == 3:
            return begin - 2 * WINDOW_SECONDS
    return math.inf
