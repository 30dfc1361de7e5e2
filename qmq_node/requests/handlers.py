"""class RequestHandlers: the frames of one daemon's clients, one short function per command.

class Rejections: requests that can't be served, counted by reason, logged with a back-off, answered.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.errors import IllegalName, LogError, NoSpace, ProtocolError
from qmq.net.log_limiter import LogLimiter
from qmq.protocol.codes import Command, ResponseCode, is_served
from qmq.protocol.frames import Frame
from qmq.protocol.scan import BadChecksum
from qmq_node.process.counters import counted_by
from qmq_node.server.connection import Connection
from qmq_node.server.connection_auth import ConnectionAuth

CommandTable = dict[int, Callable[[Connection, Frame], None]]
"""Commands and the functions that handle them. They raise what `Rejections.fail` counts and answers."""
REASONS: Mapping[type[Exception], str] = {
    BadChecksum: "bad_crc",
    IllegalName: "illegal_name",
    ProtocolError: "undecodable",
    NoSpace: "no_space",
    LogError: "log_failed",
    OSError: "unreadable",
}
"""Errors that a request may meet, and the reason each is counted under. The first that fits counts."""


@dataclass(slots=True)
class RequestCounters:
    """Counts since start, of every daemon's requests."""

    bad_requests: Counter[str] = counted_by("reason", "bad_requests", "Rejected requests, by reason")


@dataclass(eq=False, repr=False)
class Rejections:
    """Counts, logs and answers requests that can't be served."""

    _counters: RequestCounters
    _clock: Clock
    _logger: logging.Logger
    _reasons: Mapping[type[Exception], str] = field(default_factory=dict)
    """As REASONS, for the errors of one kind of daemon; they are checked first."""
    _log_limiter: LogLimiter = field(default_factory=LogLimiter)

    def fail(self, connection: Connection, frame: Frame, error: Exception) -> None:
        """Answer a request that raised. The one place for it: a request may fail at once, when woken or when its read ends.

        An error of the request, a limit or the disk is counted by its reason; any other is an error of this program.
        """
        for kind, reason in {**self._reasons, **REASONS}.items():
            if isinstance(error, kind):
                self.count(reason, connection, f"command {frame.code} rejected: {error}")
                break
        else:
            connection.report(error)
        self.refuse(connection, frame, error)

    def count(self, reason: str, connection: Connection, what: str) -> None:
        """Count a bad request, and log it with a back-off for each reason and host."""
        self._counters.bad_requests[reason] += 1
        self.log(reason, connection, what)

    def log(self, reason: str, connection: Connection, what: str) -> None:
        """Log a rejection with a back-off for each reason and host."""
        self._log_limiter.warning(self._logger, connection.peer, reason, what, self._clock.monotonic())

    def refuse(self, connection: Connection, frame: Frame, error: Exception | None = None) -> None:
        """Answer a request that can't be answered, because of `error` if there is one."""
        connection.reply(frame, ResponseCode.BROKER_ERROR)


class RequestHandlers:
    """Answers the frames of one daemon's clients. Subclasses add their commands to `table`."""

    def __init__(self, rejections: Rejections, auth: ConnectionAuth | None = None) -> None:
        self.rejections = rejections
        self.auth = auth or ConnectionAuth(None)
        self.table: CommandTable = {
            Command.HEARTBEAT: lambda connection, frame: connection.reply(frame, Command.HEARTBEAT)
        }

    def handle(self, connection: Connection, frame: Frame) -> None:
        """One request frame; the answer may come later, in any order."""
        handler = self.table.get(frame.code)
        if handler is None:
            self.rejections.count("unknown_command", connection, f"command {frame.code}")
            connection.reply(frame, ResponseCode.UNKNOWN_CODE)
            return
        if not is_served(frame.version):
            self.rejections.count("unknown_version", connection, f"version {frame.version}")
            self.rejections.refuse(connection, frame)
            return
        try:
            handler(connection, frame)
        except Exception as error:  # noqa: BLE001 - every error ends this request only
            self.failed(connection, frame, error)

    def hold(self) -> None:
        """Have requests that wait for something answered at once, and begin nothing that is not requested, until `resume`."""

    async def drained(self, seconds: float) -> None:
        """Wait until what this node does by itself has come to an end since `hold`, for so long at most."""

    def resume(self) -> None:
        """Let requests wait again."""

    def failed(self, connection: Connection, frame: Frame, error: Exception) -> None:
        """A request raised."""
        self.rejections.fail(connection, frame, error)

    def authenticate(self, connection: Connection, frame: Frame) -> None:
        """Handle AUTHENTICATE."""
        problem = self.auth.handle(connection, frame)
        if problem:
            self.rejections.count("unauthenticated", connection, problem)

    def is_trusted(self, connection: Connection, frame: Frame, what: str) -> bool:
        """Whether the connection has proved the node secret; if not, the request is refused and logged as `what`."""
        if self.auth.is_trusted(connection):
            return True
        self.rejections.count("unauthenticated", connection, f"{what} without the node secret")
        self.auth.refuse(connection, frame)
        return False
