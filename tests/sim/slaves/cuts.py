"""Faults of the network between members, metaservers and clients."""

import asyncio
import math
from dataclasses import dataclass

from tests.sim.slaves.watch import GroupWatch
from tests.sim.swarm.runs import Storm
from tests.sim.world.cluster import Host

CUT_SECONDS = (0.5, 2.0, 4.0, 9.0, 14.0)
"""A cut lasts for one of these: shorter and longer than a slave, and a master, may be silent."""
NARROW_BYTES_PER_SECOND = 125_000.0
"""1 Mbit/s."""
RESET_CHANCE = 0.05
"""How often the connection of bytes that arrive is reset, while that fault lasts."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The two sides of a cut. `one` is a role that one node has; `several` is a group of nodes, of which one or all are cut off."""

    one: str
    several: str
    way: str
    """`and`: in both directions; `to`: those from `one`; `from`: those to `one`."""


SHAPES = {
    "cut_master_and_slave": Shape("master", "slaves", "and"),
    "cut_master_to_slave": Shape("master", "slaves", "to"),
    "cut_slave_to_master": Shape("master", "slaves", "from"),
    "cut_master_and_meta": Shape("master", "metas", "and"),
    "cut_master_to_meta": Shape("master", "metas", "to"),
    "cut_meta_to_master": Shape("master", "metas", "from"),
    "cut_slave_and_meta": Shape("slave", "metas", "and"),
    "cut_slave_to_meta": Shape("slave", "metas", "to"),
    "cut_meta_to_slave": Shape("slave", "metas", "from"),
    "cut_master_off": Shape("master", "servers", "and"),
    "cut_client_and_master": Shape("master", "clients", "and"),
}
"""By name of the fault; all shapes of F18."""


class Cuts(Storm):
    """Injects faults of the network."""

    watch: GroupWatch

    def _node(self) -> Host:
        return self._rng.choice(list(self.watch.hosts.values()))

    def _master(self) -> Host:
        """The membership's master; before there is one, any member."""
        membership = self.watch.membership
        return self.watch.hosts[membership.master] if membership is not None and membership.master else self._node()

    def _member(self) -> Host:
        """A member, the master half of the time."""
        return self._master() if self._rng.random() < 0.5 else self._node()

    def _slaves(self) -> list[Host]:
        master = self._master()
        return [host for host in self.watch.hosts.values() if host is not master] or [master]

    async def cut_shape(self, shape: Shape) -> None:
        """Packets between the servers of a shape are lost for a while."""
        one = self._master() if shape.one == "master" else self._rng.choice(self._slaves())
        metas, slaves = list(self._cluster.metas), [host.name for host in self._slaves() if host is not one]
        clients = [actor.name for actor in self._actors]
        several = {"slaves": slaves, "metas": metas, "servers": [*slaves, *metas], "clients": clients}[shape.several]
        if shape.several != "servers" and several:
            several = self._rng.choice((several, [self._rng.choice(several)]))
        await self._cut(one.name, shape.way, several)

    async def cut_off(self) -> None:
        """Any member can't reach some or all other servers, or they can't reach it, or both."""
        host = self._member()
        metas = list(self._cluster.metas)
        members = [other.name for other in self.watch.hosts.values() if other is not host]
        others = self._rng.choice((metas, members, metas[:1], members[:1], [*metas, *members]))
        await self._cut(host.name, self._rng.choice(("and", "and", "to", "from")), others)

    async def _cut(self, name: str, way: str, others: list[str]) -> None:
        seconds = self._rng.choice(CUT_SECONDS)
        self.note(f"cut {name} {way} {', '.join(others)} for {seconds} s")
        network = self._cluster.network
        for other in others:
            one, two = (other, name) if way == "from" else (name, other)
            network.cut(one, two, one_way=way != "and")
        await asyncio.sleep(seconds)
        for other in others:
            network.mend(name, other)

    async def flapping_cut(self) -> None:
        """The connection between two servers breaks again and again."""
        names = [host.name for host in self.watch.hosts.values()]
        one, other = self._rng.sample([*names, *self._cluster.metas], 2)
        self.note(f"{one} and {other} are cut every second")
        for _ in range(self._rng.randint(2, 5)):
            self._cluster.network.cut(one, other)
            await asyncio.sleep(self._rng.uniform(0.2, 1.5))
            self._cluster.network.mend(one, other)
            await asyncio.sleep(self._rng.uniform(0.2, 1.5))

    async def narrow_link(self) -> None:
        """A member's connections to all other servers have a bandwidth of 1 Mbit/s."""
        host, network = self._member(), self._cluster.network
        others = [name for name in self._cluster.hosts if name != host.name]
        self.note(f"connections of {host.name} have 1 Mbit/s")
        for name in others:
            network.limit(host.name, name, NARROW_BYTES_PER_SECOND)
        await asyncio.sleep(self._rng.uniform(1, 6))
        for name in others:
            network.limit(host.name, name, math.inf)

    async def reset_on_arrival(self) -> None:
        """Connections of a member end when bytes arrive on them: a request is lost, or was executed and its answer is lost."""
        network, name = self._cluster.network, self._member().name
        if network.resets is not None:
            return
        self.note(f"connections of {name} are reset when bytes arrive")
        network.resets = lambda source, target: name in (source, target) and self._rng.random() < RESET_CHANCE
        await asyncio.sleep(self._rng.uniform(1, 4))
        network.resets = None
