"""Two metaservers over one database."""

import random
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from django.db import connection

from metaserver.choices import GroupState
from metaserver.options import MetaOptions
from metaserver.server import Metaserver
from metaserver.stored.orm_repository import OrmRepository
from qmq.protocol.codes import BrokerRequestType
from qmq_node.process.machine import Machine
from tests.support.drivers.metaserver_peers import Peer
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async

T = TypeVar("T")


ONLINE, OFFLINE = GroupState.READ_WRITE, GroupState.OFFLINE


HEARTBEAT = BrokerRequestType.HEARTBEAT


class SharedRepository(OrmRepository):
    """The test's database; one call at a time, as its SQLite in memory has no other way to wait for a lock."""

    lock = threading.Lock()

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False

    def _run(self, call: Callable[[], T]) -> T:
        if self.is_away:
            raise ConnectionError("the database is away")
        with self.lock:
            try:
                return super()._run(call)
            finally:
                # Each metaserver has a thread of its own, which ends with its connection open otherwise.
                connection.close()


class Pair:
    """Two metaservers, `a` and `b`, whose wall clocks are an hour apart."""

    def __init__(self, folder: Path, new_groups: str) -> None:
        self.clocks = [ManualClock(), ManualClock(wall_ms=1_700_003_600_000)]
        self.repositories = [SharedRepository(), SharedRepository()]
        self.running: list[Metaserver] = []
        self._folder, self._new_groups = folder, new_groups
        self.a, self.b = self._new(0), self._new(1)

    def _new(self, number: int) -> Metaserver:
        folder = str(self._folder / "ab"[number])
        options = MetaOptions(http_port=0, tcp_port=0, data_dir=folder, new_groups=self._new_groups)
        return Metaserver(
            options, self.repositories[number], Machine(clock=self.clocks[number], rng=random.Random(number))
        )

    async def start_a_again(self) -> None:
        """A new process of `a`, with the data folder of the last one."""
        self.a = self._new(0)
        await self.a.start()
        self.running.insert(0, self.a)

    async def start(self) -> None:
        for metaserver in (self.a, self.b):
            await metaserver.start()
            self.running.append(metaserver)

    async def close(self, *metaservers: Metaserver) -> None:
        for metaserver in metaservers or list(self.running):
            self.running.remove(metaserver)
            await metaserver.close()

    def set_database_away(self, is_away: bool) -> None:
        for repository in self.repositories:
            repository.is_away = is_away

    async def step(self) -> None:
        """Half a second: expiry, and what both do with the database once a second."""
        for clock in self.clocks:
            clock.advance(0.5)
        for metaserver in self.running:
            metaserver.handlers.expire()
        if self.clocks[0].monotonic() % 1:
            return
        for metaserver in self.running:
            await self.stored(metaserver)
        for metaserver in self.running:
            await metaserver.serving.reload()
            await self.stored(metaserver)

    async def stored(self, metaserver: Metaserver) -> None:
        """Wait until everything is written, unless the database is away."""
        if not self.repositories[metaserver is self.b].is_away:
            await eventually_async(lambda: not metaserver.serving.write_behind.has_work, what="everything is stored")

    async def run(self, seconds: float, node: Peer | None = None, port: int = 1, state: int = 1) -> None:
        """Time passes; a node sends heartbeats each second."""
        for number in range(round(seconds * 2)):
            await self.step()
            if node is not None and number % 2:
                assert (await node.register("g1", port=port, request_type=HEARTBEAT, state=state)).accepted

    async def run_until_offline(self, metaserver: Metaserver, seconds_max: float) -> float:
        """Let time pass until a metaserver has the group as offline; how long that took."""
        for number in range(round(seconds_max * 2)):
            if metaserver.directory.groups["g1"].state is OFFLINE:
                return number / 2
            await self.step()
        raise AssertionError(f"still online after {seconds_max} s")

    def states(self) -> list[GroupState]:
        """The group's state at each running metaserver."""
        return [m.directory.groups["g1"].state for m in self.running if "g1" in m.directory.groups]


@asynccontextmanager
async def pair(folder: Path, new_groups: str = "allow") -> AsyncIterator[Pair]:
    found = Pair(folder, new_groups)
    await found.start()
    try:
        yield found
    finally:
        await found.close()
