"""What the tests of this folder share: systems with replicated delay groups, and pending messages that stay."""

import asyncio
import json
import os

from qmq.node_admin import NodeAdmin
from tests.faults.delay_replication.load import DelayLoad
from tests.faults.replication.scene import (
    IS_FULL,
    NODE_FLAGS,
    SEGMENT,
    Figures,
    becomes,
    groups_of,
    in_sync,
    logs_are_equal,
)
from tests.support.promises import judging
from tests.support.servers.system import System

GROUP = "d1"
NEAR = int(os.environ.get("QMQ_FAULTS_NEAR") or (1_000_000 if IS_FULL else 20_000))
"""Messages in the wheel that do not fall due meanwhile."""
STORE_SECONDS = 600.0
"""Limit of storing them."""
LOAD_AHEAD_MINUTES, NEAR_MINUTES = 300, (200, 210)
DELAY_FLAGS = (
    *("--load-ahead-minutes", str(LOAD_AHEAD_MINUTES), "--copy-bytes-per-second", str(64 << 20)),
    *("--checkpoint-bytes", str(32 << 20), *SEGMENT),
)  # fmt: skip
FLAGS = {"broker_flags": NODE_FLAGS, "delay_flags": DELAY_FLAGS}
"""Of the nodes, for `new_system`."""
FAILED_SECONDS = 10.0
"""Limit of lateness after a kill."""
RETURN_SECONDS = 30.0
ANSWER_SECONDS = 20.0
"""Of an operator's request."""


async def start(system: System, near: int = NEAR) -> None:
    """Start a system whose groups accept sends with one member in sync, wait until all members are, and store `near`
    messages."""
    await asyncio.to_thread(system.start)
    for group in groups_of(system):
        await in_sync(system, group)
        if len(system.members(group)) > 1:
            await asyncio.to_thread(system.call_service, "members.set_copies", group, {"in_sync_min": 1})
    if near:
        await asyncio.to_thread(store_near, system, near)


def store_near(system: System, count: int) -> None:
    """Store so many messages that are due in NEAR_MINUTES."""
    due_from, due_to = (f"{minutes}m" for minutes in NEAR_MINUTES)
    flags = (f"--count={count}", f"--due-from={due_from}", f"--due-to={due_to}", "--batch=500", "--json")
    done = system.qmq("bench", "delay", "near", *flags, timeout=STORE_SECONDS)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["messages"] == count


def others_of(system: System, node: str) -> list[str]:
    """Return the other members of a node's group."""
    return [other for other in system.members(node.rpartition("-")[0]) if other != node]


async def switch_over(system: System, master: str) -> str:
    """Have a slave lead the delay group, as an operator requests; return the new master."""
    _, port = system.ports[master.removesuffix("-a")]
    answer = await NodeAdmin(f"127.0.0.1:{port}", timeout_seconds=ANSWER_SECONDS).switch_over()
    await becomes(system, "master", answer["to"])
    return str(answer["to"])


async def judge(system: System, load: DelayLoad, figures: Figures, failovers: int = 0) -> None:
    """Report figures. No send may have failed, and nothing may have been delivered twice beyond what failovers may repeat."""
    figures.report()
    with judging():
        assert not load.sends.errors, load.sends.errors[:5]
    print(f"figure: {load.check_repeats(failovers)} messages were delivered twice by {failovers} failovers")
    await logs_are_equal(system)
