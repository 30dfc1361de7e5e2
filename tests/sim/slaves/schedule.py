"""Schedules of a broker group with slaves under faults, each decided by one seed.

python -m tests.sim.slaves.schedule --seed 17          one schedule, with its last events if it fails
python -m tests.sim.slaves.schedule --seeds 1000       schedules 1 to 1000
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random
from typing import Any

from broker_node.broker import Broker
from metaserver.choices import GroupState
from metaserver.server import Metaserver
from tests.sim.cluster import Cluster, Host
from tests.sim.history import Broken, History
from tests.sim.loop import rng_of
from tests.sim.meta_checks import agreement
from tests.sim.slaves.clients import SlavesConsumer, SlavesSender
from tests.sim.slaves.copies import COPY_BYTES_PER_SECOND, small_copies
from tests.sim.slaves.final_checks import FinalChecks
from tests.sim.slaves.removals import RemovalWatch
from tests.sim.slaves.storm import FAULTS, SlavesStorm
from tests.sim.slaves.watch import GroupWatch
from tests.sim.swarm import Mix, Report, main, simulated
from tests.sim.world import World

GROUP = "g1"
HEALED_SECONDS = 20.0
"""After the last fault, the group is writable and all members are in sync within this."""
BEGIN_SECONDS = 10.0
EQUAL_SECONDS = 10.0
"""After the last send, all members have the same log, applied, within this."""
LOOK_SECONDS = 0.5
REPAIR_SECONDS = 3.0
"""After the faults, an operator replaces damaged disks so often."""
LEASE_SECONDS = 8.0
STEPS_MIN = 300
"""Events of a schedule: clients continue after the faults until there were so many."""
LONGER_SECONDS = 60.0
"""They do so at most for this."""
STORM_SECONDS = (8.0, 18.0)
"""How long faults come in a schedule."""
RETENTION_SEEDS, RETENTION_EVERY = 25, 5
"""So many seeds in a row have retention, of every so many times as many: seeds 26 to 50, 151 to 175, and so on."""
RETENTION_STORM_SECONDS = (12.0, 20.0)
RETENTION_SEGMENT_BYTES = 32 << 10
COMMAND = "make sim-slaves"
PAIRS = tuple(combinations(FAULTS, 2))
PAIRS_STEP = 149
"""From the pair of one seed to that of the next. It has no divisor in common with the number of pairs."""


@dataclass(frozen=True)
class SlavesMix(Mix):
    """What one schedule has."""

    copies: int = 2
    in_sync_min: int = 2
    grows: bool = False
    """The group begins with one member; an operator raises its copies."""
    producers: int = 1
    segment_bytes: int = 256 << 10
    retention_seconds: float = 0.0
    """Messages are kept for so long; 0.0: for all of the schedule."""

    @property
    def settings(self) -> dict[str, Any]:
        """Of the members."""
        found = {"consumer_lease_seconds": LEASE_SECONDS, "segment_bytes": self.segment_bytes}
        if not self.retention_seconds:
            return found
        return found | {
            "retention_hours": self.retention_seconds / 3_600,
            "checkpoint_seconds": 1.0,
            "copy_bytes_per_second": COPY_BYTES_PER_SECOND,
        }

    @property
    def checked_age_seconds(self) -> float:
        """How old all messages have to be that retention removes; 0.0: it is not known, because a clock that was wrong stamped
        some."""
        return 0.0 if set(self.faults) & {"clock_step", "clock_strobe"} else self.retention_seconds

    def with_retention(self, rng: Random) -> "SlavesMix":
        """Return this mix with small segments that are removed soon, and slaves that have to copy."""
        return replace(
            self,
            copies=max(2, self.copies),
            faults=(*self.faults, "interrupted_copy", "interrupted_copy"),
            storm_seconds=rng.uniform(*RETENTION_STORM_SECONDS),
            producers=3,
            segment_bytes=RETENTION_SEGMENT_BYTES,
            retention_seconds=rng.choice((1.0, 3.0)),
        )

    @classmethod
    def draw(cls, rng: Random, pair: tuple[str, str]) -> "SlavesMix":
        """Return a mix: a pair of faults and some others, so that some schedules have much of a few."""
        return cls(
            brokers=1,
            subjects=rng.choice((1, 1, 2)),
            faults=tuple(dict.fromkeys([*pair, *rng.sample(list(FAULTS), rng.randint(0, 4))])),
            fault_seconds=rng.uniform(0.7, 4.0),
            groups=(),
            delayed=0.0,
            batches=0.0,
            poison=0.0,
            gives_back=0.0,
            has_operator=False,
            storm_seconds=rng.uniform(*STORM_SECONDS),
            slowness=rng.choice((1.0, 1.0, 1.0, 20.0)),
            metas=rng.choice((1, 2)),
            copies=rng.choice((2, 2, 3, 3, 1)),
            in_sync_min=rng.choice((1, 2, 2)),
            grows=rng.random() < 0.2,
            producers=rng.choice((1, 1, 1, 3)),
            segment_bytes=rng.choice((64 << 10, 64 << 10, 256 << 10)),
        )


class SlavesRun:
    """One schedule."""

    def __init__(self, world: World, mix: SlavesMix) -> None:
        self.mix = mix
        self.history = History()
        self.cluster = Cluster(
            world, brokers=1, delays=0, metas=mix.metas, copies=mix.copies, broker_settings=mix.settings
        )
        self.watch = GroupWatch(self.cluster, self.history, GROUP)
        RemovalWatch(self.cluster, self.history, self.watch, mix.checked_age_seconds)
        self._final = FinalChecks(self.cluster, self.history, self.watch)
        subjects = [f"s{number}" for number in range(mix.subjects)]
        self.senders = [
            SlavesSender(self.cluster, self.history, self.watch, f"p{number}", subjects)
            for number in range(mix.producers)
        ]
        self.consumers = [
            SlavesConsumer(self.cluster, self.history, self.watch, f"c{number}", subject, LEASE_SECONDS)
            for number, subject in enumerate(subjects)
        ]
        self.storm = SlavesStorm(self.cluster, [*self.senders, *self.consumers], self.history, mix)
        self.storm.watch = self.watch

    async def run(self) -> None:
        """Do all phases; what is broken is in `history.broken`."""
        with self.watch.hooked(), small_copies() if self.mix.retention_seconds else nullcontext():
            await self._run()

    async def _run(self) -> None:
        cluster, mix = self.cluster, self.mix
        await self._begin()
        for host in cluster.hosts.values():
            host.weather.slowness = mix.slowness
        for actor in [*self.consumers, *self.senders]:
            actor.start()
        looking = asyncio.get_running_loop().create_task(self._look())
        if mix.grows:
            await asyncio.sleep(1.0)
            self._set(copies=mix.copies)
            for host in list(self.watch.hosts.values())[1:]:
                host.start()
        await self.storm.rage(mix.storm_seconds)
        self.storm.heal()
        if await self._healed():
            await asyncio.sleep(1.0)
            await self._until(LONGER_SECONDS, lambda: self._steps() >= STEPS_MIN)
            await self._stop_clients()
            if await self._within(
                "all members have the same log", EQUAL_SECONDS, self._is_equal
            ) and await self._within(
                "all metaservers agree", EQUAL_SECONDS, lambda: next(agreement(cluster), None) is None
            ):
                self.watch.look()
                self._final.check()
        looking.cancel()
        self.history.counts["steps"] = self._steps()
        for host in cluster.hosts.values():
            host.kill()

    async def _healed(self) -> bool:
        """Wait until the group is as it should be, if need be with an operator."""
        what = "the group is writable and all members are in sync"
        repairing = asyncio.get_running_loop().create_task(self._repair())
        try:
            return await self._recovered(what)
        finally:
            repairing.cancel()

    async def _repair(self) -> None:
        while True:
            await asyncio.sleep(REPAIR_SECONDS)
            await self.storm.repair()

    async def _recovered(self, what: str) -> bool:
        if self.watch.row is not None and "the database is restored from a backup" in " ".join(self.storm.events):
            await self._until(HEALED_SECONDS, self._is_well)
            newest = self.watch.row
            stored = self.cluster.database.rows.groups[GROUP]
            if stored.group_row.place < newest.place:
                # The last master restarted and no longer knows which members were in sync, so an operator has to decide.
                self.history.counts["decisions"] = 1
                self.storm.note(f"an operator restores row {newest.place}")
                row = replace(newest, version=max(newest.version, stored.known_place[1]) + 1)
                self.cluster.database.rows.groups[GROUP] = stored.with_group_row(row)
                self.cluster.database.changed(group=GROUP)
        return await self._within(what, HEALED_SECONDS, self._is_well)

    async def _begin(self) -> None:
        hosts = list(self.watch.hosts.values())
        started = hosts[:1] if self.mix.grows else hosts
        for host in [*self.cluster.metas.values(), started[0]]:
            host.start()
        await self._until(BEGIN_SECONDS, lambda: GROUP in self.cluster.database.rows.groups)
        if self.mix.grows:
            self._set(copies=1)
        for host in started[1:]:
            host.start()
        await self._until(BEGIN_SECONDS, lambda: self._is_well(started))
        self._set(in_sync_min=self.mix.in_sync_min)

    def _set(self, **values: object) -> None:
        rows = self.cluster.database.rows
        group = rows.groups[GROUP]
        version = group.in_sync_version + 1  # as `services.members.set_copies` does
        rows.groups[GROUP] = replace(group, in_sync_version=version, **values)  # type: ignore[arg-type]
        self.cluster.database.changed(group=GROUP)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.watch.look()

    async def _within(self, what: str, seconds: float, is_so: Callable[[], bool]) -> bool:
        if await self._until(seconds, is_so):
            return True
        self.history.broken.append(Broken("progress", f"not within {seconds:g} s: {what}: {self._state()}"))
        return False

    async def _until(self, seconds: float, is_so: Callable[[], bool]) -> bool:
        end = self.cluster.loop.now + seconds
        while not is_so():
            if self.cluster.loop.now > end:
                return False
            await asyncio.sleep(0.1)
        return True

    async def _stop_clients(self) -> None:
        try:
            async with asyncio.timeout(EQUAL_SECONDS):
                await asyncio.gather(*(actor.stop() for actor in [*self.senders, *self.consumers]))
        except TimeoutError:
            self.history.broken.append(Broken("client", "a client does not end"))

    # --- what must be ----------------------------------------------------------------------------------------------

    def _broker(self, host: Host) -> Broker | None:
        return host.server if isinstance(host.server, Broker) else None

    def _is_well(self, hosts: list[Host] | None = None) -> bool:
        """Whether the group accepts sends, all members are in sync, and all metaservers say so."""
        hosts = hosts or list(self.watch.hosts.values())
        if self.watch.damaged:
            return False
        stored = self.cluster.database.rows.groups.get(GROUP)
        if stored is None or len(stored.members) != len(hosts) or stored.in_sync != stored.members:
            return False
        master = self._broker(self.watch.hosts[stored.master])
        if master is None or not master.is_serving or master.readiness() or master.refuse_sends():
            return False
        if any(self._broker(host) is None for host in hosts):
            return False
        for meta in self.cluster.metas.values():
            if not isinstance(meta.server, Metaserver):
                return False
            live = meta.server.directory.groups.get(GROUP)
            if live is None or live.state is not GroupState.READ_WRITE or live.node is None:
                return False
            if live.node.node_id != stored.master:
                return False
        return True

    def _is_equal(self) -> bool:
        brokers = [self._broker(host) for host in self.watch.hosts.values()]
        stored = self.cluster.database.rows.groups[GROUP]
        master = self._broker(self.watch.hosts[stored.master])
        if master is None:
            return False
        end = master.log.records_end
        return (
            all(
                broker is not None and broker.log.synced_end >= end and broker.log.high_watermark >= end
                for broker in brokers
            )
            and master.log.high_watermark == end
        )

    def _state(self) -> str:
        row = self.cluster.database.rows.groups[GROUP].group_row
        parts = [f"row {row}"]
        for node, host in self.watch.hosts.items():
            broker = self._broker(host)
            if broker is None:
                parts.append(f"{node} does not run")
                continue
            log, member = broker.log, broker.member
            refusal = broker.refuse_sends() if broker.is_serving else broker.readiness()
            parts.append(
                f"{node} is {member.role.name} ({member.reason}; {refusal}), synced {log.synced_end},"
                f" high watermark {log.high_watermark}"
            )
        for name, meta in self.cluster.metas.items():
            if isinstance(meta.server, Metaserver):
                live = meta.server.directory.groups.get(GROUP)
                parts.append(f"{name}: {live.state if live is not None else 'unknown'}")
        return "; ".join(parts)

    def _steps(self) -> int:
        """Bytes that arrive at a process, syncs of disks, and faults."""
        return self.cluster.loop.events


def pair_of(seed: int) -> tuple[str, str]:
    """Return the pair of faults that the schedule of a seed begins with: all pairs in turn, each in both orders."""
    one, other = PAIRS[seed * PAIRS_STEP % len(PAIRS)]
    return (one, other) if seed // len(PAIRS) % 2 == 0 else (other, one)


def has_retention(seed: int) -> bool:
    """Whether the schedule of a seed has segments that are removed soon, and copies."""
    return (seed - 1) // RETENTION_SEEDS % RETENTION_EVERY == 1


def mix_of(seed: int) -> SlavesMix:
    """Return what the schedule of a seed has."""
    mix = SlavesMix.draw(rng_of(seed, "mix"), pair_of(seed))
    return mix.with_retention(rng_of(seed, "retention")) if has_retention(seed) else mix


def run_schedule(seed: int, mix: SlavesMix | None = None) -> Report:
    """Do the schedule of a seed, or of a seed with another mix."""
    world = World(seed)
    drawn = mix or mix_of(seed)
    return simulated(world, drawn, lambda: SlavesRun(world, drawn), COMMAND)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], run_schedule, COMMAND))
