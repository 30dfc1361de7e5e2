"""Whole systems whose broker groups have slaves, under faults, each decided by one seed: two groups, a delay node, metaservers,
producers and consumers of the client library.

python -m tests.sim.slaves.whole --seed 17          one schedule, with its last events if it fails
python -m tests.sim.slaves.whole --seeds 1000       schedules 1 to 1000

After the faults, what `checks.py` promises of messages holds as without slaves, because a group's master is replaced only by a
member that has all that was acknowledged:

- An acknowledged message is stored, and delivered to each consumer group that wants it.
- A send whose outcome is unknown, because its master was replaced before it answered, is repeated by the client, to the new master
  or to the other group. So a message of more than one attempt may be stored twice, with one id, on one group or on both; consumers
  then get it twice, also after an ack of the first copy. A message that was acknowledged at the first attempt is stored once.
- A delay node repeats a delivery whose outcome is unknown in the same way: a delayed message may be stored more than once.
- A confirmed ack is known to every later master: a message that is stored once does not come again to that group.
- At most once: what a consumer has received does not come again from a later master. Of what the old master assigned, all that was
  not received may be lost.
- Retries and dead letters are messages: a client stores them by a send, so that they may be stored twice like any other.

Faults that lose something by design, or of which an operator decides what is lost, are left to `schedule.py`.
"""

import asyncio
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.sim.slaves import storm
from tests.sim.slaves.group_runs import HEALED_SECONDS, GroupsRun
from tests.sim.slaves.meetings import Meetings
from tests.sim.slaves.removals import RemovalWatch
from tests.sim.slaves.whole_clients import MarkedSender, RoamingMember
from tests.sim.swarm import checks
from tests.sim.swarm.clients import GROUPS, Clients
from tests.sim.swarm.history import Broken
from tests.sim.swarm.runs import DRAIN_SECONDS, RETRY_DELAY_SECONDS, Mix, Report, drain_seconds, main, simulated
from tests.sim.swarm.workload import Actor
from tests.sim.world.cluster import Cluster
from tests.sim.world.loop import rng_of
from tests.sim.world.world import World

BROKER_GROUPS = 2
STORM_SECONDS = (10.0, 20.0)
LOSING = (
    "flipped_bit", "swapped_blocks", "missing_segment", "older_file", "older_folder", "new_disk", "restored_database",
    "accepted_loss",
)  # fmt: skip
FAULTS = (*(name for name in storm.FAULTS if name not in LOSING), "power_cut", "restart")
"""Those of `storm.FAULTS` that lose nothing, and two more that also meet the delay node."""
REPLACING = (
    "kill_member",
    "end_several",
    "switch_over",
    "pause_member",
    "cut_master_off",
    "member_power_cut",
    "crash_at_step",
)
"""Each schedule has one of these: a master is replaced."""
KINDS = tuple(kind for kind in GROUPS if kind != "reset")
COMMAND = "make sim-slaves KIND=whole"


@dataclass(frozen=True)
class WholeMix(Mix):
    """What one schedule has."""

    copies: int = 2
    delay_copies: int = 1
    in_sync_min: int = 2
    segment_bytes: int = 256 << 10

    @property
    def settings(self) -> dict[str, Any]:
        """Of the members."""
        return {
            "consumer_lease_seconds": self.lease_seconds,
            "segment_bytes": self.segment_bytes,
            "retry_delay_seconds": RETRY_DELAY_SECONDS,
        }

    @classmethod
    def drawn(cls, rng: Random) -> "WholeMix":
        """Return a mix: a fault that replaces a master and some others, and consumer groups of some kinds."""
        return cls(
            brokers=BROKER_GROUPS,
            subjects=rng.choice((1, 1, 2)),
            faults=tuple(dict.fromkeys((rng.choice(REPLACING), *rng.sample(FAULTS, rng.randint(2, 6))))),
            fault_seconds=rng.uniform(1.0, 4.0),
            groups=tuple(kind for kind in KINDS if rng.random() < 0.6) or ("real",),
            delayed=rng.choice((0.2, 0.5)),
            batches=rng.choice((0.0, 0.1)),
            poison=rng.choice((0.05, 0.1)),
            gives_back=rng.choice((0.0, 0.1, 0.2)),
            has_operator=False,
            storm_seconds=rng.uniform(*STORM_SECONDS),
            slowness=rng.choice((1.0, 1.0, 1.0, 20.0)),
            metas=rng.choice((1, 2)),
            copies=rng.choice((2, 3)),
            in_sync_min=rng.choice((1, 2, 2)),
            segment_bytes=rng.choice((64 << 10, 256 << 10)),
            delay_copies=rng.choice((1, 2, 3)),
        )


class WholeRun(GroupsRun):
    """One schedule."""

    def __init__(self, world: World, mix: WholeMix) -> None:
        self.mix = mix
        cluster = Cluster(
            world, brokers=mix.brokers, delays=1, metas=mix.metas, copies=mix.copies, delay_copies=mix.delay_copies,
            broker_settings=mix.settings, delay_settings={"segment_bytes": mix.segment_bytes},
        )  # fmt: skip
        super().__init__(cluster, mix)
        self._watches = {group.name: group.watch for group in self.groups}
        for watch in self._watches.values():
            RemovalWatch(cluster, self.history, watch, keep_seconds=0.0)
        self.history.on_seen = self._seen
        self._meetings = Meetings(cluster, self.history)
        self._clients = Clients(cluster, self.history, mix, sender=MarkedSender, raw_member=RoamingMember)
        self.make_storms(self._clients.actors)

    def groups_of(self, cluster: Cluster) -> Iterable[str]:
        return [*cluster.brokers, *(cluster.delays if self.mix.delay_copies > 1 else ())]

    def _seen(self, group: str, message_id: str, how: str) -> None:
        """A client saw a message. Of a delayed one, the receipt is the delay node's."""
        if group in self._watches:
            self._watches[group].seen(message_id, how)

    async def run(self) -> None:
        """Do all phases; what is broken is in `history.broken`."""
        with ExitStack() as stack:
            for watch in self._watches.values():
                stack.enter_context(watch.hooked())
            await self._run()
        self.history.counts.update(self._meetings.counts())
        for host in self.cluster.hosts.values():
            host.kill()

    async def _run(self) -> None:
        clients = self._clients
        if self.mix.delay_copies == 1:
            for host in self.cluster.delays.values():
                host.start()
        await self.begin(max(self.mix.copies, self.mix.delay_copies), self.mix.in_sync_min)
        clients.start()
        with self.looking():
            await asyncio.sleep(2.0)
            await self.rage()
            delays = self.cluster.serving_delay_nodes().values()
            if not await self.healed() or not await self.within(
                "the delay node serves", HEALED_SECONDS, lambda: all(host.is_serving for host in delays)
            ):
                return
            await self.cluster.confirm_clocks()
            await asyncio.sleep(2.0)
            if not await self._stop(clients.senders):
                return
            await self._drained()
            if not await self._stop(clients.consumers):
                return
        found = await checks.audit(self.cluster, "audit")
        self.history.broken += checks.messages(self.history, found, clients.plans)
        if await self.settled():
            for group in self.groups:
                group.watch.look()
                group.final.check()
            for host in self.cluster.delays.values() if self.mix.delay_copies == 1 else ():
                self.history.broken += checks.derived(host)
            self.check_servers()

    async def _drained(self) -> None:
        """Wait until everything is delivered. If something is not, the checks of messages say more."""
        clients = self._clients
        if not await self.until(drain_seconds(self.mix), lambda: next(clients.undelivered(), None) is None):
            self.history.broken.append(Broken("progress", f"not delivered in time: {list(clients.undelivered())[:5]}"))

    async def _stop(self, actors: Sequence[Actor]) -> bool:
        """Stop clients; whether they end in time."""
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await asyncio.gather(*(actor.stop() for actor in actors))
        except TimeoutError:
            self.history.broken.append(Broken("client", f"one of {[actor.name for actor in actors]} does not end"))
            return False
        return True


def mix_of(seed: int) -> WholeMix:
    """Return what the schedule of a seed has."""
    return WholeMix.drawn(rng_of(seed, "whole"))


def run_whole(seed: int, mix: WholeMix | None = None) -> Report:
    """Do the schedule of a seed, or of a seed with another mix."""
    world, drawn = World(seed), mix or mix_of(seed)
    return simulated(world, drawn, lambda: WholeRun(world, drawn), COMMAND)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], run_whole, COMMAND))
