"""Schedules of a broker group with slaves under faults, each decided by one seed.

python -m tests.sim.slaves.schedule --seed 17          one schedule, with its last events if it fails
python -m tests.sim.slaves.schedule --seeds 1000       schedules 1 to 1000
"""

import asyncio
import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random
from typing import Any

from tests.sim.slaves.clients import SlavesConsumer, SlavesSender
from tests.sim.slaves.copies import COPY_BYTES_PER_SECOND, small_copies
from tests.sim.slaves.group_runs import EQUAL_SECONDS, HEALED_SECONDS, GroupsRun
from tests.sim.slaves.late_groups import LateGroups
from tests.sim.slaves.removals import RemovalWatch
from tests.sim.slaves.sharing import early_sharing
from tests.sim.slaves.storm import FAULTS
from tests.sim.swarm.history import Broken
from tests.sim.swarm.runs import Mix, Report, main, simulated
from tests.sim.world.cluster import Cluster
from tests.sim.world.loop import rng_of
from tests.sim.world.world import World

GROUP = "g1"
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
SHARING_EVERY = 3
"""Commits of slaves share syncs in the schedules of the seeds that this number divides."""
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
    shares_syncs: bool = False
    """Commits of slaves share syncs although their disks are fast enough."""

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


class SlavesRun(GroupsRun):
    """One schedule."""

    def __init__(self, world: World, mix: SlavesMix) -> None:
        self.mix = mix
        cluster = Cluster(world, brokers=1, delays=0, metas=mix.metas, copies=mix.copies, broker_settings=mix.settings)
        super().__init__(cluster, mix)
        (self._group,) = self.groups
        self.watch = self._group.watch
        RemovalWatch(self.cluster, self.history, self.watch, mix.checked_age_seconds)
        subjects = [f"s{number}" for number in range(mix.subjects)]
        self._senders = [
            SlavesSender(self.cluster, self.history, self.watch, f"p{number}", subjects)
            for number in range(mix.producers)
        ]
        self._consumers = [
            SlavesConsumer(self.cluster, self.history, self.watch, f"c{number}", subject, LEASE_SECONDS)
            for number, subject in enumerate(subjects)
        ]
        self._late_groups = LateGroups(self.cluster, self.history, GROUP, subjects)
        self.make_storms([*self._senders, *self._consumers])
        self.storm.late_groups = self._late_groups

    async def run(self) -> None:
        """Do all phases; what is broken is in `history.broken`."""
        copies = small_copies() if self.mix.retention_seconds else nullcontext()
        with self.watch.hooked(), copies, early_sharing() if self.mix.shares_syncs else nullcontext():
            await self._run()

    async def _run(self) -> None:
        cluster, mix = self.cluster, self.mix
        await self._begin()
        for actor in [*self._consumers, *self._senders]:
            actor.start()
        with self.looking():
            if mix.grows:
                await asyncio.sleep(1.0)
                self._group.set(copies=mix.copies)
                for host in list(self.watch.hosts.values())[1:]:
                    host.start()
            await self.rage()
            if await self.healed():
                await asyncio.sleep(1.0)
                await self.until(LONGER_SECONDS, lambda: self._steps() >= STEPS_MIN)
                await self._stop_clients()
                if await self.settled():
                    self.watch.look()
                    self._group.final.check()
                    self._group.final.check_messages(self._late_groups)
                    self.check_servers()
        self.history.counts["steps"] = self._steps()
        for host in cluster.hosts.values():
            host.kill()

    async def recovered(self, what: str) -> bool:
        """Wait until the group is as it should be; after a restore of the database an operator may have to decide."""
        if self.watch.membership is not None and "the database is restored from a backup" in " ".join(
            self.storm.events
        ):
            await self.until(HEALED_SECONDS, self._group.is_well)
            newest = self.watch.membership
            stored = self.cluster.database.stored.groups[GROUP]
            if stored.membership.place < newest.place:
                # The last master restarted and no longer knows which members were in sync, so an operator has to decide.
                self.history.counts["decisions"] = 1
                self.storm.note(f"an operator restores membership {newest.place}")
                membership = replace(newest, version=max(newest.version, stored.membership.known_place[1]) + 1)
                self.cluster.database.stored.groups[GROUP] = stored.with_membership(membership)
                self.cluster.database.changed(group=GROUP)
        return await super().recovered(what)

    async def _begin(self) -> None:
        await self.begin(1 if self.mix.grows else self.mix.copies, self.mix.in_sync_min)

    async def _stop_clients(self) -> None:
        try:
            async with asyncio.timeout(EQUAL_SECONDS):
                await asyncio.gather(*(actor.stop() for actor in [*self._senders, *self._consumers]))
        except TimeoutError:
            self.history.broken.append(Broken("client", "a client does not end"))

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
    mix = replace(SlavesMix.draw(rng_of(seed, "mix"), pair_of(seed)), shares_syncs=seed % SHARING_EVERY == 0)
    return mix.with_retention(rng_of(seed, "retention")) if has_retention(seed) else mix


def run_schedule(seed: int, mix: SlavesMix | None = None) -> Report:
    """Do the schedule of a seed, or of a seed with another mix."""
    world = World(seed)
    drawn = mix or mix_of(seed)
    return simulated(world, drawn, lambda: SlavesRun(world, drawn), COMMAND)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], run_schedule, COMMAND))
