"""F1: kill -9 of a master under load, with two and three members."""

import asyncio
import time
from collections.abc import Callable

import pytest

from tests.faults.replication.load import Load
from tests.faults.replication.scene import (
    IS_FULL,
    NODE_FLAGS,
    TURNS,
    Figures,
    becomes,
    in_sync,
    logs_are_equal,
    process_of,
    repeated,
    role_of,
    start,
)
from tests.support.system import System
from tests.support.waiting import eventually_async

PER_SECOND = 10_000 if IS_FULL else 500


@repeated
@pytest.mark.parametrize("copies", [2, 3])
async def test_f1_a_killed_master_is_replaced_and_returns(new_system: Callable[..., System], copies: int) -> None:
    system, figures = new_system(groups=2, copies=copies, broker_flags=NODE_FLAGS), Figures(f"F1, {copies} members")
    await start(system)
    async with Load(system.meta_url, PER_SECOND) as load:
        for _ in range(TURNS):
            old = await in_sync(system, "g1")
            await load.flows(PER_SECOND)
            before = time.monotonic()
            await asyncio.to_thread(process_of(system, old).kill)
            killed_at, killed_at_ms = time.monotonic(), time.time() * 1000

            def consumed(since_ms: float = killed_at_ms) -> bool:
                load.check()
                return load.stock.newest_ms > since_ms

            await eventually_async(consumed, what="g1 is consumed")
            figures.add("consumed again", load.stock.newest_ms / 1000 - killed_at_ms / 1000, 10)
            others = [node for node in system.members("g1") if node != old]
            await becomes(system, "master", *others)
            if copies > 2:

                def written(since: float = killed_at) -> float:
                    load.check()
                    return load.sends.first_ack("g1", since)

                figures.add("written again", await eventually_async(written, what="g1 is written") - killed_at, 10)
            await load.flows(PER_SECOND)
            figures.add("slowest send of the subject", load.sends.seconds(before)[-1], 2)
            process_of(system, old).start(wait=False)
            await figures.timed("old master in sync", 30, lambda node=old: role_of(system, node) == "in_sync")
            await in_sync(system, "g1")
    figures.report()
    assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(system)
