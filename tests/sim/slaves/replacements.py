"""Schedules in which a master can't lead for a minute although it runs: another member leads within REPLACED_SECONDS."""

import asyncio
from collections.abc import Callable
from random import Random

from broker_node.broker import Broker
from tests.sim.cluster import Host
from tests.sim.history import Broken
from tests.sim.loop import rng_of
from tests.sim.slaves.schedule import SlavesMix, SlavesRun
from tests.sim.slaves.storm import SlavesStorm
from tests.sim.swarm import Report, simulated
from tests.sim.world import World

REPLACED_SECONDS = 12.0
"""From the begin of the fault until another member serves."""
LASTS_SECONDS = 60.0
"""How long the fault lasts."""
BEGINS_SECONDS = (1.0, 6.0)
FAULTS = ("hanging_disk", "cut_from_slaves")
COMMAND = "pytest tests/sim/slaves/test_replacements.py"


def mix_of(seed: int, fault: str) -> SlavesMix:
    """Return what the schedule of a seed has. A master of two members keeps the lead while it is cut off: the other one would not
    accept sends either."""
    rng: Random = rng_of(seed, "mix")
    copies = 3 if fault == "cut_from_slaves" else rng.choice((2, 3))
    return SlavesMix(
        brokers=1,
        subjects=rng.choice((1, 2)),
        faults=(fault,),
        fault_seconds=1.0,
        groups=(),
        delayed=0.0,
        batches=0.0,
        poison=0.0,
        gives_back=0.0,
        has_operator=False,
        storm_seconds=LASTS_SECONDS,
        slowness=rng.choice((1.0, 1.0, 20.0)),
        metas=rng.choice((1, 2)),
        copies=copies,
        in_sync_min=2 if fault == "cut_from_slaves" else rng.choice((1, 2)),
        producers=rng.choice((1, 3)),
        segment_bytes=rng.choice((64 << 10, 256 << 10)),
    )


class LastingFault(SlavesStorm):
    """Injects one fault of the master, and requires that another member replaces it."""

    async def rage(self, seconds: float) -> None:
        """Inject the fault of the mix; it lasts for LASTS_SECONDS, whatever `seconds` are."""
        (name,) = self._mix.faults
        await asyncio.sleep(self._rng.uniform(*BEGINS_SECONDS))
        old, epoch, loop = self._master(), self._epoch(), self._cluster.loop
        inject: Callable[[Host], None] = getattr(self, name)
        inject(old)
        began = loop.now
        while not self._is_replaced(old):
            await asyncio.sleep(0.1)
            if loop.now - began > REPLACED_SECONDS:
                text = f"no other member serves {REPLACED_SECONDS:g} s after {self.events[-1]}"
                self._history.broken.append(Broken("replaced", text))
                return
        self.note(f"replaced after {loop.now - began:.1f} s")
        await asyncio.sleep(began + LASTS_SECONDS - loop.now)
        if (changes := self._epoch() - epoch) > 1:
            self._history.broken.append(Broken("replaced", f"the master changed {changes} times"))

    def hanging_disk(self, host: Host) -> None:
        """The next sync of a member does not end before the fault does."""
        host.weather.hang_seconds = LASTS_SECONDS
        self.note(f"a sync of {host.name} takes {LASTS_SECONDS:g} s")

    def cut_from_slaves(self, host: Host) -> None:
        """A member and all others can't reach each other; all reach metaservers and clients."""
        others = [other.name for other in self.watch.hosts.values() if other is not host]
        for other in others:
            self._cluster.network.cut(host.name, other)
        self.note(f"cut {host.name} and {', '.join(others)} for {LASTS_SECONDS:g} s")

    def _is_replaced(self, old: Host) -> bool:
        new = self._master()
        return new is not old and isinstance(new.server, Broker) and new.server.is_serving

    def _epoch(self) -> int:
        assert self.watch.row is not None
        return self.watch.row.epoch


class ReplacementRun(SlavesRun):
    """One schedule."""

    def __init__(self, world: World, mix: SlavesMix) -> None:
        super().__init__(world, mix)
        self.storm = LastingFault(self.cluster, [*self.senders, *self.consumers], self.history, mix)
        self.storm.watch = self.watch


def run_replacement(seed: int, fault: str) -> Report:
    """Do the schedule of a seed with a fault of FAULTS."""
    world, mix = World(seed), mix_of(seed, fault)
    return simulated(world, mix, lambda: ReplacementRun(world, mix), COMMAND)
