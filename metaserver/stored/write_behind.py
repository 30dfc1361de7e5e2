"""class WriteBehind: the queue of changes from the metaserver's memory to its database, and the interface of that.

Answers never wait for the database. While it is unavailable, changes stay queued and are retried with a growing pause. The newest
state of an object replaces a queued one, so the queue is bounded by the number of objects and by WORK_MAX.

Another metaserver may have stored newer states of broker groups meanwhile. Before the first write after a failure, the stored
leases are therefore read and handed to `on_leases`, which discards what is out of date.
"""

import asyncio
import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from metaserver.domain import (
    BrokerGroup,
    ClientSeen,
    Leases,
    Metadata,
    MetadataChanges,
    MetadataVersion,
    Node,
    Route,
    StoredConsumerGroup,
)
from metaserver.replication.membership_changes import MembershipStore
from qmq.clock import Clock
from qmq_node.process.counters import counted
from qmq_node.process.first_failure import any_of


class Unstorable(Exception):
    """The store rejects a change permanently: a text that it can't hold, or a row that refers to a deleted one."""


class Repository(Protocol):
    """Called from one background thread only; every call may raise when the store is unavailable, and is retried."""

    def load(self) -> Metadata:
        """Everything."""

    def version(self) -> MetadataVersion:
        """What changes with every change of metadata: equal versions, equal metadata."""

    def changed(self, since: MetadataVersion, until: MetadataVersion) -> MetadataChanges | None:
        """What changed after `since` up to `until`; None when that is not known, and everything has to be loaded."""

    def leases(self) -> Leases:
        """Each broker group with its master's last stored heartbeat, and which other metaservers run."""

    def save_route(self, route: Route) -> Route:
        """Store version n + 1 over version n (0: new); the route that is there afterwards, which may be another's."""

    def save_group(self, group: BrokerGroup, reason: str) -> None:
        """Create a broker group, set the row of one that has no master yet, or change the state of any other."""

    def save_node(self, node: Node) -> None:
        """Create or update a node."""

    def heartbeat(self, name: str, steady_seconds: float, at_ms: int) -> None:
        """Record that this metaserver runs, and for how long it has run and stored without a pause."""

    def save_clients(self, clients: list[ClientSeen]) -> None:
        """Record that these clients registered."""

    def consumer_groups(self, after: int, count: int) -> list[StoredConsumerGroup]:
        """The next `count` consumer groups after one of this number, in the order in which they became known."""

    def membership_store(self) -> MembershipStore:
        """The rows of the same broker groups, to be changed from another thread. This method may be called from any thread."""


T = TypeVar("T")
V = TypeVar("V")
logger = logging.getLogger("qmq.meta.write_behind")

WORK_MAX = 200_000
"""Client sightings that wait to be written; further ones are dropped (counted)."""
SIGHTINGS_MAX = 300_000
"""Clients known to be recorded within CLIENT_SECONDS; a further one evicts the one that registered least recently."""
OUTDATED_PER_CLIENT = 2
"""Sightings that are forgotten when a client registers, if they are out of date."""
CLIENTS_PER_WRITE = 500
LAST_WRITE_SECONDS = 3.0
"""How long a stop waits for the database; a hanging call blocks its thread, not the shutdown."""
CLIENT_SECONDS = 300.0
"""A client that registers again and again is recorded at this interval."""
BACK_OFF_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(slots=True)
class WriteCounters:
    failures: int = counted("database_failures", "Failed writes and reads")
    dropped_clients: int = counted("clients_dropped", "Clients not recorded because the queue was full")
    unstorable: int = counted("unstorable_changes", "Changes that the database rejects permanently")


@dataclass(eq=False, repr=False)
class WriteBehind:
    """Loads metadata from the repository and writes changes to it, in one thread.

    `on_route` gets each route that was to be stored and the one that is stored, which another metaserver may have stored first.
    `on_leases` gets what is stored before queued changes are written after a failure. `on_group` gets the name of each broker group
    that was stored. The end of `run` waits `last_write_seconds`
    for the database.
    """

    _repository: Repository
    _on_route: Callable[[Route, Route], None]
    _on_leases: Callable[[Leases], None]
    _clock: Clock
    _: KW_ONLY
    last_write_seconds: float = LAST_WRITE_SECONDS
    on_group: Callable[[str], None] = lambda name: None
    _routes: OrderedDict[str, Route] = field(default_factory=OrderedDict, init=False)
    _groups: OrderedDict[str, tuple[BrokerGroup, str]] = field(default_factory=OrderedDict, init=False)
    _nodes: OrderedDict[str, Node] = field(default_factory=OrderedDict, init=False)
    _clients: OrderedDict[ClientSeen, None] = field(default_factory=OrderedDict, init=False)
    _sightings: OrderedDict[ClientSeen, float] = field(default_factory=OrderedDict, init=False)
    """When each client was recorded, in monotonic seconds; the least recently registered first."""
    _heartbeat: tuple[str, float, int] | None = field(default=None, init=False)
    _wake: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _loaded: MetadataVersion | None = field(default=None, init=False)
    _has_failed: bool = field(default=False, init=False)
    """A write or read failed since the stored leases were last read."""
    problem: str = field(default="", init=False)
    """Why the database is unavailable; "" while it responds."""
    counters: WriteCounters = field(default_factory=WriteCounters, init=False)
    _thread: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, 1, "metadata"), init=False)

    async def load(self) -> Metadata | MetadataChanges | None:
        """Everything stored, or what changed since the last call; None when nothing did, or the store is unavailable."""
        try:
            version = await self._in_thread(self._repository.version)
            loaded = self._loaded
            if version == loaded:
                self.problem = ""
                return None
            # Loaded after its version was read: a change in between is loaded once more by the next call.
            metadata: Metadata | MetadataChanges | None = None
            if loaded is not None:
                metadata = await self._in_thread(lambda: self._repository.changed(loaded, version))
            if metadata is None:
                metadata = await self._in_thread(self._repository.load)
            self._loaded = version
        except Exception as error:  # noqa: BLE001 - whatever the database raises, the metaserver continues
            self._failed(error)
            return None
        self.problem = ""
        return metadata

    async def leases(self) -> Leases | None:
        """What metaservers stored of nodes and of themselves; None when the store is unavailable."""
        try:
            return await self._in_thread(self._repository.leases)
        except Exception as error:  # noqa: BLE001 - as in `load`
            self._failed(error)
            return None

    async def consumer_groups(self, after: int, count: int) -> list[StoredConsumerGroup] | None:
        """As `Repository.consumer_groups`; None when the store is unavailable."""
        try:
            return await self._in_thread(lambda: self._repository.consumer_groups(after, count))
        except Exception as error:  # noqa: BLE001 - as in `load`
            self._failed(error)
            return None

    def unstored_clients(self) -> Iterator[ClientSeen]:
        """The clients that registered and are not stored yet."""
        return iter(self._clients)

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def _failed(self, error: Exception) -> None:
        if not self.problem:
            logger.warning("the database is unavailable, answers come from memory: %s", error)
        self.counters.failures += 1
        self._has_failed = True
        self.problem = f"{type(error).__name__}: {error}".splitlines()[0]

    def route(self, route: Route) -> None:
        """Queue a route that is new or changed."""
        self._routes[route.subject] = route
        self._wake.set()

    def group(self, group: BrokerGroup, reason: str) -> None:
        """Queue a broker group that changed."""
        self._groups[group.name] = (group, reason)
        self._wake.set()

    def node(self, node: Node) -> None:
        """Queue a node that registered."""
        self._nodes[node.node_id] = node
        self._wake.set()

    def discard(self, broker_groups: Collection[str]) -> None:
        """Forget queued changes of these broker groups and their nodes: the database holds newer ones."""
        for name in broker_groups:
            self._groups.pop(name, None)
        for node in [node for node in self._nodes.values() if node.broker_group in broker_groups]:
            del self._nodes[node.node_id]

    def heartbeat(self, name: str, steady_seconds: float) -> None:
        """Queue that this metaserver runs and stores; written after everything queued before it."""
        self._heartbeat = (name, steady_seconds, self._clock.wall_ms())
        self._wake.set()

    def client(self, client: ClientSeen) -> None:
        """Queue that a client registered, once in CLIENT_SECONDS. O(1)."""
        now, sightings = self._clock.monotonic(), self._sightings
        # Limited, because all clients that registered together are out of date together.
        for _ in range(OUTDATED_PER_CLIENT):
            if not sightings or now - next(iter(sightings.values())) < CLIENT_SECONDS:
                break
            sightings.popitem(last=False)
        recorded_at = sightings.get(client)
        if recorded_at is None or now - recorded_at >= CLIENT_SECONDS:
            if len(self._clients) >= WORK_MAX:
                self.counters.dropped_clients += 1
                return
            sightings[client] = now
            self._clients[client] = None
            self._wake.set()
        sightings.move_to_end(client)
        if len(sightings) > SIGHTINGS_MAX:
            sightings.popitem(last=False)

    @property
    def pending(self) -> int:
        """Changes not stored yet."""
        return len(self._routes) + len(self._groups) + len(self._nodes) + len(self._clients)

    @property
    def has_work(self) -> bool:
        """Whether anything is queued."""
        return self._heartbeat is not None or self.pending > 0

    async def run(self, stop: asyncio.Event) -> None:
        """Write until `stop`; what is left then is tried once more, within `last_write_seconds`."""
        failed = 0
        while not stop.is_set():
            if not self.has_work:
                self._wake.clear()
                await any_of(stop, self._wake)
                continue
            if await self._write_all():
                failed = 0
            else:
                failed += 1
                await any_of(stop, seconds=BACK_OFF_SECONDS[min(failed, len(BACK_OFF_SECONDS)) - 1])
        try:
            async with asyncio.timeout(self.last_write_seconds):
                await self._write_all()
        except TimeoutError:
            logger.warning("the database does not respond: %d changes are not stored", self.pending)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _write_all(self) -> bool:
        repository = self._repository
        try:
            if self._has_failed:
                leases = await self._in_thread(repository.leases)
                self._has_failed = False
                self._on_leases(leases)
            while self._groups or self._nodes or self._routes:
                # Groups first, each time: a route or node that was queued meanwhile may refer to a group queued with it.
                if self._groups:
                    name = next(iter(self._groups))
                    await self._write_next(self._groups, lambda item: repository.save_group(*item), "broker group")
                    self.on_group(name)
                elif self._nodes:
                    await self._write_next(self._nodes, repository.save_node, "node")
                else:
                    route = next(iter(self._routes.values()))
                    stored = await self._write_next(self._routes, repository.save_route, "the route of")
                    if stored is not None:
                        self._on_route(route, stored)
            while self._clients:
                batch = list(itertools.islice(self._clients, CLIENTS_PER_WRITE))
                try:
                    await self._in_thread(partial(repository.save_clients, batch))
                except Unstorable:
                    # Caused by one of them: write each by itself.
                    for client in batch:
                        await self._store(partial(repository.save_clients, [client]), f"client {client}")
                for client in batch:
                    self._clients.pop(client, None)
            if self._heartbeat is not None:
                heartbeat, self._heartbeat = self._heartbeat, None
                await self._in_thread(partial(repository.heartbeat, *heartbeat))
        except Exception as error:  # noqa: BLE001 - as in `load`
            self._failed(error)
            return False
        if self.problem:
            logger.info("the database responds again")
            self.problem = ""
        return True

    async def _write_next(self, queue: OrderedDict[str, V], save: Callable[[V], T], what: str) -> T | None:
        """Write the oldest change of a queue, and remove it unless a newer one replaced it meanwhile."""
        name, change = next(iter(queue.items()))
        stored = await self._store(lambda: save(change), f"{what} {name}")
        if queue.get(name) == change:
            del queue[name]
        return stored

    async def _store(self, call: Callable[[], T], what: str) -> T | None:
        """Write one change. One that can never be stored is dropped, logged and counted, so that it does not block others: None."""
        try:
            return await self._in_thread(call)
        except Unstorable as error:
            self.counters.unstorable += 1
            logger.error("%s can't be stored and is dropped: %s", what, error)
            return None
