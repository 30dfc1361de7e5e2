"""Random faults of a group whose log is short, so that slaves copy."""

import asyncio
import os
from collections.abc import Coroutine

import pytest

from qmq_node.replication.master import retention_holds
from tests.sim.replication.copying import make_copies_small
from tests.sim.replication.storms import Storm, settle

SEEDS = 100 if os.environ.get("QMQ_SIM") == "full" else 6
STEPS = 6
AWAY_SECONDS = 6.0
"""In this time the master appends more than it retains."""


class CopyStorm(Storm):
    """A slave is away for too long at times, and while it copies, something else happens."""

    async def step(self) -> None:
        names = [
            name
            for name, host in self.group.hosts.items()
            if host.server and name != self.group.membership.value.master
        ]
        if names and self.rng.random() < 0.6:
            host = self.group.hosts[self.rng.choice(names)]
            host.kill()
            await asyncio.sleep(AWAY_SECONDS)
            host.start()
            await asyncio.sleep(self.rng.uniform(0, 0.5))
        await super().step()


def make_copies_frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slaves copy what is small, and the log is not held for them for long."""
    make_copies_small(monkeypatch)
    monkeypatch.setattr(retention_holds, "HOLD_SECONDS", 1.0)


async def endured(storm: CopyStorm, watching: Coroutine[None, None, None]) -> None:
    """A storm of STEPS while messages are sent, until all members run and are in sync, and nothing is sent any more."""
    tasks = [asyncio.create_task(storm.produce()), asyncio.create_task(watching)]
    for _ in range(STEPS):
        await storm.step()
    await settle(storm.group)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await settle(storm.group)
