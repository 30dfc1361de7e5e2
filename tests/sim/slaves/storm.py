"""The faults of a run with slaves: those of the swarm on all members, and those that only matter with several members."""

import asyncio
from contextlib import suppress
from random import Random

from broker_node.broker import Broker
from qmq.daemon.replication.switch_over import SwitchOverRejected, SwitchOverUnknown
from tests.sim.cluster import Host
from tests.sim.disk import SimulatedDisk
from tests.sim.slaves.watch import GroupWatch
from tests.sim.swarm import Storm

AWAY_SECONDS = (7.0, 14.0)
"""Longer than a master may be silent: another member is promoted."""


SWITCH_OVER_SECONDS = 10.0
"""How long a switch-over is waited for; its node may be killed meanwhile."""


class SlavesStorm(Storm):
    """Injects faults into a broker group with slaves."""

    watch: GroupWatch

    def _node(self) -> Host:
        return self._rng.choice(list(self.watch.hosts.values()))

    def _member(self) -> Host:
        """A member, the master half of the time."""
        row = self.watch.row
        if row is not None and row.master and self._rng.random() < 0.5:
            return self.watch.hosts[row.master]
        return self._node()

    async def _start_later(self, host: Host, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self._cluster.network.power_on(host.name)
        if host.process is None and not host.is_wanted:
            host.start()

    async def kill_member(self) -> None:
        """A member is killed and starts again at once, or after another one was promoted."""
        host = self._member()
        if host.process is None:
            return
        seconds = self._rng.choice((0.05, 1.0, 3.0, self._rng.uniform(*AWAY_SECONDS)))
        self.note(f"kill {host.name} for {seconds:.1f} s")
        host.kill()
        await self._start_later(host, seconds)

    async def member_power_cut(self) -> None:
        """A member loses power for a short or a long time."""
        host = self._member()
        if host.process is None:
            return
        seconds = self._rng.choice((0.5, 2.0, self._rng.uniform(*AWAY_SECONDS)))
        self.note(f"power cut of {host.name} for {seconds:.1f} s")
        host.cut_power()
        await self._start_later(host, seconds)

    async def crash_at_step(self) -> None:
        """A member ends in the middle of what a thread of it does with files, also when it has just started again."""
        host = self._member()
        if host.process is None or host.weather.steps_until_crash:
            return
        for _ in range(self._rng.choice((1, 2, 4))):
            is_cut = self._rng.random() < 0.6
            steps = self._rng.randint(1, 30)
            self.note(f"{host.name} ends by a {'power cut' if is_cut else 'kill'} {steps} changes of files later")
            host.weather.crash = host.cut_power if is_cut else host.kill
            host.weather.steps_until_crash = steps
            await self._start_later(host, 0.0)
            await asyncio.sleep(self._rng.uniform(0.5, 3.0))
            host.weather.steps_until_crash = 0
        await self._start_later(host, self._rng.choice((0.0, 1.0, self._rng.uniform(*AWAY_SECONDS))))

    async def end_all(self) -> None:
        """All members are killed, or lose power, at once; they start again one after the other."""
        is_cut = self._rng.random() < 0.5
        self.note("all members lose power" if is_cut else "all members are killed")
        ended = [host for host in self.watch.hosts.values() if host.process is not None]
        for host in ended:
            if is_cut:
                host.cut_power()
            else:
                host.kill()
        await asyncio.gather(*(self._start_later(host, self._rng.uniform(0.1, 4)) for host in ended))

    async def stop_member(self) -> None:
        """A member is stopped gracefully, and started again."""
        host = self._member()
        if host.process is None or not host.is_wanted:
            return
        self.note(f"stop {host.name}")
        await host.stop()
        await self._start_later(host, self._rng.choice((0.1, 3.0)))

    async def pause_member(self) -> None:
        """A member stands still, for long enough that another one is promoted, or not."""
        host = self._member()
        process = host.process
        if process is None or process.is_paused:
            return
        seconds = self._rng.choice((0.5, 2.5, 5.0, 12.0))
        self.note(f"pause {host.name} for {seconds} s")
        process.pause()
        await asyncio.sleep(seconds)
        if not process.is_dead:
            process.resume()

    async def cut_off(self) -> None:
        """A member can't reach some or all other servers, or they can't reach it, or both."""
        host = self._member()
        metas = list(self._cluster.metas)
        members = [other.name for other in self.watch.hosts.values() if other is not host]
        others = self._rng.choice((metas, members, metas[:1], members[:1], [*metas, *members]))
        way = self._rng.choice(("and", "and", "to", "from"))
        seconds = self._rng.choice((0.5, 2.0, 4.0, 9.0, 14.0))
        self.note(f"cut {host.name} {way} {', '.join(others)} for {seconds} s")
        network = self._cluster.network
        for other in others:
            one, two = (other, host.name) if way == "from" else (host.name, other)
            network.cut(one, two, one_way=way != "and")
        await asyncio.sleep(seconds)
        for other in others:
            network.mend(host.name, other)

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

    async def switch_over(self) -> None:
        """An operator has the master switch over to a slave."""
        row = self.watch.row
        host = self.watch.hosts.get(row.master) if row is not None else None
        if host is None or host.process is None or not isinstance(host.server, Broker):
            return
        self.note(f"switch-over of {host.name}")
        await asyncio.wait({host.process.start(_switch_over(host.server))}, timeout=SWITCH_OVER_SECONDS)

    async def slow_syncs(self) -> None:
        """Each sync of a member takes as long as on a busy network disk."""
        host = self._node()
        host.weather.sync_seconds = self._rng.choice((0.05, 0.15))
        self.note(f"syncs of {host.name} take {host.weather.sync_seconds} s")
        await asyncio.sleep(self._rng.uniform(1, 7))
        host.weather.sync_seconds = 0.0

    def hanging_sync(self) -> None:
        """One sync of a member takes seconds."""
        host = self._member()
        host.weather.hang_seconds = self._rng.choice((1.5, 4.0, 10.0))
        self.note(f"a sync of {host.name} takes {host.weather.hang_seconds} s")

    async def new_disk(self) -> None:
        """A member gets a new disk, if another one in sync keeps what was acknowledged."""
        host = self._member()
        node = next(name for name, one in self.watch.hosts.items() if one is host)
        if host.process is None or not self.may_lose(node):
            return
        self.note(f"{host.name} gets a new disk")
        host.kill()
        host.disk = empty_disk(host, self._cluster.loop.rng(f"new disk {len(self.events)}"))
        self.watch.new_disk(node)
        await self._start_later(host, self._rng.choice((0.1, 2.0, 8.0)))

    def may_lose(self, node: str) -> bool:
        """Whether another member has everything: it runs, the newest row names it, and its disk is as it was.

        If it did not run, the member that lost its disk might be promoted for its last heartbeat, and would be alone in the set.
        """
        running = {name for name, host in self.watch.hosts.items() if host.is_serving}
        return bool(self.watch.in_sync_nodes() & running - {node})


async def _switch_over(broker: Broker) -> None:
    with suppress(SwitchOverRejected, SwitchOverUnknown):
        await broker.switch_over("")


def empty_disk(host: Host, rng: Random) -> SimulatedDisk:
    """Return a new disk for a host."""
    return SimulatedDisk(host.disk._loop, host.name, rng, host.weather)


FAULTS = (
    "kill",
    "kill_member",
    "member_power_cut",
    "crash_at_step",
    "end_all",
    "stop_member",
    "pause",
    "pause_member",
    "kill_client",
    "cut",
    "cut_off",
    "flapping_cut",
    "slow_link",
    "switch_over",
    "reset",
    "slow_disk",
    "slow_syncs",
    "hanging_sync",
    "failing_sync",
    "full_disk",
    "new_disk",
    "clock_step",
    "database_away",
    "lost_replies",
    "restored_database",
)
