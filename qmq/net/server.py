"""An asyncio server of frames: listen, hand each request to a handler, write answers in any order, refuse over limits.

The handler is a plain function, called for every request frame of what one read brought; it answers at once or keeps
the frame and answers later. Nothing is awaited and no task is made per frame.
"""

import asyncio
import errno
import logging
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from qmq.clock import Clock
from qmq.errors import ProtocolError
from qmq.net.log_limiter import LogLimiter
from qmq.protocol.codes import ResponseCode
from qmq.protocol.frames import FRAME_BYTES_MAX, HEADER_BYTES, Frame, FrameReader, response_header

BACKLOG = 1024
"""Connections that the kernel keeps until they are accepted."""
ACCEPTS_IN_A_ROW = 32
"""New connections of one turn of the loop."""
ACCEPT_RETRY_SECONDS = 1.0
"""Until new connections are looked at again when there was no file descriptor, or no memory, for one."""
OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
CHECK_SECONDS = 1.0
"""How often deadlines of connections are looked at."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What one server takes at most; what happens at a limit stands with it."""

    connections_max: int = 10_000
    """A further connection is closed at once and counted."""
    frame_bytes_max: int = FRAME_BYTES_MAX
    """A larger frame closes its connection, by its header alone."""
    in_flight_bytes_max: int = 64 << 20
    """Bytes of unanswered requests of a connection; above it, the connection is not read until half is answered."""
    in_flight_requests_max: int = 4096
    """Unanswered requests of a connection; as above."""
    half_frame_seconds: float = 30.0
    """A frame that is not whole this long after its first byte closes its connection."""
    write_buffer_bytes_max: int = 8 << 20
    """Answers that the peer has not read; above it, the connection is not read either."""
    write_stall_seconds: float = 60.0
    """A peer that leaves the write buffer above its limit for this long is cut off."""


@dataclass(slots=True)
class ServerMetrics:
    """Counts since start."""

    connections: int = 0
    connections_total: int = 0
    refused: int = 0
    bad_frames: Counter[str] = field(default_factory=Counter)
    requests: Counter[int] = field(default_factory=Counter)
    ignored_responses: int = 0
    handler_errors: int = 0
    half_frames: int = 0
    write_stalls: int = 0
    paused: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


Handler = Callable[["Connection", Frame], None]


class Connection(asyncio.BufferedProtocol):
    """One client's connection."""

    def __init__(self, server: "FrameServer") -> None:
        self._server = server
        self._limits = server.limits
        self._metrics = server.metrics
        self._reader = FrameReader(server.limits.frame_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._unanswered: dict[int, int] = {}
        self._in_flight_bytes = 0
        self._out: list[bytes | memoryview] = []
        self._flush_scheduled = False
        self._is_reading_paused = False
        self._half_since: float | None = None
        self._stalled_since: float | None = None
        self._close_callbacks: list[Callable[[], None]] = []
        self.peer = "?"
        self.is_closed = False

    # --- asyncio ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not looked at with isinstance: transports of other loops (uvicorn's uvloop) are none of asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)
        if self._server.is_closing:
            self.abort()
            return
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes_max)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._metrics.bytes_in += nbytes
        if self.is_closed:
            return
        try:
            frames = self._reader.buffer_updated(nbytes)
        except ProtocolError as error:
            self._bad_frame(error)
            return
        handler, requests = self._server.handler, self._metrics.requests
        for frame in frames:
            if frame.is_response:
                self._metrics.ignored_responses += 1
                continue
            requests[frame.code] += 1
            if not frame.is_one_way:
                size = HEADER_BYTES + len(frame.body)
                self._unanswered[id(frame)] = size
                self._in_flight_bytes += size
            try:
                handler(self, frame)
            except Exception:
                self._metrics.handler_errors += 1
                self._server.logger.exception("%s: command %d failed", self.peer, frame.code)
                self.reply(frame, ResponseCode.BROKER_ERROR)
        if self._reader.error is not None:
            self._bad_frame(self._reader.error)
            return
        if not self._reader.pending_bytes:
            self._half_since = None
        elif frames or self._half_since is None:
            self._half_since = self._server.clock.monotonic()
        self._pause_if_over()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._unanswered.clear()
        self._server.release(self)
        for callback in self._close_callbacks:
            callback()
        self._close_callbacks.clear()

    def pause_writing(self) -> None:
        self._stalled_since = self._server.clock.monotonic()
        self._pause_if_over()

    def resume_writing(self) -> None:
        self._stalled_since = None
        self._resume_if_under()

    # --- for handlers ----------------------------------------------------------------------------------------------

    def reply(self, frame: Frame, code: int, *parts: bytes | memoryview) -> None:
        """Answer a request, once; without effect when it was answered, asks for no answer, or the peer is gone."""
        size = self._unanswered.pop(id(frame), None)
        if size is None or self.is_closed or self._transport is None:
            return
        self._in_flight_bytes -= size
        self._out.append(response_header(frame, code, sum(map(len, parts))))
        self._out.extend(parts)
        self._flush_soon()

    def push(self, data: bytes) -> None:
        """Write a whole frame that answers nothing."""
        if self.is_closed:
            return
        self._out.append(data)
        self._flush_soon()

    def drop(self, frame: Frame) -> None:
        """A request will never be answered: its sender asked again."""
        self._in_flight_bytes -= self._unanswered.pop(id(frame), 0)

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call back once when the connection is gone."""
        self._close_callbacks.append(callback)

    @property
    def unanswered(self) -> int:
        """Requests that still wait for their answer."""
        return len(self._unanswered)

    def abort(self) -> None:
        """Close at once; what is unanswered stays so."""
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()

    def _flush_soon(self) -> None:
        """Answers of one turn of the loop leave with one call."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self._server.loop.call_soon(self._flush)

    # --- inside ----------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        self._flush_scheduled = False
        if self._out and not self.is_closed and self._transport is not None:
            data = b"".join(self._out)
            self._out.clear()
            self._metrics.bytes_out += len(data)
            self._transport.write(data)
        if self._server.is_closing:
            self._server.answers_changed()
        if self._is_reading_paused:
            self._resume_if_under()

    def finish(self) -> None:
        """Write what is answered and close."""
        self._flush()
        if self._transport is not None and not self.is_closed:
            self._transport.close()

    def _bad_frame(self, error: ProtocolError) -> None:
        self._metrics.bad_frames[error.code] += 1
        self._server.warning(self.peer, error.code, f"{error}; connection closed")
        # What good frames before it asked for is still answered, if that is possible at once.
        self.finish()
        self.is_closed = True

    def _is_over(self) -> bool:
        return (
            self._in_flight_bytes > self._limits.in_flight_bytes_max
            or len(self._unanswered) > self._limits.in_flight_requests_max
            or self._stalled_since is not None
        )

    def _pause_if_over(self) -> None:
        if not self._is_reading_paused and self._transport is not None and self._is_over():
            self._is_reading_paused = True
            self._metrics.paused += 1
            self._transport.pause_reading()

    def _resume_if_under(self) -> None:
        if (
            self._is_reading_paused
            and self._transport is not None
            and not self.is_closed
            and self._stalled_since is None
            and self._in_flight_bytes <= self._limits.in_flight_bytes_max // 2
            and len(self._unanswered) <= self._limits.in_flight_requests_max // 2
        ):
            self._is_reading_paused = False
            self._transport.resume_reading()

    def check(self, now: float) -> None:
        """Close when a deadline has passed."""
        half_for = 0.0 if self._half_since is None or self._is_reading_paused else now - self._half_since
        if half_for > self._limits.half_frame_seconds:
            self._metrics.half_frames += 1
            what = f"half a frame ({self._reader.pending_bytes} bytes), then silence; connection closed"
            self._server.warning(self.peer, "half_frame", what)
            self.abort()
        if self._stalled_since is not None and now - self._stalled_since > self._limits.write_stall_seconds:
            self._metrics.write_stalls += 1
            self._server.warning(self.peer, "write_stall", "does not read its answers; connection closed")
            self.abort()


class FrameServer:
    """Listens and keeps the connections."""

    def __init__(
        self,
        host: str,
        port: int,
        handler: Handler,
        *,
        clock: Clock,
        limits: ServerLimits | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self.handler = handler
        self.clock = clock
        self.limits = limits or ServerLimits()
        self.metrics = ServerMetrics()
        self.logger = logger or logging.getLogger("qmq.net")
        self.connections: set[Connection] = set()
        self._listener: socket.socket | None = None
        self._joining: set[asyncio.Task[None]] = set()
        self._checker: asyncio.TimerHandle | None = None
        self.is_closing = False
        self._watch_answers: asyncio.Event | None = None
        self._log_limiter = LogLimiter()

    async def start(self) -> None:
        """Bind and listen. Raises OSError when the address is taken."""
        self.loop = asyncio.get_running_loop()
        addresses = await self.loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = addresses[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
        except OSError as error:
            sock.close()
            raise OSError(error.errno, f"{self._host}:{self._port}: {error.strerror}") from error
        sock.setblocking(False)
        sock.listen(BACKLOG)
        self._listener = sock
        self._listen()
        self._checker = self.loop.call_later(CHECK_SECONDS, self._check)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens; the real port after port 0."""
        assert self._listener is not None
        host, port = self._listener.getsockname()[:2]
        return str(host), int(port)

    def _listen(self) -> None:
        if self._listener is not None and not self.is_closing:
            self.loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        """Take who knocks, and close at once whom there is no room for.

        asyncio's own server would hold each of those open for four turns of the loop: a burst of them would use up
        the file descriptors that log and indexes count on.
        """
        assert self._listener is not None
        for _ in range(ACCEPTS_IN_A_ROW):
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self.loop.call_exception_handler({"message": "a connection can't be accepted", "exception": error})
                if error.errno in OUT_OF_RESOURCES:
                    # The socket stays readable: without a pause this would spin.
                    self.loop.remove_reader(self._listener.fileno())
                    self.loop.call_later(ACCEPT_RETRY_SECONDS, self._listen)
                return
            if len(self.connections) >= self.limits.connections_max:
                sock.close()
                self._refused(f"{address[0]}:{address[1]}")
                continue
            sock.setblocking(False)
            connection = Connection(self)
            self.connections.add(connection)
            self.metrics.connections_total += 1
            self.metrics.connections = len(self.connections)
            task = self.loop.create_task(self._join(connection, sock))
            self._joining.add(task)
            task.add_done_callback(self._joining.discard)

    def warning(self, peer: str, reason: str, what: str) -> None:
        """Log what a peer did wrong, with a back-off for each reason and host."""
        self._log_limiter.warning(self.logger, peer, reason, what, self.clock.monotonic())

    def _refused(self, peer: str) -> None:
        self.metrics.refused += 1
        if self.metrics.refused % 1000 == 1:
            self.logger.warning(
                "%s: refused, %d connections are the limit (connections_max)", peer, len(self.connections)
            )

    async def _join(self, connection: Connection, sock: socket.socket) -> None:
        try:
            await self.loop.connect_accepted_socket(lambda: connection, sock)
        except OSError as error:
            sock.close()
            self.release(connection)
            self.logger.warning("a new connection failed: %s", error)

    def release(self, connection: Connection) -> None:
        """A connection is gone."""
        self.connections.discard(connection)
        self.metrics.connections = len(self.connections)
        self.answers_changed()

    def _check(self) -> None:
        now = self.clock.monotonic()
        for connection in list(self.connections):
            connection.check(now)
        self._checker = self.loop.call_later(CHECK_SECONDS, self._check)

    def answers_changed(self) -> None:
        """Tell a close that waits when nothing is unanswered any more."""
        if self._watch_answers is not None and not any(connection.unanswered for connection in self.connections):
            self._watch_answers.set()

    def stop_listening(self) -> None:
        """Take no new connections."""
        self.is_closing = True
        if self._listener is not None and self._listener.fileno() >= 0:
            self.loop.remove_reader(self._listener.fileno())
            self._listener.close()

    async def close(self, grace_seconds: float) -> int:
        """Take nothing new, wait for the answers under way, then close; how many connections had to be cut off."""
        self.stop_listening()
        self._watch_answers = asyncio.Event()
        self.answers_changed()
        try:
            async with asyncio.timeout(grace_seconds):
                await self._watch_answers.wait()
        except TimeoutError:
            pass
        for task in self._joining:
            task.cancel()
        cut = 0
        for connection in list(self.connections):
            if connection.unanswered:
                cut += 1
                connection.abort()
            else:
                connection.finish()
        if self._checker is not None:
            self._checker.cancel()
        await asyncio.sleep(0)
        return cut
