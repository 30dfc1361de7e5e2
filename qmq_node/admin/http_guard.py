"""class HttpGuard: limits that aiohttp lacks: the number of connections, the time in which a request must arrive, and the bytes of
answers that peers do not read."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from qmq.clock import Clock
from qmq.net.log_limiter import LogLimiter

CHECK_SECONDS = 1.0
"""How often deadlines are checked."""

HttpHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits of one server."""

    connections_max: int = 128
    """Open connections. At the limit the oldest one without a proof is closed for a new one; if there is none, the new one is."""
    request_seconds: float = 10.0
    """From the connection, or the first byte of a further request, to the last byte of the request."""
    idle_seconds: float = 60.0
    """Between requests of a connection."""
    stall_seconds: float = 20.0
    """A connection whose peer reads nothing of an answer for this long is closed."""
    requests_per_second: float = 50.0
    """Requests without a proof, of all connections, that are handled on average; further ones wait."""
    requests_burst: int = 100
    """Such requests that are handled at once after a pause."""
    unread_bytes_max: int = 32 << 20
    """Bytes of answers of all connections that peers have not read; the connection that exceeds it is closed."""


class HttpGuard:
    """Closes connections that exceed the limits: each is a `GuardedConnection`. `answer` is the first middleware and
    `receive` the last."""

    def __init__(self, clock: Clock, logger: logging.Logger, limits: HttpLimits | None = None) -> None:
        self._clock = clock
        self._logger = logger
        self.limits = limits or HttpLimits()
        self._lines = LogLimiter()
        self.open: dict[asyncio.Protocol, GuardedConnection] = {}
        """Connections by the protocol that answers their requests."""
        self.unread_bytes = 0
        self._pacing = asyncio.Lock()
        """Held while a request without a proof waits until it may be handled; others follow in the order of their arrival."""
        self._next_request_at = 0.0
        """On the event loop's clock: when the next request without a proof would be handled if there were no burst."""
        self.bad_requests = 0
        """Requests that were not valid HTTP."""
        self.request_logger = logging.Logger("qmq.admin.requests")
        """For aiohttp, which logs each bad request as an error with a traceback: any client could fill the log."""
        self.request_logger.parent = logger
        self.request_logger.addFilter(self._is_error)
        self.cut: Counter[str] = Counter()
        """Connections closed because of a limit since start, by reason."""

    @web.middleware
    async def receive(self, request: web.Request, handler: HttpHandler) -> web.StreamResponse:
        """Read a request's body before its handler runs: the time limit applies until then."""
        if request.can_read_body:
            await request.read()
        self._received(request)
        return await handler(request)

    @web.middleware
    async def answer(self, request: web.Request, handler: HttpHandler) -> web.StreamResponse:
        """End the time of a request that is refused before `receive`; aiohttp bounds the reading of its body."""
        try:
            return await handler(request)
        finally:
            self._received(request)

    def proved(self, request: web.Request) -> None:
        """The connection of a request belongs to a member: it stays open when others need room."""
        connection = self.open.get(request.protocol)
        if connection is not None:
            connection.has_proof = True

    def make_room(self) -> bool:
        """Whether there is room for another connection, if need be because one without a proof was closed."""
        if len(self.open) < self.limits.connections_max:
            return True
        oldest = next((protocol for protocol, connection in self.open.items() if not connection.has_proof), None)
        if oldest is not None:
            self.open.pop(oldest).cut("displaced")
        return oldest is not None

    def _received(self, request: web.Request) -> None:
        connection = self.open.get(request.protocol)
        if connection is not None:
            connection.expects_since = None

    async def pace(self, protocol: asyncio.Protocol) -> bool:
        """Wait until the rate of requests without a proof allows another one, so that requests in a loop leave time for clients.

        False: its connection was closed meanwhile. Such a request uses up none of the rate: clients that give up and ask again
        would let the others wait ever longer.
        """
        async with self._pacing:
            if protocol not in self.open:
                return False
            # The event loop's clock, because it is what a sleep uses.
            now = asyncio.get_running_loop().time()
            pause = 1 / self.limits.requests_per_second
            self._next_request_at = max(self._next_request_at, now - self.limits.requests_burst * pause) + pause
            if self._next_request_at > now:
                await asyncio.sleep(self._next_request_at - now)
            return True

    def check(self) -> None:
        """Close connections that exceeded a time limit."""
        now = self._clock.monotonic()
        for connection in list(self.open.values()):
            if connection.expects_since is not None and now - connection.expects_since >= self.limits.request_seconds:
                connection.cut("slow_request")
            elif connection.stalled_since is not None and now - connection.stalled_since >= self.limits.stall_seconds:
                connection.cut("not_reading")

    def _is_error(self, record: logging.LogRecord) -> bool:
        """Whether a line of aiohttp's is about an error of this program; bad requests are counted, and logged with a limit."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError):
            return True
        self.bad_requests += 1
        peer = record.args[0] if isinstance(record.args, tuple) and record.args else "unknown"
        self._lines.warning(self._logger, f"{peer}:0", "bad_request", "bad HTTP request", self.now())
        return False

    def now(self) -> float:
        return self._clock.monotonic()

    def count_cut(self, reason: str, peer: str) -> None:
        self.cut[reason] += 1
        self._lines.warning(self._logger, peer, reason, "admin connection closed: " + _REASONS[reason], self.now())


_REASONS = {
    "too_many": "too many are open",
    "displaced": "too many are open, and it was the oldest without a proof",
    "slow_request": "its request did not arrive in time",
    "not_reading": "its peer does not read",
    "unread": "too many bytes of answers wait for peers to read them",
}


class GuardedConnection(asyncio.Protocol):
    """Passes everything on to aiohttp's protocol, which reads requests and writes answers, and measures times and unread bytes."""

    def __init__(self, guard: HttpGuard, protocol: asyncio.Protocol) -> None:
        self._guard = guard
        self._protocol = protocol
        self._transport: asyncio.Transport | None = None
        self._is_open = False
        self._unread_bytes = 0
        self.expects_since: float | None = None
        """When the incomplete request began; None: there is none."""
        self.stalled_since: float | None = None
        """Since when the kernel accepts no more of an answer; None: it does."""
        self.has_proof = False
        """Whether a request on it had one."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not checked with isinstance: transports of other loops are none of asyncio's classes.
        self._transport = cast(asyncio.Transport, transport)
        if not self._guard.make_room():
            self.cut("too_many")
            return
        self._guard.open[self._protocol] = self
        self._is_open = True
        self.expects_since = self._guard.now()
        self._protocol.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not self._is_open:
            return
        if self.expects_since is None:
            self.expects_since = self._guard.now()
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received() if self._is_open else None

    def pause_writing(self) -> None:
        self.stalled_since = self._guard.now()
        if self._transport is not None:
            self._unread_bytes = self._transport.get_write_buffer_size()
            self._guard.unread_bytes += self._unread_bytes
        self._protocol.pause_writing()
        if self._guard.unread_bytes > self._guard.limits.unread_bytes_max:
            self.cut("unread")

    def resume_writing(self) -> None:
        self._written()
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._written()
        self._guard.open.pop(self._protocol, None)
        if self._is_open:
            self._is_open = False
            self._protocol.connection_lost(exc)

    def cut(self, reason: str) -> None:
        """Close the connection and discard unwritten answers."""
        assert self._transport is not None
        peer = self._transport.get_extra_info("peername") or ("unknown", 0)
        self._guard.count_cut(reason, f"{peer[0]}:{peer[1]}")
        self.expects_since = self.stalled_since = None
        self._transport.abort()

    def _written(self) -> None:
        self.stalled_since = None
        self._guard.unread_bytes -= self._unread_bytes
        self._unread_bytes = 0
