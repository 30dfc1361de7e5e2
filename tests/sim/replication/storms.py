"""Random faults of a group."""

import asyncio
from contextlib import suppress
from random import Random

from qmq.errors import QmqError
from qmq.protocol.group_memberships import MembershipResult
from qmq_node.replication.rules.membership import ChangeRejected
from qmq_node.replication.switch_overs import SwitchOverRejected, SwitchOverUnknown
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
            master = self.group.membership.value.master
            if not master or not self.group.is_master(master):
                continue
            with suppress(QmqError, AssertionError, OSError):
                async with client_of(self.group.node(master)) as client:
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
        membership = self.group.membership.value
        able = [
            name
            for name in membership.in_sync
            if self.group.hosts[name].server is not None and name != membership.master
        ]
        if not able or not membership.master:
            able = [name for name in membership.in_sync if self.group.hosts[name].server is not None]
        if able:
            with suppress(ChangeRejected):
                self.group.membership.promote(self.rng.choice(able))

    async def switch_over(self, name: str) -> None:
        """Request a switch-over of a node, which may end meanwhile."""
        with suppress(SwitchOverRejected, SwitchOverUnknown):
            await self.group.node(name).replication.switch_over("")
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
            master = group.membership.value.master
            if master and group.is_master(master):
                if rng.random() < 0.3:
                    # It is done, and its answer is lost.
                    group.membership.outcomes = [MembershipResult.UNAVAILABLE]
                self.switches.append(asyncio.create_task(self.switch_over(master)))
        elif what == "database":
            group.membership.is_available = not group.membership.is_available
        elif what == "uninformed":
            group.uninformed ^= {name}
        await asyncio.sleep(rng.uniform(0, 2))
        membership = group.membership.value
        master = group.hosts[membership.master] if membership.master else None
        waits = (
            master is not None
            and master.server is not None
            and "it led epoch" in group.node(membership.master).readiness()
        )
        if master is None or master.server is None or waits:
            await self.promote()


async def settle(group: Members) -> None:
    """All members run, know the membership, and are in sync."""
    group.uninformed.clear()
    group.membership.is_available, group.membership.outcomes = True, []
    for name, host in group.hosts.items():
        if host.process is None:
            running_loop().network.power_on(name)
            host.start()

    def is_well() -> bool:
        membership = group.membership.value
        if any(host.server is None for host in group.hosts.values()):
            return False
        if not group.is_master(membership.master):
            if "it led epoch" in group.node(membership.master).readiness():
                group.membership.promote(membership.master)
            return False
        return membership.in_sync == membership.members

    await eventually_async(is_well, 60)
