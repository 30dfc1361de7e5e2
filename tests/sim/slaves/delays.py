"""Schedules of a delay group alone under faults, each decided by one seed: one to three members, a metaserver, and small brokers.

python -m tests.sim.slaves.delays --seed 17          one schedule, with its last events if it fails
python -m tests.sim.slaves.delays --seeds 1000       schedules 1 to 1000
"""

import asyncio
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from unittest.mock import patch

from delay_node import placement, store
from delay_node.delay_node import DelayNode
from qmq.errors import QmqError
from qmq.net.caller import Caller
from qmq_node.commits import applying
from qmq_node.slices import Pacer
from tests.sim.slaves.copies import COPY_BYTES_PER_SECOND, small_copies
from tests.sim.slaves.delay_clients import DelaySender
from tests.sim.slaves.delay_storm import FAULTS, DelayStorm
from tests.sim.slaves.deliveries import Deliveries
from tests.sim.slaves.due_brokers import SEND_SECONDS, DueBrokers
from tests.sim.slaves.group_runs import EQUAL_SECONDS, GroupsRun
from tests.sim.slaves.removals import RemovalWatch
from tests.sim.swarm.history import Broken
from tests.sim.swarm.runs import Mix, Report, main, simulated
from tests.sim.world.cluster import Cluster, Host
from tests.sim.world.loop import START_WALL_MS, rng_of
from tests.sim.world.world import World

GROUP = "d1"
HOUR_MS = 3_600_000
STEPS_MIN = 300
"""Events of a schedule: clients continue after the faults until there were so many."""
LONGER_SECONDS = 60.0
"""They do so at most for this."""
STORM_SECONDS = (2.5, 6.0)
"""How long faults come in a schedule."""
HOUR_ENDS_SECONDS = (3.0, 6.0)
"""In some schedules an hour of due time ends so long after the begin."""
KEEP_HOURS = 0.0005
"""In these, files of an hour are kept for so long after it: 1.8 s."""
DELIVERED_SECONDS = 40.0
"""After the faults, everything is delivered within this."""
ASK_SECONDS = 1.0
APPLY_SECONDS = 0.01
"""In some schedules slaves need so long for each record."""
SEGMENT_BYTES = 8 << 10
COPY_BYTES_MIN, FOLLOW_BYTES_MAX = 6_000, 2_000
"""In schedules with copies."""
COPY_STORM_SECONDS = (6.0, 10.0)
"""There, retention has to remove something first."""
PLANNED = frozenset(("switch_over", "broker_failover"))
"""Faults that leave all members of the delay group as they are."""
COMMAND = "make sim-slaves KIND=delays"


@dataclass(frozen=True)
class DelayMix(Mix):
    """What one schedule has."""

    copies: int = 2
    in_sync_min: int = 1
    senders: int = 1
    pause: float = 0.2
    """Mean seconds between two requests of a sender."""
    odd_answers: float = 0.1
    """How often a broker does not answer in time and with success."""
    hour_ends: float = 0.0
    """Seconds until an hour ends; 0.0: it does not. Ended hours are forgotten soon."""
    segment_bytes: int = 256 << 10
    checkpoint_seconds: float = 5.0
    checkpoint_bytes: int = 1 << 20
    applies_slowly: bool = False
    """Slaves have a slow processor: other work has its turn within commits."""
    hour_messages_max: int = 0
    """Messages of an hour, a further one is refused; 0: as many as usual."""
    has_copies: bool = False
    """Segments are removed soon, and slaves have to copy."""

    @property
    def settings(self) -> dict[str, Any]:
        """Of the members."""
        found: dict[str, Any] = {
            "segment_bytes": self.segment_bytes,
            "checkpoint_seconds": self.checkpoint_seconds,
            "checkpoint_bytes": self.checkpoint_bytes,
            "send_seconds": SEND_SECONDS,
        }
        if self.hour_ends:
            found["keep_hours"] = KEEP_HOURS
        if self.has_copies:
            found |= {"copy_bytes_per_second": COPY_BYTES_PER_SECOND}
        return found

    @classmethod
    def drawn(cls, rng: Random) -> "DelayMix":
        """Return a mix: some faults, so that some schedules have much of a few."""
        has_copies = rng.random() < 0.1
        mix = cls(
            brokers=0,
            subjects=rng.choice((1, 2, 3)),
            faults=tuple(rng.sample(FAULTS, rng.randint(1, 5))),
            fault_seconds=rng.uniform(0.7, 3.0),
            groups=(),
            delayed=1.0,
            batches=0.0,
            poison=0.0,
            gives_back=0.0,
            has_operator=False,
            storm_seconds=rng.uniform(*STORM_SECONDS),
            slowness=rng.choice((1.0, 1.0, 1.0, 20.0)),
            copies=rng.choice((1, 2, 2, 2, 3)),
            in_sync_min=rng.choice((1, 1, 2)),
            senders=rng.choice((1, 1, 1, 2)),
            pause=rng.choice((0.1, 0.2, 0.3)),
            odd_answers=rng.choice((0.0, 0.1, 0.3)),
            hour_ends=rng.uniform(*HOUR_ENDS_SECONDS) if rng.random() < 0.4 else 0.0,
            checkpoint_seconds=rng.choice((1.0, 1.0, 5.0)),
            checkpoint_bytes=rng.choice((4 << 10, 1 << 20, 1 << 20)),
            hour_messages_max=rng.choice((0, 0, 0, 60)),
            applies_slowly=rng.random() < 0.25,
        )
        if not has_copies:
            return mix
        return replace(
            mix, copies=max(2, mix.copies), has_copies=True, segment_bytes=SEGMENT_BYTES, checkpoint_seconds=1.0,
            faults=(*mix.faults, "interrupted_copy"), pause=0.1, storm_seconds=rng.uniform(*COPY_STORM_SECONDS),
        )  # fmt: skip


class SlowPacer(Pacer):
    """Takes time for each piece of work."""

    async def spend(self, units: int = 1) -> None:
        await asyncio.sleep(APPLY_SECONDS)


class DelayRun(GroupsRun):
    """One schedule."""

    storm_kind = DelayStorm

    def __init__(self, world: World, mix: DelayMix) -> None:
        self.mix = mix
        if mix.hour_ends:
            world.wall_offset_ms = HOUR_MS - START_WALL_MS % HOUR_MS - round(mix.hour_ends * 1000)
        cluster = Cluster(
            world, brokers=0, delays=1, copies=mix.copies, delay_copies=mix.copies, delay_settings=mix.settings
        )
        super().__init__(cluster, mix)
        (self._group,) = self.groups
        watch = self._group.watch
        RemovalWatch(cluster, self.history, watch, keep_seconds=0.0)
        subjects = [f"s{number}" for number in range(mix.subjects)]
        is_planned = set(mix.faults) <= PLANNED
        self.deliveries = Deliveries(cluster, self.history, watch, are_changes_planned=is_planned)
        self._brokers = DueBrokers(cluster, self.history, self.deliveries, subjects, mix.odd_answers)
        self._senders = [
            DelaySender(cluster, self.history, watch, self.deliveries, f"p{number}", subjects, GROUP, mix.pause)
            for number in range(mix.senders)
        ]
        self._limits = ExitStack()
        """Limits that last until the faults end."""
        self.make_storms([*self._senders, *self._brokers.members])
        for storm in self._storms:
            assert isinstance(storm, DelayStorm)
            storm.deliveries, storm.brokers = self.deliveries, self._brokers

    def groups_of(self, cluster: Cluster) -> Iterable[str]:
        return cluster.delays

    async def run(self) -> None:
        """Do all phases; what is broken is in `history.broken`."""
        with ExitStack() as stack:
            stack.enter_context(self._group.watch.hooked())
            stack.enter_context(self._brokers.routed())
            if self.mix.applies_slowly:
                stack.enter_context(patch.object(applying, "Pacer", SlowPacer))
            stack.enter_context(self._limits)
            for module in (placement, store) if self.mix.hour_messages_max else ():
                self._limits.enter_context(patch.object(module, "NUMBER_MAX", self.mix.hour_messages_max))
            if self.mix.has_copies:
                stack.enter_context(small_copies(COPY_BYTES_MIN, FOLLOW_BYTES_MAX))
            await self._run()
        self.history.counts["steps"] = self._steps()
        for host in self.cluster.hosts.values():
            host.kill()

    async def _run(self) -> None:
        await self.begin(self.mix.copies, self.mix.in_sync_min)
        self._brokers.start()
        for sender in self._senders:
            sender.start()
        with self.looking():
            await self.rage()
            self._brokers.heal()
            self._limits.close()
            if not await self.healed():
                return
            await self.until(LONGER_SECONDS, lambda: self._steps() >= STEPS_MIN)
            await self._stop_senders()
            if not await self._delivered():
                return
            if await self.settled():
                self._group.watch.look()
                self._group.final.check()
                self.check_servers()
        self.deliveries.check_all()

    async def _stop_senders(self) -> None:
        try:
            async with asyncio.timeout(EQUAL_SECONDS):
                await asyncio.gather(*(sender.stop() for sender in self._senders))
        except TimeoutError:
            self.history.broken.append(Broken("client", "a client does not end"))

    def _master(self) -> Host:
        membership = self.cluster.database.stored.groups[GROUP].membership
        return self._group.watch.hosts[membership.master]

    def _is_empty(self) -> bool:
        """Whether the master has nothing left to deliver, as it counts it."""
        server = self._master().server
        return isinstance(server, DelayNode) and server.store.pending == server.store.refused == 0

    async def _delivered(self) -> bool:
        """Have everything delivered or cancelled, also what is far ahead or was held; whether it is, in time."""
        end = self.cluster.loop.now + DELIVERED_SECONDS
        while not self._is_empty() or self.deliveries.undelivered:
            if self.cluster.loop.now > end:
                server = self._master().server
                counts = (server.store.pending, server.store.refused) if isinstance(server, DelayNode) else None
                left = [found.sent.message_id for found in self.deliveries.undelivered[:5]]
                what = f"not within {DELIVERED_SECONDS:g} s: {left} are delivered, pending and held are 0: {counts}"
                self.history.broken.append(Broken("progress", what))
                return False
            await self._end_all()
            await self.until(ASK_SECONDS, lambda: self._is_empty() and not self.deliveries.undelivered)
        return True

    async def _end_all(self) -> None:
        master = self._master()
        if isinstance(master.server, DelayNode) and master.process is not None and master.server.data.trusted.held:
            master.process.start(master.server.serving.confirm_clock())
        caller = Caller("127.0.0.1", master.port, connect_seconds=1.0)
        try:
            await caller.connect()
            await self._senders[0].end_all(caller)
        except QmqError:
            pass
        finally:
            await caller.close()

    def _steps(self) -> int:
        """Bytes that arrive at a process, syncs of disks, and faults."""
        return self.cluster.loop.events


def mix_of(seed: int) -> DelayMix:
    """Return what the schedule of a seed has."""
    return DelayMix.drawn(rng_of(seed, "delays"))


def run_delays(seed: int, mix: DelayMix | None = None) -> Report:
    """Do the schedule of a seed, or of a seed with another mix."""
    world, drawn = World(seed), mix or mix_of(seed)
    return simulated(world, drawn, lambda: DelayRun(world, drawn), COMMAND)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], run_delays, COMMAND))
