"""class SyncListener: the port that slaves connect to."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from qmq.clock import Clock
from qmq.errors import ProtocolError, ReadRefused
from qmq.net.node_secret import VARIABLE, NodeSecret
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
    ReadCopyResponse,
    ReadRangeRequest,
    ReadRangeResponse,
)
from qmq.supervisor import Supervisor
from qmq_node.admin.auth import is_loopback
from qmq_node.replication.master.leading import Leading
from qmq_node.replication.master.sender import WINDOW_BYTES_MAX
from qmq_node.replication.slave_claim import PROOF_SECONDS, RangeClaim, SlaveClaim
from qmq_node.requests.handlers import Rejections, RequestCounters, RequestHandlers
from qmq_node.server.connection import Connection
from qmq_node.server.connection_auth import ConnectionAuth
from qmq_node.server.listener import MakeListener, SocketListener
from qmq_node.server.server import FrameServer
from qmq_node.server.server_limits import ServerLimits

CONNECTIONS_MAX = 128
"""A group has two slaves; there may be as many old connections of each, and attempts of others. At the limit a new connection
displaces one without a proof, so a slave has the time of this number of connections to prove itself."""
SLAVE_CONNECTIONS = 32
"""Connections of slaves for which limits of memory are made. The others may send small requests only."""
REQUEST_BYTES_MAX = 128 << 10
"""Largest frame that is read: a FOLLOW with all its epochs, the largest, has less than half of it."""
FOLLOW_SECONDS = 10.0
"""A connection that has proved itself and sends no FOLLOW or READ_COPY for so long is closed."""
CHECK_SECONDS = 0.5
SYNC_VARIABLE = "QMQ_SYNC_TOKEN"
QUEUED_BYTES_MAX = WINDOW_BYTES_MAX + COMMITS_BYTES_MAX + (1 << 20)
"""Bytes that wait for one slave to read them. The window bounds them, and is not to be reached first: at this limit confirmations
would not be read."""

UNPROVEN = (
    f"prove the secret of the sync port for what is stated: set {VARIABLE} or {SYNC_VARIABLE} alike for all members"
)

logger = logging.getLogger("qmq_node.replication.rules")


def sync_limits() -> ServerLimits:
    """Return the limits of the sync port."""
    return ServerLimits(
        connections_max=CONNECTIONS_MAX,
        frame_bytes_max=REQUEST_BYTES_MAX,
        large_frames_bytes_max=SLAVE_CONNECTIONS * REQUEST_BYTES_MAX,
        in_flight_bytes_max=2 * REQUEST_BYTES_MAX,
        in_flight_total_bytes_max=SLAVE_CONNECTIONS * 2 * REQUEST_BYTES_MAX,
        answer_bytes_max=QUEUED_BYTES_MAX,
        answer_total_bytes_max=SLAVE_CONNECTIONS * QUEUED_BYTES_MAX,
    )


def warn_if_open(logger: logging.Logger, host: str, secret: NodeSecret | None) -> None:
    """Log a warning when other machines can reach the sync port on this host, and slaves prove nothing."""
    if secret is None and not is_loopback(host):
        logger.warning(
            "the sync port listens on %s without a secret: every machine that reaches it can read all messages of the broker"
            " group, and make it lose messages as a slave; set %s or %s (docs/security.md)",
            host or "all addresses",
            SYNC_VARIABLE,
            VARIABLE,
        )


class Ranges(Protocol):
    """What answers READ_RANGE: `qmq_node.repair.serving.RangeServing`."""

    node_id: str

    def problem_of(self, claim: RangeClaim) -> str:
        """Return why this node answers no requests of a node; "" if it does."""

    async def read(self, request: ReadRangeRequest) -> ReadRangeResponse:
        """Return the first bytes of a range. Raises ReadRefused."""


class SyncListener(RequestHandlers):
    """Serves AUTHENTICATE, FOLLOW, CONFIRM and READ_COPY of slaves, and READ_RANGE of all members. Every other command is
    answered as unknown.

    Args:
        leading: returns what the node runs as master; None while it is not.
        ranges: answers READ_RANGE, whatever the role of the node is.
        secret: what slaves have to prove that they know; None: they prove nothing.
    """

    def __init__(
        self,
        host: str,
        port: int,
        leading: Callable[[], Leading | None],
        ranges: Ranges,
        secret: NodeSecret | None,
        *,
        clock: Clock,
        supervisor: Supervisor,
        listen: MakeListener = SocketListener,
    ) -> None:
        self.counters = RequestCounters()
        super().__init__(Rejections(self.counters, clock, logger), ConnectionAuth(secret, check=self._problem_of))
        self.table = {
            Command.AUTHENTICATE: self._authenticate,
            Command.FOLLOW: self._follow,
            Command.CONFIRM: self._confirm,
            Command.READ_COPY: self._read_copy,
            Command.READ_RANGE: self._read_range,
        }
        self._leading = leading
        self._ranges = ranges
        self._needs_proof = secret is not None
        self._clock = clock
        self._supervisor = supervisor
        self._checks: asyncio.Task[None] | None = None
        self.port = port
        """The real one after port 0, also once it is closed."""
        self._unproven: dict[Connection, float] = {}
        """Connections that belong to no slave, as far as is known, and since when they were seen."""
        self._proven: dict[Connection, float] = {}
        """Connections that have proved themselves, or were accepted where no proof is required, and when they last sent
        a request."""
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
            make_room=self._expendable,
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
        """Close connections that don't prove themselves or send no FOLLOW, and those whose deadlines have passed."""
        self.server.check()
        now, known = self._clock.monotonic(), self._unproven
        self._unproven = {
            connection: known.get(connection, now)
            for connection in self.server.connections
            if connection not in self._proven
        }
        silent = {connection: at for connection, at in self._proven.items() if connection not in self._requested}
        self._close_late("no_proof", "no proof", self._unproven, now - PROOF_SECONDS)
        self._close_late("no_follow", "no FOLLOW", silent, now - FOLLOW_SECONDS)

    def _close_late(self, reason: str, what: str, since: dict[Connection, float], latest: float) -> None:
        for connection in [connection for connection, at in since.items() if at <= latest]:
            self.rejections.count(reason, connection, f"{what} in time; connection closed")
            connection.abort()

    def _expendable(self) -> Connection | None:
        """Return the oldest connection without a proof, of the address that has most of them; None: all have proved themselves."""
        hosts = {
            connection: connection.peer.rpartition(":")[0]
            for connection in self.server.connections
            if connection not in self._proven and not connection.is_closed
        }
        if not hosts:
            return None
        [(most, _)] = Counter(hosts.values()).most_common(1)
        return next(connection for connection, host in hosts.items() if host == most)

    # --- proofs ----------------------------------------------------------------------------------------------------

    def _authenticate(self, connection: Connection, frame: Frame) -> None:
        self.authenticate(connection, frame)
        if self.auth.purpose_of(connection):
            self._accepted(connection)

    def _problem_of(self, connection: Connection, purpose: str) -> str:
        """Return why this node does not prove itself to one that knows the secret; "" if it does."""
        if (range_claim := RangeClaim.parse(purpose)) is not None:
            return self._ranges.problem_of(range_claim)
        claim, leading = SlaveClaim.parse(purpose), self._leading()
        if claim is None:
            return "this port is for members of the broker group"
        return (
            "NOT_MASTER: this node does not lead a broker group"
            if leading is None
            else leading.candidates.problem_of(connection, claim)
        )

    def _accepted(self, connection: Connection) -> None:
        """A connection belongs to a member."""
        if connection not in self._proven:
            connection.on_close(lambda: self._proven.pop(connection, None))
        self._proven[connection] = self._clock.monotonic()

    def _has_proved(self, connection: Connection, request: FollowRequest | ReadCopyRequest | ReadRangeRequest) -> bool:
        if isinstance(request, ReadRangeRequest):
            purpose = RangeClaim.of(request, self._ranges.node_id).purpose
        else:
            purpose = SlaveClaim.of(request).purpose
        if not self._needs_proof or self.auth.purpose_of(connection) == purpose:
            return True
        self.rejections.count("unauthenticated", connection, f"node {request.node_id} has not proved what it states")
        return False

    # --- requests --------------------------------------------------------------------------------------------------

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
        if not self._has_proved(connection, request):
            answer = FollowResponse.rejection(FollowResult.UNPROVEN, UNPROVEN)
        elif leading is None:
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
            self._accepted(connection)
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

    def _read_range(self, connection: Connection, frame: Frame) -> None:
        request = ReadRangeRequest.decode(frame.body)
        self._supervisor.background("replication_range", self._answer_read(connection, frame, request))

    async def _answer_read(
        self, connection: Connection, frame: Frame, request: ReadCopyRequest | ReadRangeRequest
    ) -> None:
        try:
            if not self._has_proved(connection, request):
                raise ReadRefused(f"UNPROVEN: {UNPROVEN}", code=COPY_FORBIDDEN)
            answer = await self._read(request)
        except ReadRefused as error:
            self.rejections.count(error.code, connection, f"nothing is read for node {request.node_id}: {error}")
            connection.reply(frame, ResponseCode.PARAM_ERROR, Refusal(error.code, str(error)).encode())
            return
        # Another request comes next, or FOLLOW.
        self._accepted(connection)
        connection.reply(frame, ResponseCode.SUCCESS, answer.encode())

    async def _read(self, request: ReadCopyRequest | ReadRangeRequest) -> ReadCopyResponse | ReadRangeResponse:
        if isinstance(request, ReadRangeRequest):
            return await self._ranges.read(request)
        if (leading := self._leading()) is None:
            raise ReadRefused("NOT_MASTER: this node does not lead a broker group", code=COPY_FORBIDDEN)
        return await leading.read_copy(request)

    def failed(self, connection: Connection, frame: Frame, error: Exception) -> None:
        super().failed(connection, frame, error)
        if isinstance(error, ProtocolError):
            connection.finish()
