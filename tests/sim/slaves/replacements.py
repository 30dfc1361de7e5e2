"""Schedules in which a master can't lead for a minute although it runs, or has no slaves: within REPLACED_SECONDS the group is led
by another member, or by the same one without them, and accepts sends if there are as many members as its minimum requires."""

import asyncio
from collections.abc import Callable
from random import Random

from tests.sim.slaves.schedule import SlavesMix, SlavesRun
from tests.sim.slaves.storm import SlavesStorm
from tests.sim.swarm.history import Broken
from tests.sim.swarm.runs import Report, simulated
from tests.sim.swarm.workload import true_ms
from tests.sim.world.cluster import Host, MemberNode
from tests.sim.world.loop import rng_of
from tests.sim.world.world import World

REPLACED_SECONDS = 12.0
"""From the begin of the fault until another member serves."""
LASTS_SECONDS = 60.0
"""How long the fault lasts."""
BEGINS_SECONDS = (1.0, 6.0)
REFUSES_SECONDS = 2.5
"""A master whose sync does not return refuses sends after 2 s, and looks every half second."""
FAULTS = ("hanging_disk", "cut_from_slaves", "cut_off_for_long")
COMMAND = "pytest tests/sim/slaves/test_replacements.py"


def mix_of(seed: int, fault: str) -> SlavesMix:
    """Return what the schedule of a seed has."""
    rng: Random = rng_of(seed, "mix")
    copies = rng.choice((2, 3))
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
        in_sync_min=rng.choice((1, 2)),
        producers=rng.choice((1, 3)),
        segment_bytes=rng.choice((64 << 10, 256 << 10)),
    )


class LastingFault(SlavesStorm):
    """Injects one fault of the master, and requires that the group is led and accepts sends in spite of it."""

    async def rage(self, seconds: float) -> None:
        """Inject the fault of the mix; it lasts for LASTS_SECONDS, whatever `seconds` are."""
        (name,) = self._mix.faults
        await asyncio.sleep(self._rng.uniform(*BEGINS_SECONDS))
        old, epoch, loop = self._master(), self._epoch(), self._cluster.loop
        inject: Callable[[Host], None] = getattr(self, name)
        inject(old)
        began, began_ms = loop.now, true_ms(self._cluster)
        while not (self._is_led(old) and self._accepts(began_ms)):
            await asyncio.sleep(0.1)
            self._check_refusal(old)
            if loop.now - began > REPLACED_SECONDS:
                what = "is led" if self._is_led(old) else "accepts sends"
                self._break(f"{REPLACED_SECONDS:g} s after {self.events[-1]}, it is not so that the group {what}")
                return
        self.note(f"led by {self._master().name} after {loop.now - began:.1f} s")
        await asyncio.sleep(began + LASTS_SECONDS - loop.now)
        if (changes := self._epoch() - epoch) > 1:
            self._break(f"the master changed {changes} times")

    def _break(self, what: str) -> None:
        self._history.broken.append(Broken("replaced", what))

    def _is_led(self, old: Host) -> bool:
        """Whether another member leads; or the same one, if it is cut off from its slaves only, and no other could accept sends, or
        it accepts them itself."""
        new = self._master()
        may_stay = self._mix.faults == ("cut_from_slaves",) and (
            self._mix.in_sync_min == 1 or self._mix.copies <= self._mix.in_sync_min
        )
        return (new is not old or may_stay) and isinstance(new.server, MemberNode) and new.server.replication.is_serving

    def _accepts(self, since_ms: int) -> bool:
        """Whether the master accepts sends, and has acknowledged a message that was sent since the fault began; True if too few
        members are left."""
        if self._mix.copies <= self._mix.in_sync_min:
            return True
        server = self._master().server
        is_open = (
            isinstance(server, MemberNode) and server.replication.is_serving and not server.registration.refuse_sends()
        )
        return is_open and any(sent.is_acked and sent.at_ms > since_ms for sent in self._history.sent.values())

    def _check_refusal(self, host: Host) -> None:
        """A master whose sync does not return refuses sends."""
        if (
            self._mix.faults[0] != "hanging_disk"
            or host.weather.hang_seconds
            or not isinstance(host.server, MemberNode)
        ):
            return
        now = self._cluster.loop.now
        self._hangs_since = self._hangs_since or now
        if (
            now - self._hangs_since > REFUSES_SECONDS
            and host.server.replication.is_serving
            and not host.server.registration.refuse_sends()
        ):
            self._break(f"{host.name} accepts sends {now - self._hangs_since:.1f} s after its disk began to hang")

    _hangs_since = 0.0
    """When the sync began that does not return."""

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

    def cut_off_for_long(self, host: Host) -> None:
        """A member reaches no other server; clients reach it."""
        others = [other for other in self._cluster.hosts if other != host.name]
        for other in others:
            self._cluster.network.cut(host.name, other)
        self.note(f"cut {host.name} and {', '.join(others)} for {LASTS_SECONDS:g} s")

    def _epoch(self) -> int:
        assert self.watch.membership is not None
        return self.watch.membership.epoch


class ReplacementRun(SlavesRun):
    """One schedule."""

    storm_kind = LastingFault


def run_replacement(seed: int, fault: str) -> Report:
    """Do the schedule of a seed with a fault of FAULTS."""
    world, mix = World(seed), mix_of(seed, fault)
    return simulated(world, mix, lambda: ReplacementRun(world, mix), COMMAND)
