"""class Metaserver: what it owns, in which order it starts and stops. No Django: the repository is handed in."""

import asyncio
import json
import logging
import os
from typing import Any

from aiohttp import web
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from metaserver.choices import GroupKind
from metaserver.directory import Directory
from metaserver.keeper import Keeper
from metaserver.live_groups import LEASE_SECONDS, LiveGroup
from metaserver.official_nodes import OfficialNodes
from metaserver.options import MetaOptions
from metaserver.repository import Repository
from metaserver.route_file import RouteFile
from metaserver.server import MetaHandlers
from metaserver.snapshot import Metadata, MetadataChanges, Route
from qmq.clock import Clock
from qmq.daemon.admin_auth import AdminAccess
from qmq.daemon.admin_http import AdminHttp, BadRequest, number
from qmq.daemon.file_budget import file_budget
from qmq.daemon.first_failure import FirstFailure
from qmq.daemon.host_check import names_of, warn_if_exposed
from qmq.daemon.http_guard import HttpLimits
from qmq.daemon.job_metrics import job_metrics
from qmq.daemon.machine import Machine
from qmq.daemon.read_gate import ReadGate
from qmq.daemon.shared_page import SharedPages
from qmq.net.connection_auth import ConnectionAuth
from qmq.net.node_secret import NodeSecret
from qmq.net.server import FrameServer, ServerLimits
from qmq.supervisor import Supervisor

logger = logging.getLogger("qmq.meta")

EXPIRE_SECONDS = 0.5
"""How often leases are checked."""
RELOAD_SECONDS = 1.0
"""Interval at which the database is checked for changes by other metaservers or operators."""
ROUTE_FILE_SECONDS = 5.0
ROUTE_FILE_ALONE_SECONDS = 1.0
"""How often the route file is saved, if it changed, while it is the only copy: the database is unavailable, or behind."""
SUBJECTS_PER_PAGE = 1_000
FRAME_BYTES_MAX = 1 << 20
CLIENT_REQUESTS_PER_SECOND = 200.0
"""HTTP requests without a proof: each client that starts asks for the address of the TCP port, so more than other nodes answer."""


class Metaserver:
    """One metaserver."""

    def __init__(
        self,
        options: MetaOptions,
        repository: Repository,
        machine: Machine | None = None,
    ) -> None:
        self.options = options
        self.machine = machine or Machine()
        self.clock: Clock = self.machine.clock
        self.secret = NodeSecret.load(options.node_token, options.node_token_file)
        self.official_nodes = OfficialNodes.parse(options.official_nodes, needs_addresses=self.secret is not None)
        official_groups = self.official_nodes.broker_groups
        self.directory = Directory(
            self.clock,
            self.machine.rng,
            subject_groups_min=options.subject_groups_min,
            approves_new_groups=lambda name: options.new_groups == "allow" or name in official_groups,
        )
        self.failure = FirstFailure()
        """What ended the metaserver."""
        self.supervisor = Supervisor(self.clock, logger=logger, on_failure=lambda name, error: self.failure.set(error))
        self.read_gate = ReadGate(self.clock, self.supervisor, token=options.read_token, bytes_per_second=0)
        self.auth = ConnectionAuth(self.secret)
        self._repository = repository
        self.tcp_address = ""
        """The address given to clients."""
        self.route_file = RouteFile(self.machine.disk, os.path.join(options.data_dir, "routes.json"))
        self._stop = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._subject_pages = SharedPages(self.clock)
        self._save_route_file_at = 0.0
        self._reloaded_at = self._steady_since = 0.0
        self._failures_seen = 0
        self._is_closed = False

    async def start(self) -> None:
        """Load what is known and listen. Raises OSError when an address is taken."""
        self.machine.disk.make_private_dir(self.options.data_dir)
        self.keeper = Keeper(self._repository, lambda route: self.handlers.route_stored(route), self.clock)
        self.handlers = MetaHandlers(
            self.directory,
            self.keeper,
            self.clock,
            self.read_gate,
            auth=self.auth,
            official_nodes=self.official_nodes,
        )
        metadata = await self.keeper.load_all()
        from_file = metadata is None
        if metadata is None:
            metadata = await self.route_file.load()
            logger.warning("starting %s", "from the route file" if metadata else "with no routes known")
        if metadata is not None:
            self.directory.load(metadata, from_file=from_file)
        self._has_file_only = from_file and metadata is not None
        options = self.options
        connections_max = file_budget(options.connections_max).connections
        self.tcp = FrameServer(
            options.host,
            options.tcp_port,
            self.handlers.handle,
            clock=self.clock,
            limits=ServerLimits(connections_max=connections_max, frame_bytes_max=FRAME_BYTES_MAX),
            logger=logging.getLogger("qmq.meta.net"),
            supervisor=self.supervisor,
            listen=self.machine.listen,
        )
        self.http = AdminHttp(
            options.host,
            options.http_port,
            health=lambda: "",
            ready=lambda: "",
            supervisor=self.supervisor,
            clock=self.clock,
            metrics=self._families,
            access=AdminAccess(
                self.clock,
                self.secret,
                options.metrics_token,
                names_of(options.admin_names) | {options.advertise_host},
                open_paths=frozenset({"/meta/address", "/meta/delay-groups"}),
            ),
            limits=HttpLimits(requests_per_second=CLIENT_REQUESTS_PER_SECOND),
            json_routes={
                "/meta/delay-groups": self._delay_groups,
                "/meta/cluster": self._cluster,
                "/meta/subjects": self._subjects,
                "/meta/subjects/{subject:.+}": self._subject,
            },
            text_routes={"/meta/address": self._address},
        )
        await self.tcp.start()
        await self.http.start()
        # Kept: the listener is closed before the last reload ends.
        self.tcp_address = f"{options.advertise_host or options.host}:{self.tcp.address[1]}"
        self._keeping = self.supervisor.critical("keeper", self.keeper.run(self._stop))
        self._reloaded_at = self._steady_since = self.clock.monotonic()
        self._failures_seen = self.keeper.failures
        self.supervisor.every(EXPIRE_SECONDS, "leases", self.handlers.expire, is_vital=True)
        self.supervisor.every(RELOAD_SECONDS, "reload", self.reload)
        self.supervisor.every(ROUTE_FILE_ALONE_SECONDS, "route_file", self._keep_route_file)
        warn_if_exposed(logger, self.secret, options.host)
        logger.info("metaserver serves on %s:%d, pages on %s:%d", *self.tcp.address, *self.http.address)

    async def _families(self) -> "list[Metric]":
        return _MetaMetrics(self).collect()

    async def serve(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set. Raises the first failure that ends the metaserver."""
        await self.failure.wait(stop)

    async def close(self) -> None:
        """Stop; what is not stored yet is tried once more."""
        if self._is_closed:
            return
        self._is_closed = True
        await self.supervisor.stop()
        if self._keeping is None:
            # A start that failed: its addresses are released with the process.
            await self.supervisor.close()
            return
        await self.read_gate.close()
        await self.tcp.close(0)
        await self.http.close()
        self._stop.set()
        await asyncio.wait([self._keeping])
        await self.supervisor.close()
        await self.route_file.save(self.directory.metadata())
        self.route_file.close()
        logger.info("metaserver stopped")

    async def reload(self) -> None:
        """Apply what others changed in the database, and record there that this metaserver runs."""
        loaded = await self.keeper.load()
        if isinstance(loaded, MetadataChanges):
            self.handlers.reloaded(self.directory.apply(loaded))
        elif loaded is not None:
            self.handlers.reloaded(self.directory.load(loaded))
            if self._has_file_only:
                self._has_file_only = False
                self._store_what_only_the_file_had(loaded)
        leases = await self.keeper.leases()
        if leases is not None:
            self.handlers.peers_observed(self.directory.observe_peers(leases))
        now = self.clock.monotonic()
        if now - self._reloaded_at > LEASE_SECONDS or self.keeper.failures != self._failures_seen:
            # After a pause of this process, or of the database: heartbeats were not received, or not stored, in between.
            self._steady_since, self._failures_seen = now, self.keeper.failures
        self._reloaded_at = now
        self.keeper.heartbeat(self.tcp_address, now - self._steady_since)

    def _store_what_only_the_file_had(self, stored: Metadata) -> None:
        """The process that wrote the file had no time to store the routes, and no other process will, because this one does not
        regard them as new.
        """
        groups = {group.name for group in stored.broker_groups}
        for name, live in self.directory.groups.items():
            if name not in groups:
                self.keeper.group(live.row, "loaded from the route file")
        subjects = {route.subject for route in stored.routes}
        for subject, route in self.directory.routes.items():
            if subject not in subjects:
                self.keeper.route(route)

    async def _keep_route_file(self) -> None:
        """Save the route file; apart from `reload`, which waits for the database."""
        now = self.clock.monotonic()
        if now >= self._save_route_file_at or self.keeper.waiting:
            self._save_route_file_at = now + ROUTE_FILE_SECONDS
            await self.route_file.save(self.directory.metadata())

    # --- pages -----------------------------------------------------------------------------------------------------

    async def _address(self, _: web.Request) -> str:
        return self.tcp_address

    async def _delay_groups(self, _: web.Request) -> dict[str, Any]:
        """What clients need to look up and change delayed messages; routes give them the same addresses."""
        groups = sorted(self.directory.groups.items())
        return {
            "delay_groups": [
                {"name": name, "address": live.node.address if live.node is not None else ""}
                for name, live in groups
                if live.row.kind is GroupKind.DELAY
            ]
        }

    async def _cluster(self, _: web.Request) -> dict[str, Any]:
        return {
            "metaserver": {
                "tcp": self.tcp_address,
                "database": f"down: {self.keeper.problem}" if self.keeper.problem else "up",
                "not_stored_yet": self.keeper.waiting,
                "route_file": self._route_file_state(),
                "subjects": len(self.directory.routes),
            },
            "broker_groups": [self._group(live) for _, live in sorted(self.directory.groups.items())],
        }

    def _route_file_state(self) -> str:
        file = self.route_file
        if file.save_problem:
            return f"not written: {file.save_problem}"
        return f"unreadable at the start: {file.load_problem}" if file.load_problem else "ok"

    def _group(self, live: LiveGroup) -> dict[str, Any]:
        row, node, directory = live.row, live.node, self.directory
        members = [n.node_id for n in directory.nodes.values() if n.broker_group == row.name]
        return {
            "name": row.name,
            "kind": str(row.kind),
            "state": str(live.state),
            "operator_state": str(row.operator_state),
            "reason": live.reason,
            "epoch": row.epoch,
            "subjects": len(directory.subjects_of(row.name)),
            "master": None
            if node is None
            else {
                "node_id": node.node_id,
                "address": node.address,
                "admin_address": node.admin_address,
                "version": node.version,
                "log_end": node.log_end,
                "last_heartbeat_seconds": round(directory.heartbeat_age(live), 3),
                "lease_remaining_seconds": round(directory.lease_remaining(live), 3),
            },
            "members": sorted(members),
        }

    async def _subjects(self, request: web.Request) -> bytes:
        limit = min(number(request, "limit", SUBJECTS_PER_PAGE, minimum=1) or 1, SUBJECTS_PER_PAGE)
        key = request.query.get("prefix", ""), request.query.get("after", ""), limit
        return await self._subject_pages.get(key, lambda: self._build_subjects(*key))

    async def _build_subjects(self, prefix: str, after: str, limit: int) -> bytes:
        names = sorted(name for name in self.directory.routes if name.startswith(prefix) and name > after)
        page = [self._route(self.directory.routes[name]) for name in names[:limit]]
        answer = {"subjects": page, "next_after": names[limit - 1] if len(names) > limit else None}
        return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()

    async def _subject(self, request: web.Request) -> dict[str, Any]:
        name = request.match_info["subject"]
        route = self.directory.routes.get(name)
        if route is None:
            raise BadRequest(
                404, "subject.unknown", f"Subject {name!r} not found. It is created by its first producer or consumer."
            )
        return self._route(route)

    @staticmethod
    def _route(route: Route) -> dict[str, Any]:
        return {
            "subject": route.subject,
            "broker_groups": list(route.broker_groups),
            "phases": {name: str(phase) for name, phase in route.phases.items()},
            "route_version": route.version,
            "created_at_ms": route.created_at_ms,
        }


class _MetaMetrics:
    """The metaserver's metrics; beside them the names QMQ's operators know."""

    def __init__(self, metaserver: Metaserver) -> None:
        self._metaserver = metaserver

    def collect(self) -> "list[Metric]":
        meta = self._metaserver
        counters = meta.handlers.counters
        bad = CounterMetricFamily("qmq_meta_bad_requests", "Rejected requests", labels=["reason"])
        for reason, value in {**counters.bad_requests, **meta.tcp.metrics.bad_frames}.items():
            bad.add_metric([reason], value)
        refused = CounterMetricFamily(
            "qmq_meta_refused_registrations", "Rejected registrations of nodes", labels=["code"]
        )
        for code, value in counters.refused_nodes.items():
            refused.add_metric([code], value)
        state = GaugeMetricFamily(
            "qmq_meta_broker_group_live", "1 when the group is not offline", labels=["broker_group"]
        )
        for name, live in meta.directory.groups.items():
            state.add_metric([name], 0 if live.state == "offline" else 1)
        numbers: list[Metric] = [
            CounterMetricFamily(
                "qmq_meta_client_registers", "Registrations of clients (clientRegisterCount)", counters.client_registers
            ),
            CounterMetricFamily(
                "qmq_meta_node_registers", "Registrations of nodes (brokerRegisterCount)", counters.node_registers
            ),
            CounterMetricFamily("qmq_meta_pushes", "Routes pushed to clients", counters.pushes),
            CounterMetricFamily("qmq_meta_illegal_names", "Registrations with invalid names", counters.illegal),
            CounterMetricFamily("qmq_meta_database_failures", "Failed writes and reads", meta.keeper.failures),
            CounterMetricFamily(
                "qmq_meta_clients_dropped",
                "Clients not recorded because the queue was full",
                meta.keeper.dropped_clients,
            ),
            GaugeMetricFamily("qmq_meta_database_up", "1 when the database responds", 0 if meta.keeper.problem else 1),
            GaugeMetricFamily("qmq_meta_unstored_things", "Changes not stored yet", meta.keeper.waiting),
            CounterMetricFamily(
                "qmq_meta_route_file_failures",
                "Failed loads and saves of the route file",
                meta.route_file.failures,
            ),
            GaugeMetricFamily(
                "qmq_meta_route_file_saved",
                "1 when the last save of the route file succeeded",
                0 if meta.route_file.save_problem else 1,
            ),
            GaugeMetricFamily(
                "qmq_meta_registrations", "Registrations that receive pushed routes", len(meta.handlers.registrations)
            ),
            GaugeMetricFamily(
                "qmq_meta_held_registrations",
                "Registrations that wait for a usable broker group",
                meta.handlers.registrations.pending_count,
            ),
            CounterMetricFamily(
                "qmq_meta_registrations_over_limit", "Registrations that receive no pushed routes", counters.over_limit
            ),
            CounterMetricFamily(
                "qmq_meta_route_checks", "Registrations compared with a changed route", counters.route_checks
            ),
            GaugeMetricFamily("qmq_meta_connections", "Connections", meta.tcp.metrics.connections),
            GaugeMetricFamily("qmq_meta_subjects", "Subjects routed", len(meta.directory.routes)),
        ]
        return [*numbers, bad, refused, state, *job_metrics(meta.supervisor), *meta.machine.loop_pauses.metrics()]
