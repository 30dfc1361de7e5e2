"""Faults of slaves that copy: the log of their master begins behind what they have."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from qmq_node.replication.master import retention_holds, state_reads
from qmq_node.replication.rules.roles import CopyPhase
from qmq_node.replication.slave import slave_copy
from tests.sim.slaves.member_logs import durable_state
from tests.sim.slaves.restores import Restores
from tests.sim.world.cluster import Host, MemberNode

HOLD_SECONDS = 4.0
"""In schedules with retention, a master keeps segments so long for a slave that does not get on."""
STATE_PIECE_BYTES = 100
"""There, a master's state has several pieces, which the slave asks for one by one."""
COPY_BYTES_MIN, FOLLOW_BYTES_MAX = 60_000, 15_000
"""There, a slave that lacks so much copies, and one that lacks so little follows."""
COPY_BYTES_PER_SECOND = 200_000
"""There, pieces of the state come one by one, and the log faster than producers write."""
BEGINS_SECONDS = 12.0
"""A slave that has lost its disk, or was away, begins to copy within this, or there is nothing to copy."""
FIRST_SECONDS = 12.0
PHASE_SECONDS = 3.0
LOOK_SECONDS, PHASE_LOOK_SECONDS = 0.02, 0.003
PHASES = (CopyPhase.STATE, CopyPhase.STATE, CopyPhase.LOG, CopyPhase.CATCHING_UP, None)
"""What a fault interrupts; None: the first session after the copy."""


@contextmanager
def small_copies(copy_bytes_min: int = COPY_BYTES_MIN, follow_bytes_max: int = FOLLOW_BYTES_MAX) -> Iterator[None]:
    """Copies of some KiB are large, and what a slave needs is not held for long."""
    with ExitStack() as stack:
        for module, name, value in (
            (retention_holds, "HOLD_SECONDS", HOLD_SECONDS),
            (state_reads, "PIECE_BYTES", STATE_PIECE_BYTES),
            (slave_copy, "COPY_BYTES_MIN", copy_bytes_min),
            (slave_copy, "FOLLOW_BYTES_MAX", follow_bytes_max),
        ):
            stack.enter_context(patch.object(module, name, value))
        yield


class CopyFaults(Restores):
    """Makes slaves copy, and interrupts them."""

    async def first_copy(self) -> None:
        """Interrupt a copy as soon as retention has removed something."""
        await self._reached(lambda: self.watch.removed_to > 0, FIRST_SECONDS)
        await self.interrupted_copy()

    async def interrupted_copy(self) -> None:
        """A slave has to copy, and in the midst of that it or its master is killed, paused, cut off, or loses power."""
        host = self._rng.choice(self._slaves())
        node = self._node_id(host)
        if host is self._master() or host.process is None or not self.may_lose(node):
            return
        if self._rng.random() < 0.5:
            await self.replace_disk(node)
            await self._start_later(host, 0.1)
        else:
            await self._fall_behind(host)
        if not await self._reached(lambda: self._copies(host), BEGINS_SECONDS):
            return
        phase = self._rng.choice(PHASES)
        await self._reached(lambda: self._phase(host) is phase and host.is_serving, PHASE_SECONDS, PHASE_LOOK_SECONDS)
        await asyncio.sleep(self._rng.choice((0.0, 0.0, 0.01, 0.1)))
        self._count_interrupted(host)
        await self._interrupt(self._rng.choice((host, self._master())), host)

    async def _fall_behind(self, host: Host) -> None:
        """Keep a slave away until retention has removed what it needs."""
        end = host.server.log.written_end if isinstance(host.server, MemberNode) else 0
        self.note(f"{host.name} is away until it has to copy")
        host.kill()
        await self._reached(lambda: self.watch.removed_to > end or host.process is not None, BEGINS_SECONDS)
        await self._start_later(host, 0.1)

    async def _reached(self, is_so: Callable[[], bool], seconds: float, look_seconds: float = LOOK_SECONDS) -> bool:
        loop = self._cluster.loop
        end = loop.now + seconds
        while not is_so():
            if loop.now > end:
                return False
            await asyncio.sleep(look_seconds)
        return True

    def _phase(self, host: Host) -> CopyPhase | None:
        copying = durable_state(host).copying
        return copying.phase if copying is not None else None

    def _copies(self, host: Host) -> bool:
        return self._phase(host) is not None

    def _count_interrupted(self, host: Host) -> None:
        phase = self._phase(host)
        name = f"interrupted {phase.value if phase is not None else 'first session'}"
        self._history.counts[name] = self._history.counts.get(name, 0) + 1

    async def _interrupt(self, victim: Host, host: Host) -> None:
        how = self._rng.choice(("kill", "power cut", "pause", "cut"))
        seconds = self._rng.choice((0.1, 1.0, 3.0, 9.0))
        self.note(f"{how} of {victim.name} for {seconds} s, in the midst of the copy of {host.name}")
        if victim.process is None:
            return
        if how == "cut":
            others = [other.name for other in self.watch.hosts.values() if other is not victim]
            for other in others:
                self._cluster.network.cut(victim.name, other)
            await asyncio.sleep(seconds)
            for other in others:
                self._cluster.network.mend(victim.name, other)
        elif how == "pause":
            process = victim.process
            process.pause()
            await asyncio.sleep(seconds)
            if not process.is_dead:
                process.resume()
        else:
            if how == "kill":
                victim.kill()
            else:
                victim.cut_power()
            await self._start_later(victim, seconds)
