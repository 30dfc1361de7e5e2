"""A client's connection: requests with deadlines, answers matched by opaque, in any order."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import cast

from qmq.errors import CallTimeout, ConnectionLost, ProtocolError, Unreachable
from qmq.net.discovery import failure_reason
from qmq.protocol.codes import CURRENT_VERSION
from qmq.protocol.frames import FRAME_BYTES_MAX, Frame, FrameReader, request_header
from qmq.protocol.receive_buffers import ReceiveBuffers
from qmq.words import seconds as seconds_text

PENDING_MAX = 10_000
"""Requests waiting for an answer on one connection; one more is refused."""
CONNECT_SECONDS = 5.0
ANSWER_TOO_LARGE = "net.answer_too_large"
"""Code of the ConnectionLost of the request whose answer closed the connection, because it was above `frame_bytes_max`."""

logger = logging.getLogger("qmq.net")


@dataclass(eq=False, repr=False)
class Caller(asyncio.BufferedProtocol):
    """One connection to a server."""

    host: str
    port: int
    _: KW_ONLY
    on_push: Callable[[Frame], None] | None = None
    """Called with frames that answer nothing: the metaserver sends changed routes so."""
    on_lost: Callable[[], None] | None = None
    """Called once when the connection ends, however it ends."""
    connect_seconds: float = CONNECT_SECONDS
    frame_bytes_max: InitVar[int] = FRAME_BYTES_MAX
    buffers: InitVar[ReceiveBuffers | None] = None
    """For a connection that receives large frames and little else."""
    _transport: asyncio.Transport | None = field(default=None, init=False)
    _pending: dict[int, asyncio.Future[Frame]] = field(default_factory=dict, init=False)
    _opaque: int = field(default=0, init=False)
    is_closed: bool = field(default=False, init=False)
    _connecting: asyncio.Timeout | None = field(default=None, init=False)
    _abort_reason: str = field(default="", init=False)

    def __post_init__(self, frame_bytes_max: int, buffers: ReceiveBuffers | None) -> None:
        self._reader = FrameReader(frame_bytes_max, buffers)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def is_connected(self) -> bool:
        return self._transport is not None and not self.is_closed

    async def connect(self) -> None:
        """Open the connection. Raises ConnectionLost when no server accepts it in time."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.connect_seconds) as self._connecting:
                await loop.create_connection(lambda: self, self.host, self.port)
        except (OSError, TimeoutError, UnicodeError) as error:
            # UnicodeError: a host name that can't be one, such as one with a label of over 63 characters.
            self.is_closed = True
            reason = self._abort_reason or failure_reason(error, self.connect_seconds)
            raise Unreachable(self.address, reason) from error
        finally:
            self._connecting = None

    def call_soon(self, code: int, *body: bytes, version: int = CURRENT_VERSION) -> "asyncio.Future[Frame]":
        """Send a request, its body in any number of parts; the future gets the answer, or ConnectionLost.

        Raises ConnectionLost when the connection is closed, or too many requests are pending on it.
        """
        if self._transport is None or self.is_closed:
            raise ConnectionLost(f"the connection to {self.address} is closed")
        if len(self._pending) >= PENDING_MAX:
            raise ConnectionLost(
                f"{PENDING_MAX} requests wait on {self.address}, the limit", code="net.too_many_pending"
            )
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        opaque = self._opaque
        future: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._pending[opaque] = future
        future.add_done_callback(lambda _: self._pending.pop(opaque, None))
        self._transport.write(b"".join((request_header(code, opaque, sum(map(len, body)), version=version), *body)))
        return future

    async def call(self, code: int, body: bytes = b"", *, timeout_s: float, version: int = CURRENT_VERSION) -> Frame:
        """Send a request and wait for its answer, up to `timeout_s` seconds. Raises CallTimeout or ConnectionLost.

        An answer that arrived while this process stood still is returned, although the time is up when the process continues. The
        code of ConnectionLost is ANSWER_TOO_LARGE if the answer was above the limit.
        """
        future = self.call_soon(code, body, version=version)
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError as error:
            if future.done() and not future.cancelled():
                return future.result()
            raise timed_out(self.address, code, timeout_s) from error

    def send_frame(self, frame: bytes) -> None:
        """Write a frame whose answer, if any, comes as a push."""
        if self._transport is None or self.is_closed:
            raise ConnectionLost(f"the connection to {self.address} is closed")
        self._transport.write(frame)

    async def close(self) -> None:
        """Close; what waits for an answer gets ConnectionLost."""
        self._end(None)
        if self._transport is not None:
            self._transport.close()
            await asyncio.sleep(0)

    def abort(self, error: Exception) -> None:
        """Close at once, and end a call of `connect`. Requests without an answer fail with ConnectionLost, which names the error.

        Unlike `close`, this does not wait until the peer has received what was written.
        """
        self._end(error)
        if self._transport is not None:
            self._transport.abort()
        elif self._connecting is not None and not self._connecting.expired():
            self._abort_reason = str(error)
            self._connecting.reschedule(asyncio.get_running_loop().time())

    # --- asyncio ---------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked with isinstance: transports of other loops (uvicorn's uvloop) are none of asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)
        if self.is_closed:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            frames = self._reader.buffer_updated(nbytes)
        except ProtocolError as error:
            self._bad(error)
            return
        for frame in frames:
            future = self._pending.get(frame.opaque) if frame.is_response else None
            if future is not None and not future.done():
                future.set_result(frame)
            elif self.on_push is not None:
                self.on_push(frame)
        if self._reader.error is not None:
            self._bad(self._reader.error)

    def _bad(self, error: ProtocolError) -> None:
        logger.warning("%s sends what can't be read: %s; connection closed", self.address, error)
        opaque = self._reader.refused_opaque
        refused = self._pending.get(opaque) if opaque is not None else None
        if refused is not None and not refused.done():
            text = f"the answer of {self.address} is too large: {error}"
            refused.set_exception(ConnectionLost(text, code=ANSWER_TOO_LARGE, retriable=False))
        self.abort(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)

    def _end(self, exc: Exception | None) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        reason = f": {exc}" if exc is not None else ""
        for future in list(self._pending.values()):
            if not future.done():
                future.set_exception(ConnectionLost(f"the connection to {self.address} ended{reason}"))
        if self.on_lost is not None:
            self.on_lost()


def timed_out(address: str, code: int, seconds: float) -> CallTimeout:
    """The error of a request without a response."""
    return CallTimeout(f"{address} did not respond to command {code} within {seconds_text(seconds)}")
