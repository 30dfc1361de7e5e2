"""uvicorn's HTTP protocol with the limits it lacks: `uvicorn --http console.http.protocol:GuardedProtocol`.

uvicorn waits without end for the rest of a request, for a client to read its answer, and for headers of any size. Here each of
these has a limit, and so have the connections of the process: at the limit the one that has waited for longest for a request
is closed for the new one.
"""

import asyncio
import functools
import logging
from enum import Enum
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from console.http.log_filters import SERVER_LOGGER, ClientFaults
from qmq.net.log_limiter import LogLimiter
from qmq.net.open_files import raise_open_files_limit

logger = logging.getLogger("qmq.api")

HEADER_SECONDS = 10.0
"""From a connection, or the first byte of a further request, to the end of its headers."""
BODY_SECONDS = 60.0
"""From the headers to the end of the body."""
WRITE_SECONDS = 30.0
"""How long a client may leave an answer unread: as long as more than a transport's buffer waits, or the connection is closing."""
HEADER_BYTES_MAX = 64 << 10
"""Request line and headers."""
MESSAGE_BYTES_MAX = 16 << 20
"""A request as it is sent, with the framing of chunks, which is of any size; bodies have a lower limit (console.http.admission)."""
CONNECTIONS_MAX = 4_000
"""HTTP and websocket connections of one process."""
FILES_RESERVED = 128
"""Files that connections leave to databases, Redis, nodes and logs; half of all where there are few."""

UVICORN_OPTIONS = (
    "--http", "console.http.protocol:GuardedProtocol", "--lifespan", "off", "--no-server-header",
    "--no-proxy-headers", "--ws-max-size", "65536", "--ws-per-message-deflate", "false",
)  # fmt: skip
"""What every uvicorn of the console is started with."""


class Phase(Enum):
    """What a connection is in the middle of receiving."""

    NOTHING = 0
    HEADERS = 1
    BODY = 2


@functools.cache
def connections_max() -> int:
    """CONNECTIONS_MAX, or fewer where few files may be open; raises the limit of open files first."""
    files = raise_open_files_limit(CONNECTIONS_MAX + FILES_RESERVED)
    return min(CONNECTIONS_MAX, files - min(FILES_RESERVED, files // 2))


logging.getLogger(SERVER_LOGGER).addFilter(ClientFaults())


class GuardedProtocol(HttpToolsProtocol):
    """One connection."""

    waiting: "dict[GuardedProtocol, None]" = {}  # noqa: RUF012 - one for the process
    """Connections without a request in progress, the longest wait first."""
    _lines = LogLimiter()

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._phase = Phase.NOTHING
        self._received_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._write_deadline: asyncio.TimerHandle | None = None
        self._is_upgraded = False

    # --- connection ----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.waiting[self] = None
        self._arm(HEADER_SECONDS)
        if len(self.connections) > connections_max():
            longest = next(iter(self.waiting))
            self._warn("too many connections", "the connection that has been idle longest is closed")
            longest.transport.abort()
            longest._forget()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        self._is_upgraded = True
        self._forget()
        super().handle_websocket_upgrade()

    def _forget(self) -> None:
        """Stop all that is kept for this connection."""
        self.waiting.pop(self, None)
        self._disarm()
        self._disarm_write()

    # --- receiving -----------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and self._phase is Phase.NOTHING:
            # uvicorn ends its keep-alive time at any byte, also at one that begins no request.
            self._arm(HEADER_SECONDS)
        super().data_received(data)
        if self._is_upgraded or self.transport.is_closing():
            self._close_soon()
            return
        if self._phase is Phase.NOTHING:
            return
        self._received_bytes += len(data)
        if self._phase is Phase.HEADERS and self._received_bytes > HEADER_BYTES_MAX:
            self._refuse(b"431 Request Header Fields Too Large")
        elif self._received_bytes > MESSAGE_BYTES_MAX:
            self._refuse(b"413 Content Too Large")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._phase = Phase.HEADERS
        self._received_bytes = 0
        if self._deadline is None:
            self._arm(HEADER_SECONDS)

    def on_headers_complete(self) -> None:
        self._phase = Phase.BODY
        self._arm(BODY_SECONDS)
        self.waiting.pop(self, None)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._phase = Phase.NOTHING
        self._disarm()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._close_soon()
        elif self.timeout_keep_alive_task is not None:
            self.waiting[self] = None  # no pipelined request is in progress

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._close_soon()

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(msg)
        self._close_soon()

    # --- deadlines -----------------------------------------------------------------------------------------------------

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._deadline = self.loop.call_later(seconds, self._expired, seconds)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expired(self, seconds: float) -> None:
        self._deadline = None
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if self.flow.read_paused or (is_answering and self._phase is not Phase.BODY):
            # The server itself does not read on, or is still busy with the request before.
            self._arm(seconds)
        elif self._phase is Phase.NOTHING:
            self.transport.close()
            self._close_soon()
        else:
            self._refuse(b"408 Request Timeout")

    def _refuse(self, status: bytes) -> None:
        """Close the connection, with an answer if none of this request's was begun."""
        is_answered = self._phase is Phase.BODY and (self.cycle is None or self.cycle.response_started)
        is_answering = self._phase is Phase.HEADERS and self.cycle is not None and not self.cycle.response_complete
        if not is_answered and not is_answering:
            self.transport.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        self._warn(status.decode(), "a connection is closed")
        self.transport.close()
        self._close_soon()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._arm_write()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._disarm_write()

    def _close_soon(self) -> None:
        """A transport that is closing waits for its client to read: but not without end."""
        if self.transport.is_closing() and not self._is_upgraded:
            self._disarm()
            self._arm_write()

    def _arm_write(self) -> None:
        if self._write_deadline is None:
            self._write_deadline = self.loop.call_later(WRITE_SECONDS, self.transport.abort)

    def _disarm_write(self) -> None:
        """The client read what was waiting."""
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None

    def _warn(self, reason: str, what: str) -> None:
        host = self.client[0] if self.client else "unknown"
        self._lines.warning(logger, f"{host}:{self.client[1] if self.client else 0}", reason, what, self.loop.time())
