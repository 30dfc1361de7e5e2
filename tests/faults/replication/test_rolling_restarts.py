"""F6: SIGTERM of all nodes, one after the other, under load of our client and of the official Java client: no send fails."""

import asyncio
import time
from collections.abc import Callable

import pytest

from tests.faults.replication.java_load import JavaLoad
from tests.faults.replication.load import Load
from tests.faults.replication.scene import (
    NODE_FLAGS,
    PER_SECOND,
    TURNS,
    Figures,
    in_sync,
    logs_are_equal,
    repeated,
    start,
)
from tests.support.promises import judging
from tests.support.servers.system import System

SWITCHED = "after requests were held"
"""In the log of a master that has a successor by a switch-over, and not because it is gone."""


async def restart_all(system: System, load: Load, java: JavaLoad | None, figures: Figures) -> None:
    """Restart each node of each group TURNS times, when all members of its group are in sync.

    A master that stops makes another node the master, so every second turn is in the reverse order: otherwise each node that is
    stopped would be the master.
    """
    for turn in range(TURNS):
        for group in system.brokers:
            nodes = list(system.members(group).items())
            for node, process in reversed(nodes) if turn % 2 else nodes:
                role = "master" if await in_sync(system, group) == node else "slave"
                began, switched = time.monotonic(), process.log().count(SWITCHED)
                assert await asyncio.to_thread(process.stop) == 0
                if role == "master":
                    assert process.log().count(SWITCHED) > switched, "it stopped before it had a successor"
                await load.flows()
                await asyncio.to_thread(process.start)
                await in_sync(system, group)
                figures.add(f"{role} stopped: slowest send", load.sends.seconds(began)[-1], 1)
                if java is not None:
                    await java.flows()
                    figures.add(f"{role} stopped: slowest send of the Java client", java.seconds(began), 1)


@repeated
async def test_f6_all_nodes_are_restarted_one_after_the_other(new_system: Callable[..., System]) -> None:
    system, figures = new_system(groups=2, copies=2, broker_flags=NODE_FLAGS), Figures("F6")
    await start(system)
    async with Load(system.meta_url, PER_SECOND) as load:
        await restart_all(system, load, None, figures)
    figures.report()
    with judging():
        assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(system)


@repeated
@pytest.mark.usefixtures("java_tools")
async def test_f6_the_official_client_sees_no_error(new_system: Callable[..., System]) -> None:
    system, figures = new_system(groups=2, copies=2, broker_flags=NODE_FLAGS), Figures("F6, Java")
    await start(system)
    async with Load(system.meta_url, 100) as load, JavaLoad(system, system.folder / "java.log") as java:
        await restart_all(system, load, java, figures)
    figures.report()
    with judging():
        assert not java.failed, f"{java.failed} of {java.requested} sends of the Java client failed"
        assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(system)
