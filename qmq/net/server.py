"""An asyncio server of frames: listen, hand each request to a handler, write answers in any order, refuse over limits.

The handler is a plain function, called for every request frame of what one read brought; it answers at once or keeps
the frame and answers later. Nothing is awaited and no task is made per frame.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import cast

from qmq.clock import Clock
from qmq.errors import ProtocolError, SettingError
from qmq.net.listener import Listener, MakeListener, SocketListener
from qmq.net.log_limiter import LogLimiter
from qmq.protocol.codes import ResponseCode
from qmq.protocol.frames import (
    FLAG_ONE_WAY,
    FLAG_RESPONSE,
    FRAME_BYTES_MAX,
    HEADER_BYTES,
    Frame,
    FrameReader,
    response_header,
)
from qmq.supervisor import Supervisor

CHECK_SECONDS = 1.0
"""How often deadlines of connections are checked, and accepting resumes after a lack of file descriptors or memory."""
WRITE_BYTES = 256 << 10
"""Answers handed to the transport at a time; the next piece follows when the kernel has taken it."""
ANSWER_SHARE = 8
"""One answer may take this share (1/8) of what is left of `answer_total_bytes_max`."""
ANSWER_BYTES_MIN = 16 << 10
"""An answer may always have this many bytes, also when nothing is left."""
LARGE_FRAME_BYTES = 1 << 20
"""An unfinished frame above this size takes room of `large_frames_bytes_max`; smaller ones are bounded by `connections_max`."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What one server takes at most; what happens at a limit stands with it."""

    connections_max: int = 10_000
    """A further connection is closed at once and counted."""
    frame_bytes_max: int = FRAME_BYTES_MAX
    """A larger frame closes its connection, by its header alone."""
    large_frames_bytes_max: int = 512 << 20
    """Unfinished large frames of all connections together, by the sizes in their headers. A further one is not read until there is
    room for all of it, in the order of arrival; its connection stays open."""
    in_flight_bytes_max: int = 64 << 20
    """Bytes of unanswered requests of a connection; above it, no further request is handled or read until half is answered."""
    in_flight_requests_max: int = 4096
    """Unanswered requests of a connection; as above."""
    in_flight_total_bytes_max: int = 1 << 30
    """The sum of `in_flight_bytes_max` over all connections; above it, no connection that has unanswered requests is read, and no
    large frame gets room. Connections without either go on: each can add one small frame."""
    half_frame_seconds: float = 30.0
    """A frame that is not complete this long after its first byte closes its connection; the time to receive a large frame at
    `frame_bytes_per_second_min` is added."""
    frame_bytes_per_second_min: int = 1 << 20
    """The slowest rate at which a large frame may arrive."""
    answer_bytes_max: int = 8 << 20
    """Bytes of answers of a connection that wait for the disk or for the peer to read them; above it, no further request is handled
    or read until half is gone. One answer may exceed it."""
    answer_total_bytes_max: int = 64 << 20
    """The sum of those over all connections; above it, a connection with such answers is not read. `Connection.answer_room` makes
    answers small before that, so that connections without any are still served."""
    write_stall_seconds: float = 60.0
    """A peer that takes nothing of its answers for this long is cut off."""


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
    large_frames_waited: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


Handler = Callable[["Connection", Frame], None]


class LargeFrames:
    """Grants room for unfinished large frames, to one connection after the other in the order of their requests.

    Room is granted for the whole frame before its body is read: if connections took room as bytes arrive, many frames could be
    half read at the limit and none of them ever completed.

    Args:
        bytes_max: of all granted frames together.
        may_grant: whether any room may be granted now; the owner calls `grant_waiting` when that becomes true.
    """

    def __init__(self, bytes_max: int, may_grant: Callable[[], bool]) -> None:
        self._free = bytes_max
        self._may_grant = may_grant
        self._granted: dict[Connection, int] = {}
        self._waiting: dict[Connection, int] = {}

    def request(self, connection: "Connection", size: int) -> bool:
        """Ask for room; False: wait, `Connection.large_frame_granted` is called later."""
        if self._waiting or size > self._free or not self._may_grant():
            self._waiting[connection] = size
            return False
        self._grant(connection, size)
        return True

    def _grant(self, connection: "Connection", size: int) -> None:
        self._free -= size
        self._granted[connection] = size

    def release(self, connection: "Connection") -> None:
        """The connection's frame is complete, or the connection is gone: give its room to those that wait."""
        self._waiting.pop(connection, None)
        self._free += self._granted.pop(connection, 0)
        self.grant_waiting()

    def grant_waiting(self) -> None:
        """Give free room to those that wait, in the order of their requests."""
        ready = []
        while self._waiting and self._may_grant():
            following, size = next(iter(self._waiting.items()))
            if size > self._free:
                break
            del self._waiting[following]
            self._grant(following, size)
            ready.append(following)
        for following in ready:
            following.large_frame_granted()


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
        self._counted_bytes = 0
        """The part of `_in_flight_bytes` that is in the server's sum; updated once a read and once a flush, because each frame
        changes it twice."""
        self._deferred: deque[Frame] = deque()
        """Frames that were received together with others and exceed the limits: handled once requests are answered."""
        self._has_large_frame = False
        self._waits_for_room = False
        self._out: deque[bytes | memoryview] = deque()
        self._out_bytes = 0
        self._written_bytes = 0
        """Handed to the transport since the connection was made."""
        self._sending_bytes = 0
        """Bytes of the piece that the transport holds because the kernel has not taken it."""
        self._held: dict[int, int] = {}
        """Bytes of answers that wait for the disk, by request."""
        self._answer_bytes = 0
        """Of all answers that wait: for the disk, in `_out`, or in the transport."""
        self._counted_answer_bytes = 0
        """The part of it that is in the server's sum, as `_counted_bytes`."""
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
        # The transport reports at once when the kernel did not take all of a piece, and again when it has.
        self._transport.set_write_buffer_limits(high=0)

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
        self._handle(frames)
        if self.is_closed:
            return
        if self._reader.error is not None:
            self._bad_frame(self._reader.error)
            return
        self._watch_unfinished(has_frames=bool(frames))
        self._pause_if_over()

    def _handle(self, frames: Iterable[Frame]) -> None:
        """Hand requests to the handler until a limit is reached; the rest waits in `_deferred`."""
        if self._deferred:
            self._deferred.extend(frames)
            return
        handler, requests, unanswered = self._server.handler, self._metrics.requests, self._unanswered
        following = iter(frames)
        for frame in following:
            flag = frame.flag
            if flag & FLAG_RESPONSE:
                self._metrics.ignored_responses += 1
                continue
            requests[frame.code] += 1
            if not flag & FLAG_ONE_WAY:
                unanswered[id(frame)] = size = HEADER_BYTES + len(frame.body)
                self._in_flight_bytes += size
            try:
                handler(self, frame)
            except Exception as error:  # noqa: BLE001 - reported; other requests and connections are served
                self.report(error)
                self.reply(frame, ResponseCode.BROKER_ERROR)
            if self._is_over():
                self._deferred.extend(following)
        self._count_in_flight()

    def _watch_unfinished(self, *, has_frames: bool) -> None:
        """Follow the frame whose bytes have arrived in part: its deadline, and its room if it is large."""
        if not self._reader.pending_bytes:
            self._half_since = None
        elif has_frames or self._half_since is None:
            self._half_since = self._server.clock.monotonic()
        if self._has_large_frame and has_frames:
            self._has_large_frame = False
            self._server.large_frames.release(self)
        size = self._reader.unfinished_bytes
        if size > LARGE_FRAME_BYTES and not self._has_large_frame:
            self._has_large_frame = True
            self._waits_for_room = not self._server.large_frames.request(self, size)
            self._metrics.large_frames_waited += self._waits_for_room

    def large_frame_granted(self) -> None:
        """There is room for the large frame that this connection has announced."""
        self._waits_for_room = False
        self._server.loop.call_soon(self._resume_if_under)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._in_flight_bytes = self._answer_bytes = 0
        self._count_in_flight()
        self._unanswered.clear()
        self._held.clear()
        self._deferred.clear()
        self._out.clear()
        self._server.release(self)
        for callback in self._close_callbacks:
            self._server.supervisor.call("connection_closed", callback)
        self._close_callbacks.clear()

    def pause_writing(self) -> None:
        self._stalled_since = self._server.clock.monotonic()
        self._pause_if_over()

    def resume_writing(self) -> None:
        self._stalled_since = None
        self._answer_bytes -= self._sending_bytes
        self._sending_bytes = 0
        self._write()
        self._count_in_flight()
        self._resume_if_under()

    # --- for handlers ----------------------------------------------------------------------------------------------

    def reply(self, frame: Frame, code: int, *parts: bytes | memoryview) -> None:
        """Answer a request, once; without effect when it was answered, asks for no answer, or the peer is gone."""
        size = self._unanswered.pop(id(frame), None)
        if size is None or self.is_closed or self._transport is None:
            return
        self._in_flight_bytes -= size
        if self._held:
            self._answer_bytes -= self._held.pop(id(frame), 0)
        answer_bytes = sum(map(len, parts))
        header = response_header(frame, code, answer_bytes)
        self._out.append(header)
        self._out.extend(parts)
        # As `_queued`, without the call: this is done for each message that is sent alone.
        answer_bytes += len(header)
        self._out_bytes += answer_bytes
        self._answer_bytes += answer_bytes
        if not self._flush_scheduled:
            self._flush_soon()

    def report(self, error: Exception) -> None:
        """Count a request that met an error of ours; the supervisor reports `request` as failing."""
        self._metrics.handler_errors += 1
        self._server.supervisor.report("request", error)

    def push(self, data: bytes) -> None:
        """Write a whole frame that answers nothing."""
        if not self.is_closed:
            self._out.append(data)
            self._queued(len(data))

    def drop(self, frame: Frame) -> None:
        """A request will never be answered: its sender asked again."""
        self._in_flight_bytes -= self._unanswered.pop(id(frame), 0)
        self._answer_bytes -= self._held.pop(id(frame), 0)
        self._count_in_flight()
        if self._is_reading_paused:
            self._flush_soon()

    def holds(self, frame: Frame, answer_bytes: int) -> None:
        """Count an answer that is complete in memory and waits for the disk: many pulls in one read would otherwise hold
        gigabytes before the first answer is written."""
        if id(frame) in self._unanswered:
            self._held[id(frame)] = answer_bytes
            self._answer_bytes += answer_bytes
            self._count_in_flight()

    def has_unread(self, mark: int) -> bool:
        """Whether answers queued when `queued_bytes` was `mark` still wait for the peer to read."""
        return self._written_bytes - self._sending_bytes < mark

    @property
    def queued_bytes(self) -> int:
        """Of all answers since the connection was made; a mark for `has_unread`."""
        return self._written_bytes + self._out_bytes

    @property
    def answer_room(self) -> int:
        """The most bytes that an answer made now should have: a share of what is left for the answers of all connections.

        Peers that don't read their answers use that up. Others get smaller answers then, and read them at once.
        """
        free = self._limits.answer_total_bytes_max - self._all_answer_bytes
        return max(ANSWER_BYTES_MIN, free // ANSWER_SHARE)

    @property
    def _all_answer_bytes(self) -> int:
        """Of all connections, with those of this read."""
        return self._server.answer_bytes + self._answer_bytes - self._counted_answer_bytes

    @property
    def _has_no_answer_room(self) -> bool:
        return self._answer_bytes > 0 and self._all_answer_bytes > self._limits.answer_total_bytes_max

    def on_close(self, callback: Callable[[], None]) -> None:
        """Call back once when the connection is gone."""
        self._close_callbacks.append(callback)

    @property
    def unanswered(self) -> int:
        """Requests received that still wait for their answer, or to be handled."""
        return len(self._unanswered) + len(self._deferred)

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

    def _count_in_flight(self) -> None:
        change = self._in_flight_bytes - self._counted_bytes
        if change:
            self._counted_bytes = self._in_flight_bytes
            self._server.add_in_flight(change)
        change = self._answer_bytes - self._counted_answer_bytes
        if change:
            self._counted_answer_bytes = self._answer_bytes
            self._server.answer_bytes += change

    def _queued(self, size: int) -> None:
        self._out_bytes += size
        self._answer_bytes += size
        self._flush_soon()

    def _write(self) -> None:
        """Hand answers to the kernel, piece by piece, until it takes no more."""
        if self.is_closed or self._transport is None:
            return
        while self._out and self._stalled_since is None:
            piece = self._next_piece()
            self._transport.write(piece)
            if self._stalled_since is None:
                self._answer_bytes -= len(piece)
            else:
                self._sending_bytes = len(piece)

    def _next_piece(self) -> bytes:
        """Remove up to WRITE_BYTES from `_out`."""
        out = self._out
        if self._out_bytes <= WRITE_BYTES:
            piece = b"".join(out)
            out.clear()
        else:
            parts, room = [], WRITE_BYTES
            while room:
                part = out.popleft()
                if len(part) > room:
                    rest = memoryview(part)
                    out.appendleft(rest[room:])
                    part = rest[:room]
                parts.append(part)
                room -= len(part)
            piece = b"".join(parts)
        self._out_bytes -= len(piece)
        self._written_bytes += len(piece)
        self._metrics.bytes_out += len(piece)
        return piece

    def _flush(self) -> None:
        self._flush_scheduled = False
        self._write()
        self._count_in_flight()
        if self._server.is_closing:
            self._server.answers_changed()
        if self._is_reading_paused:
            self._resume_if_under()

    def finish(self) -> None:
        """Write what is answered and close."""
        self._flush()
        if self._transport is not None and not self.is_closed:
            # The transport writes what it holds before it closes.
            while self._out:
                self._transport.write(self._next_piece())
            self._transport.close()

    def _bad_frame(self, error: ProtocolError) -> None:
        self._metrics.bad_frames[error.code] += 1
        self._server.warning(self.peer, error.code, f"{error}; connection closed")
        # What good frames before it asked for is still answered, if that is possible at once.
        self.finish()
        self.is_closed = True

    def _is_over(self) -> bool:
        limits, server = self._limits, self._server
        return (
            self._in_flight_bytes > limits.in_flight_bytes_max
            or len(self._unanswered) > limits.in_flight_requests_max
            or self._answer_bytes > limits.answer_bytes_max
            or (server.is_over and bool(self._unanswered))
            # The first condition is cheap and counts some bytes twice; the second is exact.
            or (server.answer_bytes + self._answer_bytes > limits.answer_total_bytes_max and self._has_no_answer_room)
        )

    def _pause_if_over(self) -> None:
        if self._is_reading_paused or self._transport is None:
            return
        if self._waits_for_room or self._deferred or self._is_over():
            self._is_reading_paused = True
            self._metrics.paused += 1
            self._transport.pause_reading()
            if self._server.is_over:
                self._server.wait_for_answers(self)

    def _resume_if_under(self) -> None:
        """Handle what was deferred, then read again, as far as the limits allow."""
        if not self._is_reading_paused or self._transport is None or self.is_closed:
            return
        while self._is_under() and self._deferred:
            frames, self._deferred = self._deferred, deque()
            self._handle(frames)
        if self._is_under() and not self._waits_for_room and not self._deferred:
            self._is_reading_paused = False
            if self._half_since is not None:
                self._half_since = self._server.clock.monotonic()
            self._transport.resume_reading()

    def _is_under(self) -> bool:
        if self._server.is_over and self._unanswered:
            self._server.wait_for_answers(self)
            return False
        return (
            not self.is_closed
            and self._answer_bytes <= self._limits.answer_bytes_max // 2
            and not self._has_no_answer_room
            and self._in_flight_bytes <= self._limits.in_flight_bytes_max // 2
            and len(self._unanswered) <= self._limits.in_flight_requests_max // 2
        )

    def total_is_under(self) -> None:
        """Enough requests of all connections are answered."""
        self._resume_if_under()

    def check(self, now: float) -> None:
        """Close when a deadline has passed. The time for which this side did not read does not count."""
        half_for = 0.0 if self._half_since is None or self._is_reading_paused else now - self._half_since
        limits = self._limits
        if half_for > limits.half_frame_seconds + self._reader.unfinished_bytes / limits.frame_bytes_per_second_min:
            self._metrics.half_frames += 1
            what = f"half a frame ({self._reader.pending_bytes} bytes), then silence; connection closed"
            self._server.warning(self.peer, "half_frame", what)
            self.abort()
        if self._stalled_since is not None and now - self._stalled_since > self._limits.write_stall_seconds:
            self._metrics.write_stalls += 1
            self._server.warning(self.peer, "write_stall", "does not read its answers; connection closed")
            self.abort()


class FrameServer:
    """Listens and keeps the connections.

    Args:
        listen: makes what connections come from.
        supervisor: runs the server's own tasks; None: one of the server's own.
    """

    def __init__(
        self,
        host: str,
        port: int,
        handler: Handler,
        *,
        clock: Clock,
        limits: ServerLimits | None = None,
        logger: logging.Logger | None = None,
        supervisor: Supervisor | None = None,
        listen: MakeListener = SocketListener,
    ) -> None:
        self.handler = handler
        self.clock = clock
        self.limits = limits or ServerLimits()
        if self.limits.large_frames_bytes_max < self.limits.frame_bytes_max:
            raise SettingError(
                f"large_frames_bytes_max is {self.limits.large_frames_bytes_max}, below frame_bytes_max"
                f" ({self.limits.frame_bytes_max}): the largest frame would wait forever"
            )
        self.metrics = ServerMetrics()
        self.large_frames = LargeFrames(self.limits.large_frames_bytes_max, lambda: not self.is_over)
        self.in_flight_bytes = 0
        """Of all connections."""
        self.answer_bytes = 0
        """Of all connections: answers that wait for the disk or for a peer that does not read."""
        self.is_over = False
        """`in_flight_total_bytes_max` was exceeded, and more than half of it is still unanswered."""
        self._waiting: dict[Connection, None] = {}
        self.logger = logger or logging.getLogger("qmq.net")
        self.supervisor = supervisor or Supervisor(clock, logger=self.logger, on_failure=lambda name, error: None)
        self.connections: dict[Connection, None] = {}
        """In the order of their acceptance."""
        self._listener: Listener = listen(host, port, self, self.supervisor)
        self._checker: asyncio.Task[None] | None = None
        self.is_closing = False
        self._watch_answers: asyncio.Event | None = None
        self._log_limiter = LogLimiter()

    async def start(self) -> None:
        """Bind and listen. Raises OSError when the address is taken."""
        self.loop = asyncio.get_running_loop()
        await self._listener.start()
        self._checker = self.supervisor.every(CHECK_SECONDS, "connection_deadlines", self._check, until_close=True)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens; the real port after port 0."""
        return self._listener.address

    def admit(self, peer: str) -> Connection | None:
        """The protocol of a new connection; None: it has to be closed at once."""
        if len(self.connections) >= self.limits.connections_max:
            self._refused(peer)
            return None
        connection = Connection(self)
        self.connections[connection] = None
        self.metrics.connections_total += 1
        self.metrics.connections = len(self.connections)
        return connection

    def not_connected(self, protocol: asyncio.BufferedProtocol) -> None:
        """An admitted connection ended before it was set up."""
        assert isinstance(protocol, Connection)
        self.release(protocol)

    def warning(self, peer: str, reason: str, what: str) -> None:
        """Log what a peer did wrong, with a back-off for each reason and host."""
        self._log_limiter.warning(self.logger, peer, reason, what, self.clock.monotonic())

    def _refused(self, peer: str) -> None:
        self.metrics.refused += 1
        if self.metrics.refused % 1000 == 1:
            self.logger.warning(
                "%s: refused, %d connections are the limit (connections_max)", peer, len(self.connections)
            )

    def release(self, connection: Connection) -> None:
        """A connection is gone."""
        self.connections.pop(connection, None)
        self.metrics.connections = len(self.connections)
        self._waiting.pop(connection, None)
        self.large_frames.release(connection)
        self.answers_changed()

    def add_in_flight(self, size: int) -> None:
        """Follow the sum over all connections; when it is back at half of the limit, connections are read again."""
        self.in_flight_bytes += size
        if not self.is_over:
            self.is_over = self.in_flight_bytes > self.limits.in_flight_total_bytes_max
        elif self.in_flight_bytes <= self.limits.in_flight_total_bytes_max // 2:
            self.is_over = False
            self.loop.call_soon(self._resume_waiting)

    def wait_for_answers(self, connection: Connection) -> None:
        """Resume this connection when enough requests of all connections are answered."""
        self._waiting[connection] = None

    def _resume_waiting(self) -> None:
        self.large_frames.grant_waiting()
        waiting, self._waiting = self._waiting, {}
        for connection in waiting:
            connection.total_is_under()

    def _check(self) -> None:
        if not self.is_closing:
            self._listener.check()
        now = self.clock.monotonic()
        for connection in list(self.connections):
            connection.check(now)

    def answers_changed(self) -> None:
        """Tell a close that waits when nothing is unanswered any more."""
        if self._watch_answers is not None and not any(connection.unanswered for connection in self.connections):
            self._watch_answers.set()

    def stop_listening(self) -> None:
        """Take no new connections."""
        self.is_closing = True
        self._listener.stop()

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
        self._listener.cancel()
        cut = 0
        for connection in list(self.connections):
            if connection.unanswered:
                cut += 1
                connection.abort()
            else:
                connection.finish()
        if self._checker is not None:
            await self.supervisor.cancel(self._checker)
            self._checker = None
        await asyncio.sleep(0)
        return cut
