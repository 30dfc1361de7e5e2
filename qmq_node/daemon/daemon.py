"""class Daemon: what every daemon owns, and the order in which its parts start and stop."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from prometheus_client.core import Metric

from qmq.clock import Clock
from qmq.net.node_secret import NodeSecret
from qmq.net.open_files import FileBudget, file_budget
from qmq.protocol.reasons import NO_REASON, Code, Reason
from qmq.supervisor import Supervisor
from qmq_node.admin.auth import AdminAccess, names_of, warn_if_exposed
from qmq_node.admin.http_guard import HttpLimits
from qmq_node.admin.server import AdminHttp, AdminPages
from qmq_node.daemon.metrics import DaemonMetrics
from qmq_node.daemon.options import DaemonOptions
from qmq_node.daemon.part import Part
from qmq_node.log.disk import Disk
from qmq_node.process.first_failure import FirstFailure
from qmq_node.process.machine import Machine
from qmq_node.requests.bulk_read_limiter import BulkReadLimiter
from qmq_node.requests.handlers import RequestHandlers
from qmq_node.server.connection_auth import ConnectionAuth
from qmq_node.server.server import FrameServer
from qmq_node.server.server_limits import ServerLimits


class Serving(Part, ABC):
    """The part that answers clients and operators."""

    handlers: RequestHandlers
    metrics: DaemonMetrics

    @abstractmethod
    def limits(self, connections: int) -> ServerLimits:
        """The limits of the server of frames.

        Args:
            connections: how many the process may have, by its limit of open files.
        """

    @abstractmethod
    def build(self) -> AdminPages:
        """Create handlers and metrics; return the pages for operators. The data is open, `admin` does not exist yet."""


class Daemon:
    """A process that serves frames on one port and admin pages on another, and consists of parts.

    `start` opens the data and binds the ports, `serve` raises when the daemon can't continue, `close` may be called twice.
    Broker node, delay node and metaserver say in their constructor what their parts are, and set `title`, `port` and
    `admin_address`.
    """

    kind: ClassVar[str]
    """As loggers, the metaserver and the data folder know it."""
    open_paths: ClassVar[frozenset[str]] = frozenset()
    """Admin pages that need no proof."""
    admin_limits: ClassVar[HttpLimits | None] = None
    """Of the admin server; None: the defaults."""
    title: str
    """The daemon as its log lines call it."""
    port: int
    """The port for frames; 0: any free one."""
    admin_address: tuple[str, int]
    """Host and port for admin pages, as the options say."""
    parts: Sequence[Part]
    serving: Serving
    """One of the parts."""
    enter: Callable[[], Awaitable[None]]
    """Called when the data is open: serves, at once or later (`begin_serving`)."""

    def __init__(
        self, options: DaemonOptions, machine: Machine | None = None, *, bulk_bytes_per_second: int = 0
    ) -> None:
        self.options = options
        self.machine = machine or Machine()
        self.clock: Clock = self.machine.clock
        self.disk: Disk = self.machine.disk
        self.logger = logging.getLogger(f"qmq.{self.kind}")
        self.failure = FirstFailure()
        """What ended the daemon."""
        self.supervisor = Supervisor(
            self.clock, logger=self.logger, on_failure=lambda name, error: self.failure.set(error)
        )
        self.secret = NodeSecret.load(options.node_token, options.node_token_file)
        self.auth = ConnectionAuth(self.secret)
        self.admin_access = AdminAccess(
            self.clock,
            self.secret,
            options.metrics_token,
            names_of(options.admin_names) | {options.advertise_host},
            open_paths=self.open_paths,
        )
        self.bulk_reads = BulkReadLimiter(
            self.clock, self.supervisor, token=options.read_token, bytes_per_second=bulk_bytes_per_second
        )
        self.started_at_ms = 0
        self._started_at = 0.0
        self.enter = self.begin_serving
        self._is_starting = self.is_started = self.is_ready = self._is_closed = False

    # --- state -----------------------------------------------------------------------------------------------------

    @property
    def drain_seconds(self) -> float:
        """How long a stop waits for unanswered requests."""
        return min(self.options.stop_seconds, *(part.drain_seconds_max for part in self.parts))

    def health(self) -> str:
        """Why the process can't continue; "" when it can."""
        return next((why for part in self.parts if (why := part.health())), "")

    def readiness(self) -> Reason:
        """Why the daemon does not serve yet, or no longer; "" when it serves."""
        if reason := next((why for part in self.parts if (why := part.not_ready())), NO_REASON):
            return reason
        return NO_REASON if self.is_ready else Reason.of(Code.NOT_SERVING)

    def restrictions(self) -> dict[str, str]:
        """What the daemon does not do although it serves, with the reasons; `/readyz` includes them."""
        return {name: why for part in self.parts for name, why in part.restrictions().items()}

    # --- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the data and serve. Raises SettingError, LogError for unreadable data, or OSError."""
        self._is_starting = True
        budget = file_budget(self.options.connections_max)
        for part in self.parts:
            await part.open(budget)
        self.server = self._frame_server(budget)
        await self.enter()

    def _frame_server(self, budget: FileBudget) -> FrameServer:
        """Return the server for clients, not bound. Its handler is set when `handlers` exists, before it listens."""
        return FrameServer(
            self.options.host,
            self.port,
            lambda connection, _: connection.abort(),
            clock=self.clock,
            limits=self.serving.limits(budget.connections),
            logger=logging.getLogger(f"qmq.{self.kind}.net"),
            supervisor=self.supervisor,
            listen=self.machine.listen,
        )

    def admin_server(self, pages: AdminPages, metrics: Callable[[], Awaitable[list[Metric]]]) -> AdminHttp:
        """Return the server for operators, not bound."""
        return AdminHttp(
            *self.admin_address,
            health=self.health,
            ready=self.readiness,
            restrictions=self.restrictions,
            metrics=metrics,
            pages=pages,
            supervisor=self.supervisor,
            clock=self.clock,
            limits=self.admin_limits,
            access=self.admin_access,
        )

    async def begin_serving(self) -> None:
        """Serve clients and operators; the data is open. Raises OSError."""
        pages = self.serving.build()
        self.server.handler = self.serving.handlers.handle
        self.admin = self.admin_server(pages, self.serving.metrics.families)
        for part in self.parts:
            await part.start()
        for part in self.parts:
            await part.prepare()
        await self.server.start()
        await self.start_admin()
        self.is_ready = True
        for part in self.parts:
            part.run()
        warn_if_exposed(self.logger, self.secret, self.options.host, self.admin.host)
        self.logger.info(
            "%s serves on %s:%d, admin on %s:%d", self.title, *self.server.address, *self.admin.address
        )  # fmt: skip

    async def start_admin(self) -> None:
        """Let operators connect. Raises OSError."""
        await self.admin.start()
        self.admin_address = self.admin.address
        self.started_at_ms, self._started_at = self.clock.wall_ms(), self.clock.monotonic()
        self.is_started = True

    @property
    def uptime_seconds(self) -> float:
        """Time since the end of `start`."""
        return self.clock.monotonic() - self._started_at

    async def serve(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set. Raises the first failure that ends the daemon."""
        await self.failure.wait(stop)

    async def close(self) -> None:
        """Stop gracefully: answer requests in progress, write what is pending, release the data."""
        if self._is_closed or not self._is_starting:
            return
        if self.is_ready and not self.failure.is_set:
            for part in self.parts:
                await part.before_stop()
        if self._is_closed:
            return
        self._is_closed = True
        self.is_ready = False
        # After a start that failed, what was bound is released with the process.
        if self.is_started:
            await self.supervisor.stop()
            await self.bulk_reads.close()
            for part in self.parts:
                await part.stop()
            aborted = await self.server.close(self.drain_seconds)
            if aborted:
                self.logger.warning("%d connections had unanswered requests at the end", aborted)
            for part in self.parts:
                await part.finish()
            await self.admin.close()
        await self.supervisor.close()
        for part in self.parts:
            await part.release()
        if self.is_started:
            self.logger.info("%s stopped", self.title)
