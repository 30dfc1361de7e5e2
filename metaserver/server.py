"""class Metaserver: a daemon that answers from memory and stores behind. No Django: the repository is handed in."""

import asyncio
import os

from metaserver.admin.metrics import MetaMetrics
from metaserver.admin.pages import ADDRESS_PAGE, DELAY_GROUPS_PAGE, MetaPages
from metaserver.domain import Leases, Metadata, MetadataChanges
from metaserver.memory.directory import Directory
from metaserver.memory.live_groups import LEASE_SECONDS
from metaserver.options import MetaOptions
from metaserver.replication.membership_changes import MembershipChanges
from metaserver.requests.handlers import MetaHandlers
from metaserver.requests.official_nodes import OfficialNodes
from metaserver.stored.route_file import RouteFile
from metaserver.stored.stored_metadata import StoredMetadata
from metaserver.stored.write_behind import Repository, WriteBehind
from qmq.net.open_files import FileBudget
from qmq_node.admin.http_guard import HttpLimits
from qmq_node.admin.server import AdminPages
from qmq_node.daemon.daemon import Daemon, Serving
from qmq_node.process.machine import Machine
from qmq_node.server.server_limits import ServerLimits

EXPIRE_SECONDS = 0.5
"""How often leases are checked."""
RELOAD_SECONDS = 1.0
"""Interval at which the database is checked for changes by other metaservers or operators."""
ROUTE_FILE_SECONDS = 5.0
ROUTE_FILE_ALONE_SECONDS = 1.0
"""How often the route file is saved, if it changed, while it is the only copy: the database is unavailable, or behind."""
FRAME_BYTES_MAX = 1 << 20
CLIENT_REQUESTS_PER_SECOND = 200.0
"""HTTP requests without a proof: each client that starts requests the address page, so more are answered than by other daemons."""
CLIENT_CONNECTIONS_MAX = 384
"""HTTP connections: as many clients may start at once. Within `RESERVED_FILES`: a metaserver has few other files."""


class MetaServing(Serving):
    """Answers nodes and clients from memory, stores what they change, and reads what others changed."""

    metrics: MetaMetrics
    handlers: MetaHandlers
    write_behind: WriteBehind
    membership_changes: MembershipChanges

    def __init__(self, daemon: Daemon, options: MetaOptions, repository: Repository) -> None:
        self._daemon = daemon
        self._options = options
        self._repository = repository
        self.clock = daemon.clock
        self.official_nodes = OfficialNodes.parse(options.official_nodes, needs_addresses=daemon.secret is not None)
        official_groups = self.official_nodes.broker_groups
        self.directory = Directory(
            daemon.clock,
            daemon.machine.rng,
            subject_groups_min=options.subject_groups_min,
            new_group_copies=options.copies,
            approves_new_groups=lambda name: options.new_groups == "allow" or name in official_groups,
        )
        self.stored = StoredMetadata(self.directory, daemon.clock)
        self.tcp_address = ""
        """The address given to clients."""
        self.route_file = RouteFile(daemon.disk, os.path.join(options.data_dir, "routes.json"))
        self._stop = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None
        self._save_route_file_at = 0.0
        self._reloaded_at = self._steady_since = 0.0
        self._failures_seen = 0

    def limits(self, connections: int) -> ServerLimits:
        return ServerLimits(connections_max=connections, frame_bytes_max=FRAME_BYTES_MAX)

    async def open(self, budget: FileBudget) -> None:
        await asyncio.to_thread(self._daemon.disk.make_private_dir, self._options.data_dir)
        self.write_behind = WriteBehind(
            self._repository,
            lambda written, stored: self.handlers.route_stored(written, stored),
            self._leases_read,
            self.clock,
            last_write_seconds=self._options.stop_seconds,
        )
        metadata = await self.write_behind.load()
        assert not isinstance(metadata, MetadataChanges), "nothing was loaded before"
        saved = await self.route_file.load()
        self._has_file_only = metadata is None and saved is not None
        if metadata is None:
            self._daemon.logger.warning("starting %s", "from the route file" if saved else "with no routes known")
        if metadata is not None:
            await self.stored.load(metadata)
        elif saved is not None:
            await self.stored.load(saved, from_file=True)
        for group in saved.broker_groups if saved is not None else ():
            # The database may have been restored from a backup while no metaserver ran.
            self.directory.learn_newer_membership(group)

    def build(self) -> AdminPages:
        self.membership_changes = MembershipChanges(
            self._repository.membership_store(), lambda membership: self.handlers.membership_learned(membership)
        )
        self.handlers = MetaHandlers(
            self.directory,
            self.write_behind,
            self.clock,
            self._daemon.bulk_reads,
            self.membership_changes,
            self._daemon.supervisor,
            lambda: self.route_file.save(self.directory),
            auth=self._daemon.auth,
            official_nodes=self.official_nodes,
        )
        self.metrics = MetaMetrics(self._daemon, self)
        pages = MetaPages(self)
        return AdminPages({**pages.json_routes(), ADDRESS_PAGE: pages.address_page})

    async def start(self) -> None:
        self._writing = self._daemon.supervisor.critical("write_behind", self.write_behind.run(self._stop))

    def run(self) -> None:
        # A field, because the listener is closed before the last reload ends.
        self.tcp_address = f"{self._options.advertise_host or self._options.host}:{self._daemon.server.address[1]}"
        self._reloaded_at = self._steady_since = self.clock.monotonic()
        self._failures_seen = self.write_behind.counters.failures
        self._daemon.supervisor.every(EXPIRE_SECONDS, "leases", self.handlers.expire, is_vital=True)
        self._daemon.supervisor.every(RELOAD_SECONDS, "reload", self.reload)
        self._daemon.supervisor.every(ROUTE_FILE_ALONE_SECONDS, "route_file", self._keep_route_file)

    @property
    def drain_seconds_max(self) -> float:
        return 0.0  # requests are answered at once, except held ones, which would wait for a broker group

    async def finish(self) -> None:
        self._stop.set()
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await self.membership_changes.close()
        await self.route_file.save(self.directory)

    async def release(self) -> None:
        self.route_file.close()

    async def reload(self) -> None:
        """Apply what others changed in the database, and record there that this metaserver runs."""
        loaded = await self.write_behind.load()
        if isinstance(loaded, MetadataChanges):
            self.handlers.reloaded(await self.stored.apply(loaded))
        elif loaded is not None:
            self.handlers.reloaded(await self.stored.load(loaded))
            if self._has_file_only:
                self._has_file_only = False
                self._store_what_only_the_file_had(loaded)
        leases = await self.write_behind.leases()
        if leases is not None:
            self._leases_read(leases)
        now, failures = self.clock.monotonic(), self.write_behind.counters.failures
        if now - self._reloaded_at > LEASE_SECONDS or failures != self._failures_seen:
            # After a pause of this process, or of the database: heartbeats were not received, or not stored, in between.
            self._steady_since, self._failures_seen = now, failures
        self._reloaded_at = now
        self.write_behind.heartbeat(self.tcp_address, now - self._steady_since)

    def _leases_read(self, leases: Leases) -> None:
        self.handlers.peers_observed(self.directory.observe_peers(leases))

    def _store_what_only_the_file_had(self, stored: Metadata) -> None:
        """Store what the file had and the database lacks: the process that wrote the file may have ended before it stored that."""
        groups = {group.name for group in stored.broker_groups}
        for name, live in self.directory.groups.items():
            if name not in groups:
                self.write_behind.group(live.group, "loaded from the route file")
        subjects = {route.subject for route in stored.routes}
        for subject, route in self.directory.routes.items():
            if subject not in subjects:
                self.directory.add_unstored(route)
                self.write_behind.route(route)

    async def _keep_route_file(self) -> None:
        """Save the route file; apart from `reload`, which waits for the database."""
        now = self.clock.monotonic()
        if now >= self._save_route_file_at or self.write_behind.pending:
            self._save_route_file_at = now + ROUTE_FILE_SECONDS
            await self.route_file.save(self.directory)


class Metaserver(Daemon):
    """One metaserver."""

    kind = "meta"
    title = "metaserver"
    open_paths = frozenset({ADDRESS_PAGE, DELAY_GROUPS_PAGE})
    admin_limits = HttpLimits(connections_max=CLIENT_CONNECTIONS_MAX, requests_per_second=CLIENT_REQUESTS_PER_SECOND)
    options: MetaOptions
    serving: MetaServing

    def __init__(self, options: MetaOptions, repository: Repository, machine: Machine | None = None) -> None:
        super().__init__(options, machine)
        self.port, self.admin_address = options.tcp_port, (options.host, options.http_port)
        self.serving = MetaServing(self, options, repository)
        self.parts = (self.serving,)

    @property
    def directory(self) -> Directory:
        """What is known of the system."""
        return self.serving.directory

    @property
    def handlers(self) -> MetaHandlers:
        return self.serving.handlers
