"""class Connection: one client's connection to a server of frames."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol, cast

from qmq.clock import Clock
from qmq.errors import ProtocolError
from qmq.protocol.codes import ResponseCode
from qmq.protocol.frames import FLAG_ONE_WAY, FLAG_RESPONSE, HEADER_BYTES, Frame, FrameReader, response_header
from qmq.supervisor import Supervisor
from qmq_node.server.out_queue import Buffer, OutQueue
from qmq_node.server.server_limits import ServerLimits, ServerMetrics
from qmq_node.server.usage import ConnectionUsage, ServerUsage, UnfinishedFrame

Handler = Callable[["Connection", Frame], None]


class ConnectionOwner(Protocol):
    """What a connection needs of its server."""

    handler: Handler
    clock: Clock
    limits: ServerLimits
    metrics: ServerMetrics
    usage: ServerUsage
    supervisor: Supervisor
    loop: asyncio.AbstractEventLoop
    is_closing: bool
    is_held: bool
    """Whether no further request is handled for now."""

    def release(self, connection: "Connection") -> None:
        """The connection is gone."""

    def answers_changed(self) -> None:
        """While the server closes or holds requests: requests were answered."""

    def warning(self, peer: str, reason: str, what: str) -> None:
        """Log what a peer did wrong, with a back-off for each reason and host."""


class Connection(asyncio.BufferedProtocol):
    """One client's connection."""

    def __init__(self, server: ConnectionOwner, peer: str = "?") -> None:
        self._server = server
        self._limits = server.limits
        self._metrics = server.metrics
        self._reader = FrameReader(server.limits.frame_bytes_max)
        self._transport: asyncio.Transport | None = None
        self._usage = ConnectionUsage(server.usage)
        self._deferred: deque[Frame] = deque()
        """Frames that were received together with others and exceed the limits: handled once requests are answered."""
        self._unfinished = UnfinishedFrame(self._reader, server.usage.large_frames, server.clock, self._room_granted)
        self._out = OutQueue(self._usage, server.metrics)
        self._flush_scheduled = False
        self._is_reading_paused = False
        self._close_callbacks: list[Callable[[], object]] = []
        self.peer = peer
        self.is_closed = False

    # --- asyncio ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked with isinstance: transports of other loops (uvicorn's uvloop) are none of asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)
        if self._server.is_closing or self.is_closed:
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
        if self._unfinished.watch(has_frames=bool(frames)):
            self._metrics.large_frames_waited += 1
        self._pause_if_over()

    def _handle(self, frames: Iterable[Frame]) -> None:
        """Hand requests to the handler until a limit is reached; the rest waits in `_deferred`."""
        if self._deferred or self._server.is_held:
            self._deferred.extend(frames)
            return
        handler, usage = self._server.handler, self._usage
        following = iter(frames)
        for frame in following:
            flag = frame.flag
            if flag & FLAG_RESPONSE:
                continue
            if not flag & FLAG_ONE_WAY:
                usage.add(frame)
            try:
                handler(self, frame)
            except Exception as error:  # noqa: BLE001 - reported; other requests and connections are served
                self.report(error)
                self.reply(frame, ResponseCode.BROKER_ERROR)
            if usage.is_over():
                self._deferred.extend(following)
        usage.publish()

    def _room_granted(self) -> None:
        """There is room for the large frame that this connection has announced."""
        self._server.loop.call_soon(self.resume)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._usage.clear()
        self._deferred.clear()
        self._out.clear()
        self._server.usage.cancel_wait(self.resume)
        self._unfinished.release()
        self._server.release(self)
        for callback in self._close_callbacks:
            self._server.supervisor.call("connection_closed", callback)
        self._close_callbacks.clear()

    def pause_writing(self) -> None:
        self._out.stalled_since = self._server.clock.monotonic()
        self._pause_if_over()

    def resume_writing(self) -> None:
        self._out.taken()
        self._flush()

    # --- for handlers ----------------------------------------------------------------------------------------------

    def reply(self, frame: Frame, code: int, *parts: bytes | memoryview) -> None:
        """Answer a request, once; without effect when it was answered, asks for no answer, or the peer is gone."""
        if self.is_closed or self._transport is None or not self._usage.remove(frame):
            return
        answer_bytes = sum(map(len, parts))
        self._out.add(response_header(frame, code, answer_bytes), parts, HEADER_BYTES + answer_bytes)
        if not self._flush_scheduled:
            self._flush_soon()

    def report(self, error: Exception) -> None:
        """Count a request that met an error of this program; the supervisor reports `request` as failing."""
        self._metrics.handler_errors += 1
        self._server.supervisor.report("request", error)

    def push(self, head: bytes, *parts: Buffer) -> None:
        """Write a whole frame that answers nothing, in any number of parts, which must stay as they are until they are written."""
        if not self.is_closed:
            self._out.add(head, parts, len(head) + sum(map(len, parts)))
            self._flush_soon()

    def drop(self, frame: Frame) -> None:
        """A request will never be answered: its sender asked again."""
        if not self.is_closed and self._usage.remove(frame):
            self._usage.publish()
            if self._is_reading_paused or self._server.is_held:
                self._flush_soon()

    def holds(self, frame: Frame, answer_bytes: int) -> None:
        """Count an answer that is complete in memory and waits for the disk: many pulls in one read would otherwise hold
        gigabytes before the first answer is written."""
        if not self.is_closed:
            self._usage.hold(frame, answer_bytes)

    def has_unread(self, mark: int) -> bool:
        """Whether answers queued when `queued_bytes` was `mark` still wait for the peer to read."""
        return self._out.has_unread(mark)

    @property
    def queued_bytes(self) -> int:
        """Of all answers since the connection was made; a mark for `has_unread`."""
        return self._out.mark

    @property
    def answer_room(self) -> int:
        """The most bytes that an answer made now should have, see `ConnectionUsage`."""
        return self._usage.answer_room

    def on_close(self, callback: Callable[[], object]) -> None:
        """Call back once when the connection is gone."""
        self._close_callbacks.append(callback)

    @property
    def unanswered(self) -> int:
        """Requests received that still wait for their answer, or to be handled."""
        return self.in_progress + len(self._deferred)

    @property
    def in_progress(self) -> int:
        """Requests that were handled and still wait for their answer."""
        return self._usage.requests

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
        if not self.is_closed and self._transport is not None:
            self._out.write(self._transport)
        self._usage.publish()
        if self._server.is_closing or self._server.is_held:
            self._server.answers_changed()
        if self._is_reading_paused:
            self.resume()

    def finish(self) -> None:
        """Write what is answered and close."""
        self._flush()
        if self._transport is not None and not self.is_closed:
            # The transport writes what it holds before it closes.
            self._out.write(self._transport, although_stalled=True)
            self._transport.close()

    def _bad_frame(self, error: ProtocolError) -> None:
        self._metrics.bad_frames[error.code] += 1
        self._server.warning(self.peer, error.code, f"{error}; connection closed")
        # What good frames before it asked for is still answered, if that is possible at once.
        self.finish()
        self.is_closed = True

    def _pause_if_over(self) -> None:
        if self._is_reading_paused or self._transport is None:
            return
        if self._unfinished.waits_for_room or self._deferred or self._usage.is_over():
            self._is_reading_paused = True
            self._metrics.paused += 1
            self._transport.pause_reading()
            if self._server.usage.is_over:
                self._server.usage.wait_until_under(self.resume)

    def resume(self) -> None:
        """Handle what was deferred, then read again, as far as the limits allow."""
        if not self._is_reading_paused or self._transport is None or self.is_closed:
            return
        while self._is_under() and self._deferred:
            frames, self._deferred = self._deferred, deque()
            self._handle(frames)
        if self._is_under() and not self._unfinished.waits_for_room and not self._deferred:
            self._is_reading_paused = False
            self._unfinished.restart()
            self._transport.resume_reading()

    def _is_under(self) -> bool:
        if self._usage.waits_for_others:
            self._server.usage.wait_until_under(self.resume)
            return False
        return not self.is_closed and not self._server.is_held and self._usage.is_under()

    def check(self, now: float) -> None:
        """Close when a deadline has passed. The time for which this side did not read does not count."""
        limits = self._limits
        if not self._is_reading_paused and self._unfinished.is_late(now, limits):
            self._metrics.half_frames += 1
            what = f"half a frame ({self._reader.pending_bytes} bytes), then silence; connection closed"
            self._server.warning(self.peer, "half_frame", what)
            self.abort()
        stalled_since = self._out.stalled_since
        if stalled_since is not None and now - stalled_since > limits.write_stall_seconds:
            self._metrics.write_stalls += 1
            self._server.warning(self.peer, "write_stall", "does not read its answers; connection closed")
            self.abort()
