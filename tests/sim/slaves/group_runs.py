"""What schedules of broker groups with slaves have in common: their begin, a storm for each group, healing, and the end."""

import abc
import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from tests.sim.slaves.members import Members
from tests.sim.slaves.storm import SlavesStorm
from tests.sim.swarm import checks
from tests.sim.swarm.history import Broken, History
from tests.sim.swarm.meta_checks import agreement
from tests.sim.swarm.runs import Mix, beside
from tests.sim.swarm.workload import Actor
from tests.sim.world.cluster import Cluster

BEGIN_SECONDS = 10.0
HEALED_SECONDS = 20.0
"""After the last fault, each group is writable and all its members are in sync within this."""
EQUAL_SECONDS = 10.0
"""After the last send, all members have the same log, applied, within this."""
LOOK_SECONDS = 0.5
REPAIR_SECONDS = 3.0
"""After the faults, an operator replaces damaged disks so often."""


class GroupsRun(abc.ABC):
    """A schedule of one broker group with slaves, or of several."""

    storm_kind: type[SlavesStorm] = SlavesStorm

    def __init__(self, cluster: Cluster, mix: Mix) -> None:
        self.cluster = cluster
        self.history = History()
        self._mix = mix
        self.groups = [Members(cluster, self.history, name) for name in self.groups_of(cluster)]
        self._storms: list[SlavesStorm] = []

    def groups_of(self, cluster: Cluster) -> Iterable[str]:
        """The groups that have slaves."""
        return cluster.brokers

    @property
    def storm(self) -> SlavesStorm:
        """That of the first group; its events are those of all."""
        return self._storms[0]

    @abc.abstractmethod
    async def run(self) -> None:
        """Do all phases; what is broken is in `history.broken`."""

    def make_storms(self, actors: Sequence[Actor]) -> None:
        """Make a storm for each group."""
        for group in self.groups:
            # The first one draws as that of a schedule with one group.
            name = "storm" if not self._storms else f"storm of {group.name}"
            storm = self.storm_kind(self.cluster, actors, self.history, self._mix, name)
            storm.watch = group.watch
            self._storms.append(storm)
            storm.events = self.storm.events

    # --- phases ----------------------------------------------------------------------------------------------------

    async def begin(self, members: int, in_sync_min: int) -> None:
        """Start metaservers and so many members of each group, the first one before the others; wait until all are in sync."""
        started = {group.name: list(group.watch.hosts.values())[:members] for group in self.groups}
        for host in [*self.cluster.metas.values(), *(hosts[0] for hosts in started.values())]:
            host.start()
        await self.until(BEGIN_SECONDS, lambda: all(group.is_stored for group in self.groups))
        for group in self.groups:
            if len(started[group.name]) != self.cluster.copies:
                group.set(copies=len(started[group.name]))
        for hosts in started.values():
            for host in hosts[1:]:
                host.start()
        await self.until(BEGIN_SECONDS, lambda: all(group.is_well(started[group.name]) for group in self.groups))
        for group in self.groups:
            group.set(in_sync_min=in_sync_min)
        for host in self.cluster.hosts.values():
            host.weather.slowness = self._mix.slowness

    async def rage(self) -> None:
        """Have faults in all groups at the same time, and end them."""
        await asyncio.gather(*(storm.rage(self._mix.storm_seconds) for storm in self._storms))
        self.storm.heal()

    async def healed(self) -> bool:
        """Wait until each group is as it should be, if need be with an operator."""
        with beside(self._repair()):
            return await self.recovered("each group is writable and all members are in sync")

    async def _repair(self) -> None:
        while True:
            await asyncio.sleep(REPAIR_SECONDS)
            for storm in self._storms:
                await storm.repair()

    async def recovered(self, what: str) -> bool:
        """Wait until each group is as it should be."""
        return await self.within(what, HEALED_SECONDS, lambda: all(group.is_well() for group in self.groups))

    async def settled(self) -> bool:
        """Wait until all members of a group have the same log, and metaservers say the same."""
        return await self.within(
            "all members have the same log", EQUAL_SECONDS, lambda: all(group.is_equal() for group in self.groups)
        ) and await self.within(
            "all metaservers agree", EQUAL_SECONDS, lambda: next(agreement(self.cluster), None) is None
        )

    def check_servers(self) -> None:
        """Check that no server failed or waited for its disk on its event loop."""
        self.history.broken += checks.failures(self.cluster)
        self.cluster.assert_loops_clean()

    # --- looks -----------------------------------------------------------------------------------------------------

    def looking(self) -> AbstractContextManager[None]:
        """Compare everything on all members again and again in the block."""
        return beside(self._look())

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for group in self.groups:
                group.watch.look()

    async def within(self, what: str, seconds: float, is_so: Callable[[], bool]) -> bool:
        """Wait for a condition, which has to hold within so many seconds."""
        if await self.until(seconds, is_so):
            return True
        states = "; ".join(group.state() for group in self.groups)
        self.history.broken.append(Broken("progress", f"not within {seconds:g} s: {what}: {states}"))
        return False

    async def until(self, seconds: float, is_so: Callable[[], bool]) -> bool:
        """Wait for a condition; whether it holds within so many seconds."""
        end = self.cluster.loop.now + seconds
        while not is_so():
            if self.cluster.loop.now > end:
                return False
            await asyncio.sleep(0.1)
        return True
