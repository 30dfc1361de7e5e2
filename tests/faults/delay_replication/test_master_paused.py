"""SIGSTOP of the master of a delay group for 12 s under load: what it stored is delivered by another one, and not early
by both."""

import time
from collections.abc import Callable

import pytest

from tests.faults.delay_replication.load import DelayLoad, now_ms
from tests.faults.delay_replication.scene import FLAGS, GROUP, NEAR, RETURN_SECONDS, judge, others_of, start
from tests.faults.replication.scene import (
    IS_FULL,
    PER_SECOND,
    TURNS,
    Figures,
    becomes,
    in_sync,
    process_of,
    repeated,
    role_of,
)
from tests.support.servers.system import System
from tests.support.whole import in_whole_fault_runs

PAUSE_SECONDS = 12.0 if IS_FULL else 0.0
"""At least; the pause ends when there is another master."""
LATE_SECONDS = 14.0


@repeated
@pytest.mark.parametrize("copies", [2, pytest.param(3, marks=in_whole_fault_runs)])
async def test_a_paused_master_of_a_delay_group_is_replaced_and_follows(
    new_system: Callable[..., System], copies: int
) -> None:
    system = new_system(groups=1, delays=1, delay_copies=copies, **FLAGS)
    figures = Figures(f"SIGSTOP of a delay master, {copies} members")
    await start(system)
    async with DelayLoad(system, PER_SECOND, others=NEAR) as load:
        for _ in range(TURNS):
            old = await in_sync(system, GROUP)
            await load.flows(PER_SECOND)
            with process_of(system, old).paused():
                paused_at, paused_ms = time.monotonic(), now_ms()
                await becomes(system, "master", *others_of(system, old))
                figures.add("another master", time.monotonic() - paused_at, LATE_SECONDS)
                await load.until(paused_at + PAUSE_SECONDS)
            await figures.timed(
                "in sync after it continues", RETURN_SECONDS, lambda node=old: role_of(system, node) == "in_sync"
            )
            await load.flows(PER_SECOND)
            await load.delivered(now_ms() - 1_000)
            figures.add("latest message", load.latest(paused_ms), LATE_SECONDS)
    await judge(system, load, figures, TURNS)
