"""class RequestHandlers: the frames of one daemon's clients, one short function per command."""

from collections.abc import Callable

from qmq.daemon.rejections import Rejections
from qmq.net.connection import Connection
from qmq.net.connection_auth import ConnectionAuth
from qmq.protocol.codes import Command, ResponseCode, is_served
from qmq.protocol.frames import Frame

CommandTable = dict[int, Callable[[Connection, Frame], None]]
"""Commands and the functions that handle them. They raise what `Rejections.fail` counts and answers."""


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
