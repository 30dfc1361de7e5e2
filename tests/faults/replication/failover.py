"""A failover of one group under load, and how long its parts take."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from tests.faults.replication.direct_sends import DirectSends
from tests.faults.replication.load import Load
from tests.faults.replication.scene import LOOK_SECONDS, Figures, becomes, in_sync, process_of, role_of
from tests.support.promises import PromiseBroken
from tests.support.servers.system import System
from tests.support.waiting import eventually, eventually_async

CONSUMED_SECONDS = 10.0
WRITABLE_SECONDS = 2.0
RETURN_SECONDS = 30.0
REQUESTS = 50
"""Sent directly to a master whose slaves stand still."""


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


@asynccontextmanager
async def stored_alone(
    system: System, load: Load, master: str, direct: DirectSends
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Enter the block when the disk of a master of g1 has messages that its slaves, which stand still inside the block, lack.

    Args:
        direct: a connection to the master. The value of the block are the requests on it, which have no answers yet.

    Raises:
        PromiseBroken: The master has acknowledged one of these messages.
    """

    def synced_end() -> int:
        return int(system.admin(master.removesuffix("-a"), "/stats?subject=-")["log"]["synced_end"])

    def is_stored() -> bool:
        ends.append(synced_end())
        return begin < ends[-1] == ends[-2]

    with ExitStack() as stack:
        for node, process in system.members("g1").items():
            if node != master:
                stack.enter_context(process.paused())
        acked, begin = direct.acked, await asyncio.to_thread(synced_end)
        ends = [begin]
        requests = [direct.send() for _ in range(REQUESTS)]
        # The log stops growing, because the requests of clients in flight are limited.
        await asyncio.to_thread(eventually, is_stored, what="the log of the master is synced", every_s=LOOK_SECONDS)
        load.check()
        if direct.acked > acked:
            raise PromiseBroken(f"{master} acknowledged {direct.acked - acked} messages that its slaves do not have")
        yield requests


async def kill_and_return(system: System, load: Load, figures: Figures) -> None:
    """Kill the master of g1 when its disk has more than those of its slaves, wait until another one serves, and start it again."""
    old = await in_sync(system, "g1")
    await load.flows()
    async with (
        DirectSends(load, "127.0.0.1", system.port_of(old), "g1") as direct,
        stored_alone(system, load, old, direct) as requests,
    ):
        before = time.monotonic()
        await asyncio.to_thread(process_of(system, old).kill)
        killed_at, killed_at_ms = time.monotonic(), time.time() * 1000
    await asyncio.gather(*requests)
    await consumed_again(load, figures, killed_at_ms)
    await becomes(system, "master", *(node for node in system.members("g1") if node != old))
    if system.copies > 2:
        await written_again(load, figures, killed_at)
    await load.flows()
    figures.add("slowest send of the subject", load.sends.seconds(before)[-1], WRITABLE_SECONDS)
    process_of(system, old).start(wait=False)
    await figures.timed("old master in sync", RETURN_SECONDS, lambda: role_of(system, old) == "in_sync")
    await in_sync(system, "g1")
