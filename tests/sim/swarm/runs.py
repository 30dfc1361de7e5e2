"""Runs of a whole system under faults, each decided by one seed: a quiet start, a storm of faults, healing, and the checks.

python -m tests.sim.swarm.runs --seed 17          one run, with its last events if it fails
python -m tests.sim.swarm.runs --seeds 1000       runs 1 to 1000
"""

import argparse
import asyncio
import logging
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Protocol

import qmq.clock
from delay_node.delay_node import DelayNode
from qmq.errors import ProtocolError, QmqError
from qmq_node.node.node import Node
from tests.sim.swarm import checks
from tests.sim.swarm.checks import LogWatch, audit
from tests.sim.swarm.clients import GROUPS, LEASE_SECONDS, ClientMix, Clients, waiting_for_repair
from tests.sim.swarm.history import Broken, History
from tests.sim.swarm.meta_checks import MetaWatch, agreement
from tests.sim.swarm.regressions import REGRESSIONS
from tests.sim.swarm.workload import Actor, Member, Operator, Sender
from tests.sim.world.cluster import Cluster, Host
from tests.sim.world.loop import START_SECONDS, SimulatedClock, Stuck, running_loop
from tests.sim.world.world import World
from tests.support.disks.memory_disk import Inode

STORM_SECONDS = (10.0, 25.0)
"""How long faults come in a run."""
DRAIN_SECONDS = 90.0
"""After the last fault everything serves and clients end within this, and everything is delivered within this."""
LEASE_MARGIN_SECONDS = 30.0
"""What was delivered on a connection that its consumer has lost, and never acked, waits for the consumer's lease: everything is
delivered within a longer lease and this."""
RETRY_DELAY_SECONDS = 1.0
KEEP_STEP_SECONDS = 1.5
"""After a step of its clock a delay node with a good disk has it in its file: JOB_SECONDS, and the write."""
IDLE_SECONDS = 80.0
"""After the last client has left, each server is idle again by then. Half-open connections are found in a minute."""
LOOK_SECONDS = 0.3
DAMAGE_DISTANCE = 32 << 10
"""Bytes at a log's end that are not damaged: whether its very last commit was synced can't be told from damage."""
DRAIN_LOOK_SECONDS = 1.0
EVENTS_SHOWN = 60
GOT_MAX = 50_000
"""A run with more deliveries delivers without end."""
VIRTUAL_SECONDS_MAX = 900.0
"""A run that is not over by then hangs."""
CHUNKS_OF_A_PROCESS = 50
"""Each is two seeds. aiohttp's cache of middlewares keeps every application, and with it the system: 2 MB a seed."""


@dataclass(frozen=True)
class Mix(ClientMix):
    """What one run has: drawn from its seed, unless a breakage asks for something."""

    brokers: int
    faults: tuple[str, ...]
    fault_seconds: float
    """Mean time between two faults."""
    has_operator: bool
    storm_seconds: float
    slowness: float = 1.0
    """Of all disks from the start, as a factor."""
    metas: int = 1
    """Metaservers."""

    @classmethod
    def draw(cls, rng: Random) -> "Mix":
        """A mix: not every fault and kind of client in each run, so that some runs have much of a few."""
        has_damage = rng.random() < DAMAGE_SHARE
        faults = tuple(name for name in FAULTS if rng.random() < 0.35 and (has_damage or name not in DAMAGE))
        groups = tuple(name for name in GROUPS if rng.random() < 0.5) or ("raw",)
        return cls(
            brokers=rng.choice((2, 2, 3)),
            subjects=rng.randint(1, 3),
            faults=faults,
            fault_seconds=rng.uniform(0.7, 4.0),
            groups=groups,
            delayed=rng.choice((0.0, 0.2, 0.5)),
            batches=rng.choice((0.0, 0.1, 0.3)),
            poison=rng.choice((0.0, 0.05)),
            gives_back=rng.choice((0.0, 0.1)),
            has_operator=rng.random() < 0.4,
            storm_seconds=rng.uniform(*STORM_SECONDS),
            slowness=rng.choice((1.0, 1.0, 1.0, 30.0)),
            metas=rng.choice((1, 2)),
        )


@dataclass
class Report:
    """What a run came to."""

    seed: int
    mix: Mix
    broken: list[Broken]
    digest: str
    events: list[str]
    log: list[str]
    virtual_seconds: float
    cpu_seconds: float
    counts: dict[str, int] = field(default_factory=dict)
    command: str = "make sim"
    """Repeats the run, with its seed."""

    def __str__(self) -> str:
        """What a failed run prints."""
        first = "\n".join(f"  {one}"[:1500] for one in self.broken[:5])
        more = f"\n  and {len(self.broken) - 5} more" if len(self.broken) > 5 else ""
        return (
            f"seed {self.seed} broke {len(self.broken)} promises: {', '.join(sorted({one.check for one in self.broken}))}\n"
            f"{first}{more}\nlog:\n"
            + "\n".join(self.log[-EVENTS_SHOWN:])
            + "\nfaults:\n"
            + "\n".join(self.events[-EVENTS_SHOWN:])
            + f"\nmix: {self.mix}\nrepeat it with: {self.command} SEED={self.seed}"
        )


# --- faults ------------------------------------------------------------------------------------------------------------


class Storm:
    """Injects faults, and ends them."""

    def __init__(
        self, cluster: Cluster, actors: Sequence[Actor], history: History, mix: Mix, name: str = "storm"
    ) -> None:
        self._cluster = cluster
        self._actors = actors
        self._history = history
        self._mix = mix
        self._rng = cluster.loop.rng(name)
        self._damaged: Host | None = None
        """The node that has damage in this run."""
        self._tasks: dict[asyncio.Task[None], None] = {}
        self.events: list[str] = []

    def note(self, what: str) -> None:
        """Record a fault."""
        self.events.append(f"{self._cluster.loop.now - START_SECONDS:9.3f} {what}")
        self._cluster.loop.record("fault", what)

    async def rage(self, seconds: float) -> None:
        """Inject faults for so long."""
        end = self._cluster.loop.now + seconds
        while self._mix.faults:
            pause = self._rng.expovariate(1 / self._mix.fault_seconds)
            if self._cluster.loop.now + pause >= end:
                break
            await asyncio.sleep(pause)
            self._begin(self._fault(self._rng.choice(self._mix.faults)))
        await asyncio.sleep(max(0.0, end - self._cluster.loop.now))
        await self._end_faults()

    async def _end_faults(self) -> None:
        """Wait until the faults that last for a while are over."""
        await asyncio.gather(*self._tasks)

    def _fault(self, name: str) -> Callable[[], object]:
        """Return what injects a fault, by its name."""
        found: Callable[[], object] = getattr(self, name)
        return found

    def _begin(self, fault: Callable[[], object]) -> None:
        work = fault()
        if asyncio.iscoroutine(work):
            task = asyncio.get_running_loop().create_task(work)
            self._tasks[task] = None
            task.add_done_callback(lambda done: self._tasks.pop(done, None))

    def heal(self) -> None:
        """End all faults."""
        cluster = self._cluster
        cluster.network.heal()
        cluster.network.resets = None
        database = cluster.database
        database.is_away, database.slowness, database.lost_replies = False, 1.0, 0
        database.unreachable_from.clear()
        database.lift_restrictions()
        for name, host in cluster.hosts.items():
            cluster.network.power_on(name)
            host.weather.slowness = 1.0
            host.weather.clear()
            host.disk.capacity_bytes = None
            host.clock.offset_ms = 0
            if not host.is_serving:
                # A start that meets a read error changes nothing until an operator decides (docs/architecture/storage.md).
                host.disk.zero_unreadable_pages()
            if host.process is None and not host.is_wanted:
                host.start()
        for actor in self._actors:
            actor.clock.offset_ms = 0
            actor.start()
        self.note("healed")

    def _host(self) -> Host:
        return self._rng.choice(list(self._cluster.hosts.values()))

    def _node(self) -> Host:
        return self._rng.choice(list(self._cluster.nodes.values()))

    async def kill(self) -> None:
        """End a server as by kill -9; it starts again after a while."""
        host = self._host()
        if host.process is None:
            return
        self.note(f"kill {host.name}")
        host.kill()
        await asyncio.sleep(self._rng.uniform(0.05, 4))
        if host.process is None and not host.is_wanted:
            host.start()

    async def power_cut(self) -> None:
        """A node loses power: what was not synced may be gone."""
        host = self._node()
        if host.process is None:
            return
        self.note(f"power cut of {host.name}")
        host.cut_power()
        await asyncio.sleep(self._rng.uniform(0.5, 6))
        self._cluster.network.power_on(host.name)
        if host.process is None and not host.is_wanted:
            host.start()

    async def restart(self) -> None:
        """A server is stopped gracefully and started again."""
        host = self._host()
        if host.process is None or not host.is_wanted:
            return
        self.note(f"restart {host.name}")
        await host.stop()
        if host.process is None and not host.is_wanted:
            host.start()

    async def pause(self) -> None:
        """A process stands still, as after SIGSTOP."""
        programs: list[Host | Actor] = [*self._cluster.hosts.values(), *self._actors]
        program = self._rng.choice(programs)
        process = program.process
        if process is None or process.is_paused:
            return
        seconds = self._rng.choice((0.2, 1.0, 5.0, 12.0))
        self.note(f"pause {program.name} for {seconds} s")
        process.pause()
        await asyncio.sleep(seconds)
        if not process.is_dead:
            process.resume()

    async def kill_client(self) -> None:
        """A client program dies; it starts again after a while."""
        actor = self._rng.choice(self._actors)
        if actor.process is None:
            return
        self.note(f"kill {actor.name}")
        actor.kill()
        # Sometimes for longer than a lease.
        await asyncio.sleep(self._rng.choice((0.1, 1.0, 4.0, LEASE_SECONDS + 3)))
        actor.start()

    async def cut(self) -> None:
        """Packets between two hosts are lost, in both directions or in one."""
        names = [*self._cluster.hosts, *(actor.name for actor in self._actors)]
        one, other = self._rng.sample(names, 2)
        one_way = self._rng.random() < 0.4
        seconds = self._rng.choice((0.5, 3.0, 10.0))
        self.note(f"cut {one} {'to' if one_way else 'and'} {other} for {seconds} s")
        self._cluster.network.cut(one, other, one_way=one_way)
        await asyncio.sleep(seconds)
        self._cluster.network.mend(one, other)

    async def slow_link(self) -> None:
        """Packets between two hosts take long."""
        names = [*self._cluster.hosts, *(actor.name for actor in self._actors)]
        one, other = self._rng.sample(names, 2)
        seconds = self._rng.choice((0.05, 0.3, 1.0))
        self.note(f"packets between {one} and {other} take {seconds} s")
        self._cluster.network.slow_down(one, other, seconds)
        await asyncio.sleep(self._rng.uniform(1, 6))
        self._cluster.network.slow_down(one, other, 0.0)

    def reset(self) -> None:
        """Connections end with ECONNRESET."""
        ends = self._cluster.network.connections()
        for end in self._rng.sample(ends, min(len(ends), self._rng.choice((1, 3, 10)))):
            self.note(f"reset {end.host} to {end.peer.host}")
            self._cluster.network.reset(end, both=self._rng.random() < 0.7)

    async def slow_disk(self) -> None:
        """Syncs and reads of a node take long."""
        host = self._node()
        host.weather.slowness = self._rng.choice((20.0, 100.0, 1000.0))
        self.note(f"the disk of {host.name} is {host.weather.slowness} times slower")
        await asyncio.sleep(self._rng.uniform(0.5, 5))
        host.weather.slowness = self._mix.slowness

    def failing_sync(self) -> None:
        """The next sync of a node fails."""
        host = self._node()
        self.note(f"a sync of {host.name} fails")
        host.weather.failing_syncs += 1
        host.has_bad_disk = True

    async def full_disk(self) -> None:
        """A node's disk has no space for a while."""
        host = self._node()
        self.note(f"the disk of {host.name} is full")
        host.disk.capacity_bytes = host.disk.used_bytes + self._rng.choice((0, 1 << 15, 1 << 18))
        host.has_bad_disk = True
        await asyncio.sleep(self._rng.uniform(1, 8))
        host.disk.capacity_bytes = None

    def flipped_bit(self) -> None:
        """A bit of a node's log flips."""
        if (place := self._damage()) is not None:
            _, inode, offset, what = place
            self.note(f"a bit flips in {what}")
            inode.content[offset] ^= 1 << self._rng.randrange(8)
            inode.synced[offset] = inode.content[offset]

    def bad_sector(self) -> None:
        """A sector of a node's log can't be read any more."""
        if (place := self._damage()) is not None:
            host, _, offset, what = place
            self.note(f"a sector can't be read: {what}")
            host.has_bad_disk = True
            host.disk.break_pages(what.rpartition(" ")[0], offset, offset + 1)

    def _damage(self) -> tuple[Host, Inode, int, str] | None:
        """A place in the log of the one node that has damage in this run; its newest commits stay whole."""
        if self._damaged is None:
            kinds = (self._cluster.brokers, self._cluster.delays)[: 2 if self._mix.delayed else 1]
            self._damaged = next(iter(self._rng.choice(kinds).values()))
        host = self._damaged
        if not isinstance(host.server, Node):
            return None
        log = host.server.log
        if log.synced_end - log.begin < DAMAGE_DISTANCE:
            return None
        at = self._rng.randrange(log.begin, log.synced_end - DAMAGE_DISTANCE + 1)
        info = next(info for info in log.stored.segments() if info.base <= at < info.end)
        path = f"{host.server.options.data_dir}/log/{info.base:020}"
        self._history.damaged.add(host.name)
        return host, host.disk.names[path], at - info.base, f"{path} {at - info.base}"

    async def clock_step(self) -> None:
        """The wall clock of a server steps, and is put right later."""
        host = self._host()
        step = self._rng.choice((-3_600_000, -5_000, -500, 500, 4_000, 3_600_000))
        self.note(f"the clock of {host.name} steps by {step} ms")
        host.clock.offset_ms += step
        # Until it is looked at, the end of an earlier step of this clock may put it right, and this one with it.
        ahead_ms = host.clock.offset_ms
        seconds = self._rng.uniform(1, 8)
        keeping = min(seconds, KEEP_STEP_SECONDS)
        process = host.process if host.is_serving else None
        await asyncio.sleep(keeping)
        if host.name in self._cluster.delays:
            self._history.forward_ms = max(self._history.forward_ms, ahead_ms)
            is_same = process is not None and host.process is process and not process.is_paused
            if not is_same or host.weather.slowness > 1 or host.has_bad_disk:
                self._history.unchecked_ms = max(self._history.unchecked_ms, ahead_ms)
        await asyncio.sleep(seconds - keeping)
        host.clock.offset_ms = 0

    async def database_away(self) -> None:
        """The metaservers' database is slow, or can't be reached by one of several metaservers, or by all."""
        database, metas = self._cluster.database, list(self._cluster.metas)
        if len(metas) > 1 and self._rng.random() < 0.5:
            name = self._rng.choice(metas)
            self.note(f"the database can't be reached from {name}")
            database.unreachable_from.add(name)
            await asyncio.sleep(self._rng.uniform(0.5, 12))
            database.unreachable_from.discard(name)
            return
        if self._rng.random() < 0.5:
            self.note("the database is away")
            database.is_away = True
        else:
            database.slowness = self._rng.choice((10.0, 300.0))
            self.note(f"the database is {database.slowness} times slower")
        await asyncio.sleep(self._rng.uniform(0.5, 12))
        database.is_away, database.slowness = False, 1.0

    def lost_replies(self) -> None:
        """The replies to the next writes to the database are lost."""
        self.note("the database's replies to writes are lost")
        self._cluster.database.lost_replies += self._rng.randint(1, 4)

    async def restored_database(self) -> None:
        """The database is restored from a backup of some seconds ago."""
        self._cluster.database.back_up()
        await asyncio.sleep(self._rng.uniform(1, 10))
        if self._may_restore_database():
            self.note("the database is restored from a backup")
            self._cluster.database.restore()

    def _may_restore_database(self) -> bool:
        """Whether what a restored database has lost is known elsewhere, as far as that is needed."""
        return True


FAULTS = tuple(
    method.__name__
    for method in (
        Storm.kill,
        Storm.power_cut,
        Storm.restart,
        Storm.pause,
        Storm.kill_client,
        Storm.cut,
        Storm.slow_link,
        Storm.reset,
        Storm.slow_disk,
        Storm.failing_sync,
        Storm.full_disk,
        Storm.clock_step,
        Storm.flipped_bit,
        Storm.bad_sector,
        Storm.database_away,
        Storm.lost_replies,
        Storm.restored_database,
    )
)
DAMAGE = ("flipped_bit", "bad_sector")
DAMAGE_SHARE = 0.1
"""Of runs that have these: their checks are weaker."""


class Run:
    """One run."""

    def __init__(self, world: World, mix: Mix) -> None:
        self.mix = mix
        self.history = History()
        self.drain_seconds = drain_seconds(mix)
        settings = {"retry_delay_seconds": RETRY_DELAY_SECONDS, "consumer_lease_seconds": mix.lease_seconds}
        self.cluster = Cluster(world, brokers=mix.brokers, metas=mix.metas, broker_settings=settings)
        self.clients = Clients(self.cluster, self.history, mix)
        self.operator: Operator | None = None
        if mix.has_operator:
            first = self.clients.subjects[0]
            resets = [(first, "reset")] if "reset" in mix.groups else []
            self.operator = Operator(self.cluster, self.history, self.clients.subjects, resets)
        self.storm = Storm(self.cluster, self.clients.actors, self.history, mix)
        self.watch, self.meta_watch = LogWatch(), MetaWatch()

    async def run(self) -> None:
        """Do all phases; what is broken is in `history.broken`."""
        cluster, history = self.cluster, self.history
        await cluster.start()
        await self._warm_up()
        before = await checks.resources(cluster, max)
        for host in cluster.hosts.values():
            host.weather.slowness = self.mix.slowness
        self.clients.start()
        if self.operator is not None:
            self.operator.start()
        with beside(self._look()):
            await asyncio.sleep(2.0)
            await self.storm.rage(self.mix.storm_seconds)
            if self.operator is not None:
                await self.operator.stop()
            self.storm.heal()
            if not await self._within("everything serves after the faults", self._serve()):
                return
            await asyncio.sleep(2.0)
            await self._within("producers end after the faults", self._stop(self.clients.senders))
            await self._within("everything is delivered after the faults", self._drained(), self.drain_seconds)
            await self._within("consumers end", self._stop(self.clients.consumers))
        history.broken += self.watch.look(cluster, history, everything=True)
        found = await audit(cluster, "audit")
        history.broken += checks.messages(history, found, self.clients.plans)
        await asyncio.sleep(IDLE_SECONDS)
        after = await checks.resources(cluster, min)
        for name, counts in after.items():
            # A delay node keeps a connection to each broker that it has delivered to.
            kept = len(cluster.brokers) if name in cluster.delays else len(cluster.delays)
            grown = {}
            for kind, count in counts.items():
                known = before[name].get(kind, 0) + (kept if kind in ("connections", "Connection") else 0)
                # It tries again to deliver what waits for a damaged broker.
                server = cluster.hosts[name].server
                has_retry = kind == "_TimerHandle" and isinstance(server, DelayNode) and waiting_for_repair(server) > 0
                if count > known + has_retry:
                    grown[kind] = (known, count)
            if grown:
                history.broken.append(Broken("resources", f"{name} has more than after its start: {grown}"))
        for name, host in cluster.nodes.items():
            if name not in history.damaged:
                history.broken += checks.derived(host)
        history.broken += checks.failures(cluster)
        history.broken += agreement(cluster)
        await cluster.stop()

    async def _warm_up(self) -> None:
        """Have a client of each kind come and leave: what servers keep of them is no leak."""
        sender = Sender(self.cluster, self.history, "first", self.clients.subjects, delayed=0.5, batches=0.5)
        member = Member(self.cluster, self.history, "first-0", self.clients.subjects[0], "first")
        actors: list[Actor] = [sender, member]
        for actor in actors:
            actor.start()
        await asyncio.sleep(3.0)
        await self._stop(actors)
        await asyncio.sleep(IDLE_SECONDS)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.history.broken += self.watch.look(self.cluster, self.history)
            self.history.broken += self.meta_watch.look(self.cluster)
            if len(self.history.got) > GOT_MAX:
                self.history.broken.append(Broken("progress", f"more than {GOT_MAX} deliveries"))
                self.cluster.loop.stop()

    async def _within(self, what: str, work: "object", seconds: float = DRAIN_SECONDS) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await work  # type: ignore[misc]
        except TimeoutError:
            self.history.broken.append(Broken("progress", f"not within {seconds:g} s: {what}: {self._missing()}"))
            return False
        return True

    def _missing(self) -> str:
        away = [name for name, host in self.cluster.hosts.items() if not host.is_serving]
        waiting = [actor.name for actor in self.clients.actors if actor.task is not None and not actor.task.done()]
        return f"not serving {away}, running {waiting}, undelivered {list(self.clients.undelivered())[:5]}"

    async def _serve(self) -> None:
        for host in self.cluster.hosts.values():
            await host.has_started.wait()
        await self.cluster.confirm_clocks()

    async def _stop(self, actors: Sequence[Actor]) -> None:
        await asyncio.gather(*(actor.stop() for actor in actors))

    async def _drained(self) -> None:
        while True:
            if next(self.clients.undelivered(), None) is None:
                return
            await asyncio.sleep(DRAIN_LOOK_SECONDS)


@contextmanager
def beside(work: Coroutine[Any, Any, None]) -> Iterator[None]:
    """Do endless work beside a block. If it fails, so does the block: a check that has died finds nothing."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        yield
    finally:
        task.cancel()
        if task.done() and not task.cancelled():
            task.result()


def drain_seconds(mix: ClientMix) -> float:
    """Within how many seconds after the last fault everything is delivered."""
    return max(DRAIN_SECONDS, mix.lease_seconds + LEASE_MARGIN_SECONDS)


def _mix_of(seed: int, world: World) -> Mix:
    mix = Mix.draw(world.rng("mix"))
    # These were found before runs had more than one metaserver.
    return replace(mix, metas=1) if seed in REGRESSIONS else mix


def run_seed(seed: int, mix: Mix | None = None, observe: Callable[[str], None] | None = None) -> Report:
    """Do the run of a seed, or of a seed with another mix."""
    world = World(seed)
    world.observe = observe
    mix = mix or _mix_of(seed, world)
    return simulated(world, mix, lambda: Run(world, mix))


class SimulatedRun(Protocol):
    """What happens in a run, and what comes of it."""

    cluster: Cluster
    history: History

    @property
    def storm(self) -> Storm:
        """Its events are the faults of the run."""

    async def run(self) -> None:
        """Do all phases; what is broken is in `history.broken`."""


def simulated(world: World, mix: Mix, make_run: Callable[[], SimulatedRun], command: str = "make sim") -> Report:
    """Do a run in a world of its own, which is closed afterwards."""
    began = time.process_time()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    asyncio.set_event_loop(world)
    try:
        with virtual_clock():
            run = make_run()
            root.handlers[:] = [run.cluster.log]
            root.setLevel(logging.INFO)
            try:
                world.run_until_complete(asyncio.wait_for(run.run(), VIRTUAL_SECONDS_MAX))
            except ProtocolError as error:
                run.history.broken.append(Broken("content", f"stored and not readable: {error}"))
            except (TimeoutError, Stuck, RuntimeError, QmqError, AssertionError, OSError) as error:
                run.history.broken.append(Broken("progress", f"the run did not come to its end: {error!r}"))
            history = run.history
            return Report(
                seed=world.seed,
                mix=mix,
                broken=list(history.broken),
                digest=world.digest,
                events=run.storm.events,
                log=list(run.cluster.log.lines),
                virtual_seconds=world.now - START_SECONDS,
                cpu_seconds=time.process_time() - began,
                counts={
                    "sent": len(history.sent),
                    "acked": sum(sent.is_acked for sent in history.sent.values()),
                    "got": len(history.got),
                    "faults": len(run.storm.events),
                    **history.counts,
                },
                command=command,
            )
    finally:
        # What killed processes left behind ends now, and logs that it was interrupted.
        root.handlers[:] = [logging.NullHandler()]
        world.close()
        root.handlers[:], root.level = handlers, level
        asyncio.set_event_loop(None)


@contextmanager
def virtual_clock() -> Iterator[None]:
    """Let `SystemClock` read the clock of the simulated loop."""
    kind = qmq.clock.SystemClock
    monotonic, wall_ms = kind.monotonic, kind.wall_ms
    kind.monotonic = lambda _: SimulatedClock(running_loop()).monotonic()  # type: ignore[method-assign]
    kind.wall_ms = lambda _: SimulatedClock(running_loop()).wall_ms()  # type: ignore[method-assign]
    try:
        yield
    finally:
        kind.monotonic, kind.wall_ms = monotonic, wall_ms  # type: ignore[method-assign]


def main(arguments: list[str], run: Callable[[int], Report] = run_seed, command: str = "make sim") -> int:
    """Do runs, and print those that failed; the exit code."""
    parser = argparse.ArgumentParser(prog=command, description="Run a simulated system under faults.")
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--seed", type=int, help="the run of this seed")
    chosen.add_argument("--seeds", type=int, metavar="COUNT", help="so many runs")
    parser.add_argument("--first", type=int, default=1, help="the first seed of --seeds (default 1)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time (default: one for each core)"
    )
    options = parser.parse_args(arguments)
    if options.seed is not None:
        report = run(options.seed)
        print(report if report.broken else _line(report))
        return int(bool(report.broken))
    seeds = range(options.first, options.first + options.seeds)
    failed: list[Report] = []
    began = time.monotonic()
    with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=CHUNKS_OF_A_PROCESS) as pool:
        for count, report in enumerate(pool.imap_unordered(run, seeds, chunksize=2), 1):
            if report.broken:
                failed.append(report)
                print(report, flush=True)
            if count % 50 == 0:
                print(f"{count} seeds, {len(failed)} failed, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{len(seeds)} seeds in {time.monotonic() - began:.0f} s; failed: {sorted(report.seed for report in failed)}")
    return int(bool(failed))


def _line(report: Report) -> str:
    return (
        f"seed {report.seed} holds: {report.counts}, {report.virtual_seconds:.0f} s in {report.cpu_seconds:.1f} s of CPU, "
        f"digest {report.digest}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
