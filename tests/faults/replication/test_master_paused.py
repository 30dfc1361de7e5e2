"""F22: SIGSTOP of a master for 12 s under load, with two and three members: it may not acknowledge what its successor lacks."""

import asyncio
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.faults.replication.direct_sends import DirectSends
from tests.faults.replication.failover import consumed_again, stored_alone, written_again
from tests.faults.replication.load import Load
from tests.faults.replication.scene import (
    IS_FULL,
    NODE_FLAGS,
    PER_SECOND,
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
from tests.support.servers.system import System
from tests.support.whole import in_whole_fault_runs

PAUSE_SECONDS = 12.0 if IS_FULL else 0.0
"""At least; the pause ends when there is another master."""
REQUESTS = 50
"""Sent over an open connection to the master that stands still."""


@repeated
@pytest.mark.parametrize("copies", [pytest.param(2, marks=in_whole_fault_runs), 3])
async def test_f22_a_master_that_stood_still_acknowledges_nothing_that_its_successor_lacks(
    new_system: Callable[..., System], copies: int
) -> None:
    system, figures = new_system(groups=2, copies=copies, broker_flags=NODE_FLAGS), Figures(f"F22, {copies} members")
    await start(system)
    acked = rejected = 0
    async with Load(system.meta_url, PER_SECOND) as load:
        for _ in range(TURNS):
            old = await in_sync(system, "g1")
            await load.flows()
            address = "127.0.0.1", system.port_of(old)
            async with DirectSends(load, *address, "g1") as early, DirectSends(load, *address, "g1") as direct:
                await direct.send()
                assert direct.acked == 1, direct.not_acked
                with ExitStack() as pause:
                    async with stored_alone(system, load, old, early) as requests:
                        pause.enter_context(process_of(system, old).paused())
                    paused_at, paused_at_ms = time.monotonic(), time.time() * 1000
                    requests += [direct.send() for _ in range(REQUESTS)]
                    await becomes(system, "master", *(node for node in system.members("g1") if node != old))
                    figures.add("another master", time.monotonic() - paused_at, 10)
                    await consumed_again(load, figures, paused_at_ms)
                    if copies > 2:
                        await written_again(load, figures, paused_at)
                    await load.until(paused_at + PAUSE_SECONDS)
                await figures.timed(
                    "steps down after it continues", 1, lambda node=old: role_of(system, node) not in ("master", "")
                )
                await asyncio.gather(*requests)
                acked, rejected = acked + direct.acked - 1, rejected + len(direct.not_acked)
            await figures.timed("in sync after it continues", 30, lambda node=old: role_of(system, node) == "in_sync")
    figures.report()
    print(
        f"figure: F22, {copies} members: {acked} of {acked + rejected} direct sends acknowledged, all of them received"
    )
    assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(system)
