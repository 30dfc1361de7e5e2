"""class Daemon: what every daemon owns, and the order in which it starts and stops."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
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
from qmq_node.log.disk import Disk
from qmq_node.process.first_failure import FirstFailure
from qmq_node.process.machine import Machine
from qmq_node.requests.bulk_read_limiter import BulkReadLimiter
from qmq_node.requests.handlers import RequestHandlers
from qmq_node.server.connection_auth import ConnectionAuth
from qmq_node.server.server import FrameServer
from qmq_node.server.server_limits import ServerLimits


class Daemon(ABC):
    """A process that serves frames on one port and admin pages on another.

    `start` opens the data and binds the ports, `serve` raises when the daemon can't continue, `close` may be called twice.
    Broker node, delay node and metaserver fill in the methods of the first section, and set `title`, `port` and `admin_address`.
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
    metrics: DaemonMetrics
    handlers: RequestHandlers

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
        self._is_starting = self._is_started = self._is_ready = self._is_closed = False

    # --- what a kind of daemon adds --------------------------------------------------------------------------------

    @abstractmethod
    def limits(self, connections: int) -> ServerLimits:
        """The limits of the server of frames.

        Args:
            connections: how many the process may have, by its limit of open files.
        """

    @abstractmethod
    async def open(self, budget: FileBudget) -> None:
        """Open and recover the data, in threads. `server` and `admin` do not exist yet."""

    @abstractmethod
    def build(self) -> AdminPages:
        """Create handlers and metrics; return the pages for operators. `admin` does not exist yet."""

    @abstractmethod
    async def start_writing(self) -> None:
        """Start what stores changes. No client is connected yet."""

    async def before_serving(self) -> None:  # noqa: B027 - nothing is a fine answer
        """Work before clients can connect."""

    @abstractmethod
    def start_jobs(self) -> None:
        """Start what works by itself now that clients can connect, such as periodic jobs."""

    async def stopping(self) -> None:  # noqa: B027 - nothing is a fine answer
        """Stop what works by itself: parked requests, deliveries. Clients' connections are still open."""

    @property
    def drain_seconds(self) -> float:
        """How long a stop waits for unanswered requests."""
        return self.options.stop_seconds

    @abstractmethod
    async def finish(self) -> None:
        """Write what is pending. No client is connected any more."""

    async def release(self) -> None:  # noqa: B027 - nothing is a fine answer
        """Release files and locks, also after a start that failed at any point."""

    def health(self) -> str:
        """Why the process can't continue; "" when it can."""
        return ""

    def readiness(self) -> Reason:
        """Why the daemon does not serve yet, or no longer; "" when it serves."""
        return NO_REASON if self._is_ready else Reason.of(Code.NOT_SERVING)

    def restrictions(self) -> dict[str, str]:
        """What the daemon does not do although it serves, with the reasons; `/readyz` includes them."""
        return {}

    # --- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the data and serve. Raises SettingError, LogError for unreadable data, or OSError."""
        self._is_starting = True
        budget = file_budget(self.options.connections_max)
        await self.open(budget)
        self.server = self.frame_server(budget)
        await self.begin_serving()

    def frame_server(self, budget: FileBudget) -> FrameServer:
        """Return the server for clients, not bound. Its handler is set when `handlers` exists, before it listens."""
        return FrameServer(
            self.options.host,
            self.port,
            lambda connection, _: connection.abort(),
            clock=self.clock,
            limits=self.limits(budget.connections),
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
        pages = self.build()
        self.server.handler = self.handlers.handle
        self.admin = self.admin_server(pages, self.metrics.families)
        await self.start_writing()
        await self.before_serving()
        await self.server.start()
        await self.admin.start()
        self.admin_address = self.admin.address
        self.started_at_ms, self._started_at = self.clock.wall_ms(), self.clock.monotonic()
        self._is_ready = self._is_started = True
        self.start_jobs()
        warn_if_exposed(self.logger, self.secret, self.options.host, self.admin.host)
        self.logger.info(
            "%s serves on %s:%d, admin on %s:%d", self.title, *self.server.address, *self.admin.address
        )  # fmt: skip

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
        self._is_closed = True
        self._is_ready = False
        # After a start that failed, what was bound is released with the process.
        if self._is_started:
            await self.supervisor.stop()
            await self.bulk_reads.close()
            await self.stopping()
            aborted = await self.server.close(self.drain_seconds)
            if aborted:
                self.logger.warning("%d connections had unanswered requests at the end", aborted)
            await self.finish()
            await self.admin.close()
        await self.supervisor.close()
        await self.release()
        if self._is_started:
            self.logger.info("%s stopped", self.title)
