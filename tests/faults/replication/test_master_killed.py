"""F1: kill -9 of a master under load, with two and three members. F32: of a metaserver before that."""

import asyncio
import time
from collections.abc import Callable

import pytest

from metaserver.memory.live_groups import EXPIRY_SECONDS
from tests.faults.replication.failover import kill_and_return
from tests.faults.replication.load import Load
from tests.faults.replication.scene import (
    IS_FULL,
    NODE_FLAGS,
    PER_SECOND,
    TURNS,
    Figures,
    logs_are_equal,
    repeated,
    start,
)
from tests.support.servers.system import System
from tests.support.whole import in_whole_fault_runs

STEADY_SECONDS = EXPIRY_SECONDS + 2 if IS_FULL else 0.0
"""A metaserver does not promote within EXPIRY_SECONDS of its start."""
FAST = 10_000 if IS_FULL else 500


@repeated
@pytest.mark.parametrize("copies", [pytest.param(2, marks=in_whole_fault_runs), 3])
async def test_f1_a_killed_master_is_replaced_and_returns(new_system: Callable[..., System], copies: int) -> None:
    system, figures = new_system(groups=2, copies=copies, broker_flags=NODE_FLAGS), Figures(f"F1, {copies} members")
    await start(system)
    async with Load(system.meta_url, FAST) as load:
        for _ in range(TURNS):
            await load.flows(FAST)
            await kill_and_return(system, load, figures)
    figures.report()
    assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(system)


@repeated
async def test_f32_one_of_two_metaservers_replaces_a_killed_master(new_system: Callable[..., System]) -> None:
    system, figures = new_system(groups=2, copies=2, metas=2, broker_flags=NODE_FLAGS), Figures("F32")
    await start(system)
    metas = list(system.metas.values())
    async with Load(system.meta_url, PER_SECOND) as load:
        for turn in range(TURNS):
            killed = metas[turn % 2]
            await asyncio.to_thread(killed.kill)
            await kill_and_return(system, load, figures)
            await asyncio.to_thread(killed.start)
            # Sooner, the one that has just started would not promote: the other one would be the second fault.
            await load.until(time.monotonic() + STEADY_SECONDS)
    figures.report()
    assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(system)
