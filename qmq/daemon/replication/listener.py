"""class SyncListener: the port that slaves connect to."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from qmq.clock import Clock
from qmq.daemon.admin_auth import is_loopback
from qmq.daemon.handlers import Rejections, RequestCounters, RequestHandlers
from qmq.daemon.replication.leading import Leading
from qmq.daemon.replication.sender import WINDOW_BYTES_MAX
from qmq.errors import ProtocolError, ReadRefused
from qmq.net.connection import Connection
from qmq.net.listener import MakeListener, SocketListener
from qmq.net.node_secret import VARIABLE
from qmq.net.server import FrameServer
from qmq.net.server_limits import ServerLimits
from qmq.protocol.codes import Command, FollowResult, ResponseCode
from qmq.protocol.extensions import Refusal
from qmq.protocol.frames import Frame
from qmq.protocol.replication import (
    COMMITS_BYTES_MAX,
    COPY_FORBIDDEN,
    Confirm,
    FollowRequest,
    FollowResponse,
    ReadCopyRequest,
)
from qmq.supervisor import Supervisor

CONNECTIONS_MAX = 32
"""A group has two slaves; there may be as many old connections of each, and attempts of others."""
REQUEST_BYTES_MAX = 128 << 10
"""Largest frame that is read: a FOLLOW with all its epochs, the largest, has less than half of it."""
FOLLOW_SECONDS = 10.0
"""A connection that sends no FOLLOW for so long is closed."""
CHECK_SECONDS = 1.0
QUEUED_BYTES_MAX = WINDOW_BYTES_MAX + COMMITS_BYTES_MAX + (1 << 20)
"""Bytes that wait for one slave to read them. The window bounds them, and is not to be reached first: at this limit confirmations
would not be read."""

logger = logging.getLogger("qmq.replication")


def sync_limits() -> ServerLimits:
    """Return the limits of the sync port."""
    return ServerLimits(
        connections_max=CONNECTIONS_MAX,
        frame_bytes_max=REQUEST_BYTES_MAX,
        large_frames_bytes_max=CONNECTIONS_MAX * REQUEST_BYTES_MAX,
        in_flight_bytes_max=2 * REQUEST_BYTES_MAX,
        in_flight_total_bytes_max=CONNECTIONS_MAX * 2 * REQUEST_BYTES_MAX,
        answer_bytes_max=QUEUED_BYTES_MAX,
        answer_total_bytes_max=CONNECTIONS_MAX * QUEUED_BYTES_MAX,
    )


def warn_if_open(logger: logging.Logger, host: str, tokens: Sequence[str]) -> None:
    """Log a warning when other machines can reach the sync port on this host, and slaves need no token."""
    if "" in tokens and not is_loopback(host):
        logger.warning(
            "the sync port listens on %s without a sync token: every machine that reaches it can read all messages of the broker"
            " group, and delay its answers as a slave; set QMQ_SYNC_TOKEN or %s (docs/security.md)",
            host or "all addresses",
            VARIABLE,
        )


class SyncListener(RequestHandlers):
    """Serves FOLLOW, CONFIRM and READ_COPY. Every other command is answered as unknown.

    Args:
        leading: returns what the node runs as master; None while it is not.
    """

    def __init__(
        self,
        host: str,
        port: int,
        leading: Callable[[], Leading | None],
        *,
        clock: Clock,
        supervisor: Supervisor,
        listen: MakeListener = SocketListener,
    ) -> None:
        self.counters = RequestCounters()
        super().__init__(Rejections(self.counters, clock, logger))
        self.table = {
            Command.FOLLOW: self._follow,
            Command.CONFIRM: self._confirm,
            Command.READ_COPY: self._read_copy,
        }
        self._leading = leading
        self._clock = clock
        self._supervisor = supervisor
        self._checks: asyncio.Task[None] | None = None
        self.port = port
        """The real one after port 0, also once it is closed."""
        self._silent: dict[Connection, float] = {}
        """Connections that have sent no FOLLOW, and since when."""
        self._requested: dict[Connection, None] = {}
        """Connections that sent a FOLLOW. A connection has one session at most."""
        self.server = FrameServer(
            host,
            port,
            self.handle,
            clock=clock,
            limits=sync_limits(),
            logger=logger,
            supervisor=supervisor,
            listen=listen,
            checks_itself=False,
        )

    async def start(self) -> None:
        """Bind and listen. Raises OSError when the address is taken."""
        await self.server.start()
        self.port = self.server.address[1]
        self._checks = self._supervisor.every(CHECK_SECONDS, "replication_connections", self._check)

    async def close(self) -> None:
        """Close the port, if it is open, and its connections."""
        if self._checks is not None:
            await self._supervisor.cancel(self._checks)
            await self.server.close(0.0)

    def _check(self) -> None:
        """Close connections that send no FOLLOW, and those whose deadlines have passed."""
        self.server.check()
        now, known = self._clock.monotonic(), self._silent
        self._silent = {
            connection: known.get(connection, now)
            for connection in self.server.connections
            if connection not in self._requested
        }
        for connection, since in self._silent.items():
            if now - since >= FOLLOW_SECONDS:
                self.rejections.count("no_follow", connection, f"no FOLLOW for {FOLLOW_SECONDS:g} s; connection closed")
                connection.abort()

    def _follow(self, connection: Connection, frame: Frame) -> None:
        request = FollowRequest.decode(frame.body)
        if connection in self._requested:
            self.rejections.count("second_follow", connection, "a second FOLLOW on one connection; connection closed")
            connection.abort()
            return
        self._requested[connection] = None
        connection.on_close(lambda: self._requested.pop(connection, None))
        self._supervisor.background("replication_follow", self._answer(connection, frame, request))

    async def _answer(self, connection: Connection, frame: Frame, request: FollowRequest) -> None:
        leading = self._leading()
        if leading is None:
            answer = FollowResponse.rejection(FollowResult.NOT_MASTER, "this node does not lead a broker group")
        else:
            answer = await leading.follow(connection, request)
        try:
            connection.reply(frame, ResponseCode.SUCCESS, answer.encode())
        except BaseException:
            # The session would begin without its answer.
            connection.abort()
            raise
        if leading is not None and answer.result is FollowResult.ACCEPTED:
            leading.begin(connection)
        else:
            connection.finish()

    def _confirm(self, connection: Connection, frame: Frame) -> None:
        leading = self._leading()
        if leading is None:
            connection.abort()
            return
        leading.confirm(connection, Confirm.decode(frame.body))

    def _read_copy(self, connection: Connection, frame: Frame) -> None:
        request = ReadCopyRequest.decode(frame.body)
        self._supervisor.background("replication_copy", self._answer_read(connection, frame, request))

    async def _answer_read(self, connection: Connection, frame: Frame, request: ReadCopyRequest) -> None:
        leading = self._leading()
        try:
            if leading is None:
                raise ReadRefused("NOT_MASTER: this node does not lead a broker group", code=COPY_FORBIDDEN)
            answer = await leading.read_copy(request)
        except ReadRefused as error:
            self.rejections.count(error.code, connection, f"the state is not read: {error}")
            connection.reply(frame, ResponseCode.PARAM_ERROR, Refusal(error.code, str(error)).encode())
            return
        # FOLLOW comes next.
        self._silent[connection] = self._clock.monotonic()
        connection.reply(frame, ResponseCode.SUCCESS, answer.encode())

    def failed(self, connection: Connection, frame: Frame, error: Exception) -> None:
        super().failed(connection, frame, error)
        if isinstance(error, ProtocolError):
            connection.finish()
