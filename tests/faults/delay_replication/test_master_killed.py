"""kill -9 under load: of the master of a delay group, and of the master of the broker group that it delivers to."""

import asyncio
import time
from collections.abc import Callable

import pytest

from tests.faults.delay_replication.load import DelayLoad, now_ms
from tests.faults.delay_replication.scene import (
    FAILED_SECONDS,
    FLAGS,
    GROUP,
    NEAR,
    RETURN_SECONDS,
    judge,
    others_of,
    start,
)
from tests.faults.replication.scene import (
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

BEYOND_SECONDS = 2.0
"""How much later than a broker group is served again its delayed messages may be."""


@repeated
@pytest.mark.parametrize("copies", [2, pytest.param(3, marks=in_whole_fault_runs)])
async def test_a_killed_master_of_a_delay_group_is_replaced_and_returns(
    new_system: Callable[..., System], copies: int
) -> None:
    system = new_system(groups=1, delays=1, delay_copies=copies, **FLAGS)
    figures = Figures(f"kill -9 of a delay master, {copies} members")
    await start(system)
    async with DelayLoad(system, PER_SECOND, others=NEAR) as load:
        for _ in range(TURNS):
            old = await in_sync(system, GROUP)
            await load.flows(PER_SECOND)
            await asyncio.to_thread(process_of(system, old).kill)
            killed_at, killed_ms = time.monotonic(), now_ms()
            await becomes(system, "master", *others_of(system, old))
            figures.add("another master", time.monotonic() - killed_at, FAILED_SECONDS)
            await load.flows(PER_SECOND)
            await load.delivered(now_ms() - 1_000)
            figures.add("latest message", load.latest(killed_ms), FAILED_SECONDS)
            process_of(system, old).start(wait=False)
            await figures.timed(
                "in sync after its start", RETURN_SECONDS, lambda node=old: role_of(system, node) == "in_sync"
            )
    await judge(system, load, figures, TURNS)


@repeated
@in_whole_fault_runs
async def test_a_killed_master_of_a_broker_group_delays_its_messages_no_longer_than_its_failover(
    new_system: Callable[..., System],
) -> None:
    system = new_system(groups=1, copies=2, delays=1, delay_copies=2, **FLAGS)
    figures = Figures("kill -9 of a broker master")
    await start(system, near=0)
    async with DelayLoad(system, PER_SECOND) as load:
        for _ in range(TURNS):
            old = await in_sync(system, "g1")
            await load.flows(PER_SECOND)
            await asyncio.to_thread(process_of(system, old).kill)
            killed_at, killed_ms = time.monotonic(), now_ms()
            await becomes(system, "master", *others_of(system, old))
            failover = time.monotonic() - killed_at
            figures.add("failover of the broker group", failover, FAILED_SECONDS)
            await load.flows(PER_SECOND)
            await load.delivered(now_ms() - 1_000)
            figures.add(
                "latest message, beyond the failover", max(0.0, load.latest(killed_ms) - failover), BEYOND_SECONDS
            )
            process_of(system, old).start(wait=False)
    await judge(system, load, figures, TURNS)
