"""Planned changes of a delay group under load: SIGTERM of each node, switch-overs, and members removed, replaced and
added.

Nothing is repeated and no send fails.
"""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.faults.delay_replication.load import DelayLoad, now_ms
from tests.faults.delay_replication.scene import FLAGS, GROUP, NEAR, judge, others_of, start, switch_over
from tests.faults.replication.scene import (
    LOOK_SECONDS,
    PER_SECOND,
    TURNS,
    Figures,
    in_sync,
    process_of,
    repeated,
    report_of,
)
from tests.support.servers.system import System
from tests.support.waiting import eventually
from tests.support.whole import in_whole_fault_runs

LATE_SECONDS = 2.0
MEMBERS_TURN_SECONDS = 240
"""Limit of the test that changes members, for each turn."""
HELD_SECONDS = 1.0
"""For how long a change of members delays anything."""


@asynccontextmanager
async def measured(load: DelayLoad, figures: Figures, what: str, limit_s: float = LATE_SECONDS) -> AsyncIterator[None]:
    """Add how late messages were and how long sends took since the block began."""
    began, began_ms = time.monotonic(), now_ms()
    yield
    await load.flows(PER_SECOND)
    await load.delivered(now_ms() - 1_000)
    figures.add(f"{what}: latest message", load.latest(began_ms), limit_s)
    figures.add(f"{what}: slowest send", load.sends.seconds(began)[-1], limit_s)


@repeated
async def test_all_nodes_of_a_delay_group_are_restarted_one_after_the_other(new_system: Callable[..., System]) -> None:
    system, figures = new_system(groups=1, delays=1, delay_copies=2, **FLAGS), Figures("SIGTERM of delay nodes")
    await start(system)
    async with DelayLoad(system, PER_SECOND, others=NEAR) as load:
        for _ in range(TURNS):
            # The slave first: the master that stops is then the one that has served all the time.
            master = await in_sync(system, GROUP)
            for node in (*others_of(system, master), master):
                async with measured(load, figures, "master" if node == master else "slave"):
                    assert await asyncio.to_thread(process_of(system, node).stop) == 0
                    process_of(system, node).start(wait=False)
                    await in_sync(system, GROUP)
    await judge(system, load, figures)


@repeated
@in_whole_fault_runs
async def test_a_switch_over_of_a_delay_group_repeats_nothing(new_system: Callable[..., System]) -> None:
    system, figures = new_system(groups=1, delays=1, delay_copies=2, **FLAGS), Figures("switch-over of a delay group")
    await start(system)
    async with DelayLoad(system, PER_SECOND, others=NEAR) as load:
        for _ in range(TURNS):
            master = await in_sync(system, GROUP)
            async with measured(load, figures, "switch-over"):
                await switch_over(system, master)
                await in_sync(system, GROUP)
    await judge(system, load, figures)


async def change(system: System, service: str, *values: Any) -> None:
    """Change the members of the group, as an operator."""
    await asyncio.to_thread(system.call_service, service, GROUP, *values)


async def consists_of(system: System, *nodes: str) -> str:
    """Wait until the group has these members, all of them in sync, and return its master."""

    def found() -> str:
        for node in nodes:
            report = report_of(system, node)
            if report.get("role") == "master" and set(report["members"]) == set(report["in_sync"]) == set(nodes):
                return node
        return ""

    what = f"the members of the group are {', '.join(nodes)}, all in sync"
    return await asyncio.to_thread(eventually, found, what=what, every_s=LOOK_SECONDS)


async def empty(system: System, *nodes: str) -> None:
    """Stop nodes, empty their data folders, and start them."""
    for node in nodes:
        process = process_of(system, node)
        await asyncio.to_thread(process.stop)
        await asyncio.to_thread(shutil.rmtree, system.folder / node.removesuffix("-a"))
        process.start(wait=False)


@pytest.mark.timeout(200 + TURNS * MEMBERS_TURN_SECONDS)
@in_whole_fault_runs
async def test_members_of_a_delay_group_are_removed_replaced_and_added(new_system: Callable[..., System]) -> None:
    system, figures = new_system(groups=1, delays=1, delay_copies=3, **FLAGS), Figures("members of a delay group")
    await start(system)
    async with DelayLoad(system, PER_SECOND, others=NEAR) as load:
        for _ in range(TURNS):
            master = await in_sync(system, GROUP)
            removed, other = others_of(system, master)
            async with measured(load, figures, "a slave of three is removed", HELD_SECONDS):
                await change(system, "member_changes.remove_member", removed)
                await consists_of(system, master, other)
            await change(system, "members.set_copies", {"copies": 2})
            await empty(system, removed)
            async with measured(load, figures, "a master of two is replaced", HELD_SECONDS):
                await change(system, "member_changes.replace_member", master, removed)
                await consists_of(system, other, removed)
            await change(system, "members.set_copies", {"copies": 3})
            async with measured(load, figures, "a third member is added", HELD_SECONDS):
                await empty(system, master)
                left = await in_sync(system, GROUP)
            slaves = others_of(system, left)
            async with measured(load, figures, "from three copies to one", HELD_SECONDS):
                await change(system, "member_changes.set_copies", {"copies": 1, "in_sync_min": 1}, slaves)
                await consists_of(system, left)
            await change(system, "members.set_copies", {"copies": 3})
            async with measured(load, figures, "from one copy to three", HELD_SECONDS):
                await empty(system, *slaves)
                await in_sync(system, GROUP)
    await judge(system, load, figures)
