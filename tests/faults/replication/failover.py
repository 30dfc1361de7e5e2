"""A failover of one group under load, and how long its parts take."""

import asyncio
import time

from tests.faults.replication.load import Load
from tests.faults.replication.scene import Figures, becomes, in_sync, process_of, role_of
from tests.support.system import System
from tests.support.waiting import eventually_async

CONSUMED_SECONDS = 10.0
WRITABLE_SECONDS = 2.0
RETURN_SECONDS = 30.0


async def consumed_again(load: Load, figures: Figures, killed_at_ms: float, limit_s: float = CONSUMED_SECONDS) -> None:
    """Wait until a message of g1 arrives that was pulled after this moment (milliseconds since the epoch)."""

    def is_consumed() -> bool:
        load.check()
        return load.stock.newest_ms > killed_at_ms

    await eventually_async(is_consumed, what="g1 is consumed again")
    figures.add("consumed again", (load.stock.newest_ms - killed_at_ms) / 1000, limit_s)


async def written_again(load: Load, figures: Figures, killed_at: float, limit_s: float = CONSUMED_SECONDS) -> None:
    """Wait until g1 acknowledges a send that began after this moment (monotonic seconds)."""

    def is_written() -> bool:
        load.check()
        return load.sends.newest.get("g1", 0.0) > killed_at

    await eventually_async(is_written, what="g1 is written again")
    figures.add("written again", time.monotonic() - killed_at, limit_s)


async def kill_and_return(system: System, load: Load, figures: Figures) -> None:
    """Kill the master of g1 when all members are in sync, wait until another one serves, and start the old one again."""
    old = await in_sync(system, "g1")
    await load.flows()
    before = time.monotonic()
    await asyncio.to_thread(process_of(system, old).kill)
    killed_at, killed_at_ms = time.monotonic(), time.time() * 1000
    await consumed_again(load, figures, killed_at_ms)
    await becomes(system, "master", *(node for node in system.members("g1") if node != old))
    if system.copies > 2:
        await written_again(load, figures, killed_at)
    await load.flows()
    figures.add("slowest send of the subject", load.sends.seconds(before)[-1], WRITABLE_SECONDS)
    process_of(system, old).start(wait=False)
    await figures.timed("old master in sync", RETURN_SECONDS, lambda: role_of(system, old) == "in_sync")
    await in_sync(system, "g1")
