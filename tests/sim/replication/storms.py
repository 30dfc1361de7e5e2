"""Random faults of a group."""

import asyncio
from contextlib import suppress
from random import Random

from qmq.errors import QmqError
from qmq.protocol.group_rows import RowResult
from qmq_node.replication.rules.row import ChangeRejected
from qmq_node.replication.switch_over.switch_over import SwitchOverRejected, SwitchOverUnknown
from tests.sim.replication.pair import Members, client_of
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import message
from tests.support.waiting import eventually_async


class Storm:
    """Sends, and what happens to the members meanwhile."""

    def __init__(self, group: Members, rng: Random) -> None:
        self.group, self.rng = group, rng
        self.acknowledged: list[str] = []
        self.unknown: set[str] = set()
        self._number = 0
        self.switches: list[asyncio.Task[None]] = []
        self.switched = 0
        """Switch-overs that were made."""

    async def produce(self) -> None:
        """Send to the master, one message after another, until cancelled."""
        while True:
            await asyncio.sleep(0.02)
            master = self.group.row.value.master
            if not master or not self.group.is_master(master):
                continue
            with suppress(QmqError, AssertionError, OSError):
                async with client_of(self.group.broker(master)) as client:
                    while not client.caller.is_closed:
                        await self._send(client)
                        await asyncio.sleep(0.05)

    async def _send(self, client: object) -> None:
        self._number += 1
        name = f"m{self._number}"
        self.unknown.add(name)
        async with asyncio.timeout(5):
            failures = await client.send(message(self._number))  # type: ignore[attr-defined]
        self.unknown.discard(name)
        if not failures:
            self.acknowledged.append(name)

    async def promote(self) -> None:
        """Promote a member of the set that runs, as a metaserver does that suspects the master."""
        row = self.group.row.value
        able = [name for name in row.in_sync if self.group.hosts[name].server is not None and name != row.master]
        if not able or not row.master:
            able = [name for name in row.in_sync if self.group.hosts[name].server is not None]
        if able:
            with suppress(ChangeRejected):
                self.group.row.promote(self.rng.choice(able))

    async def switch_over(self, name: str) -> None:
        """Request a switch-over of a node, which may end meanwhile."""
        with suppress(SwitchOverRejected, SwitchOverUnknown):
            await self.group.broker(name).replication.switch_over("")
            self.switched += 1

    async def step(self) -> None:
        """Something happens."""
        rng, group = self.rng, self.group
        name = rng.choice(list(group.hosts))
        host = group.hosts[name]
        what = rng.choice(("kill", "power", "stop", "promote", "switch over", "uninformed", "database", "nothing"))
        if what in ("kill", "power") and host.server is not None:
            if what == "kill":
                host.kill()
            else:
                host.cut_power()
            await asyncio.sleep(rng.uniform(0, 3))
            if what == "power":
                running_loop().network.power_on(name)
            host.start()
        elif what == "stop" and host.server is not None:
            await host.stop()
            host.start()
        elif what == "promote":
            await self.promote()
        elif what == "switch over":
            master = group.row.value.master
            if master and group.is_master(master):
                if rng.random() < 0.3:
                    # It is done, and its answer is lost.
                    group.row.outcomes = [RowResult.UNAVAILABLE]
                self.switches.append(asyncio.create_task(self.switch_over(master)))
        elif what == "database":
            group.row.is_available = not group.row.is_available
        elif what == "uninformed":
            group.uninformed ^= {name}
        await asyncio.sleep(rng.uniform(0, 2))
        row = group.row.value
        master = group.hosts[row.master] if row.master else None
        waits = (
            master is not None and master.server is not None and "it led epoch" in group.broker(row.master).readiness()
        )
        if master is None or master.server is None or waits:
            await self.promote()


async def settle(group: Members) -> None:
    """All members run, know the row, and are in sync."""
    group.uninformed.clear()
    group.row.is_available, group.row.outcomes = True, []
    for name, host in group.hosts.items():
        if host.process is None:
            running_loop().network.power_on(name)
            host.start()

    def is_well() -> bool:
        row = group.row.value
        if any(host.server is None for host in group.hosts.values()):
            return False
        if not group.is_master(row.master):
            if "it led epoch" in group.broker(row.master).readiness():
                group.row.promote(row.master)
            return False
        return row.in_sync == row.members

    await eventually_async(is_well, 60)
