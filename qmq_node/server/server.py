"""An asyncio server of frames: listen, hand each request to a handler, write answers in any order, refuse over limits.

The handler is a plain function, called for every request frame of what one read brought; it answers at once or keeps
the frame and answers later. Nothing is awaited and no task is made per frame.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from qmq.clock import Clock
from qmq.errors import SettingError
from qmq.net.log_limiter import LogLimiter
from qmq.supervisor import Supervisor
from qmq_node.server.connection import Connection, Handler
from qmq_node.server.listener import Listener, MakeListener, SocketListener
from qmq_node.server.server_limits import ServerLimits, ServerMetrics
from qmq_node.server.usage import ServerUsage

CHECK_SECONDS = 1.0
"""How often deadlines of connections are checked, and accepting resumes after a lack of file descriptors or memory."""


class FrameServer:
    """Listens and keeps the connections.

    Args:
        listen: makes what connections come from.
        checks_itself: whether the server checks deadlines with a job of its own; if not, its owner calls `check` once a second.
        supervisor: runs the server's own tasks; None: one of the server's own.
        make_room: called at the limit of connections; returns one to close in favour of the new one. None: the new one is refused.
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
        checks_itself: bool = True,
        make_room: Callable[[], Connection | None] = lambda: None,
    ) -> None:
        self._checks_itself = checks_itself
        self._make_room = make_room
        self.handler = handler
        self.clock = clock
        self.limits = limits or ServerLimits()
        if self.limits.large_frames_bytes_max < self.limits.frame_bytes_max:
            raise SettingError(
                f"large_frames_bytes_max is {self.limits.large_frames_bytes_max}, below frame_bytes_max"
                f" ({self.limits.frame_bytes_max}): the largest frame would wait forever"
            )
        self.metrics = ServerMetrics()
        self.usage = ServerUsage(self.limits, lambda callback: self.loop.call_soon(callback))
        self.logger = logger or logging.getLogger("qmq.net")
        self.supervisor = supervisor or Supervisor(clock, logger=self.logger, on_failure=lambda name, error: None)
        self.connections: dict[Connection, None] = {}
        """In the order of their acceptance."""
        self._listener: Listener = listen(host, port, self, self.supervisor)
        self._checker: asyncio.Task[None] | None = None
        self.is_closing = False
        self.is_held = False
        self._watch_answers: asyncio.Event | None = None
        self._log_limiter = LogLimiter()

    async def bind(self) -> None:
        """Choose the port, so that `address` is known; connections are refused until `start`. Raises OSError as `start`."""
        await self._listener.bind()

    async def start(self) -> None:
        """Bind, unless `bind` was called, and listen. Raises OSError when the address is taken."""
        self.loop = asyncio.get_running_loop()
        await self._listener.start()
        if self._checks_itself:
            self._checker = self.supervisor.every(CHECK_SECONDS, "connection_deadlines", self.check, until_close=True)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens; the real port after port 0."""
        return self._listener.address

    def admit(self, peer: str) -> Connection | None:
        """The protocol of a new connection; None: it has to be closed at once."""
        if len(self.connections) >= self.limits.connections_max and not self._closed_another():
            self.metrics.refused += 1
            if self.metrics.refused % 1000 == 1:
                limit = self.limits.connections_max
                self.logger.warning("%s: refused, %d connections are the limit (connections_max)", peer, limit)
            return None
        connection = Connection(self, peer)
        self.connections[connection] = None
        return connection

    def _closed_another(self) -> bool:
        """Whether a connection was closed in favour of a new one. It is gone a moment later."""
        other = self._make_room()
        if other is None:
            return False
        self.metrics.displaced += 1
        self.warning(other.peer, "displaced", f"closed for a new one: {self.limits.connections_max} are the limit")
        other.abort()
        return True

    def not_connected(self, protocol: asyncio.BufferedProtocol) -> None:
        """An admitted connection ended before it was set up."""
        assert isinstance(protocol, Connection)
        self.release(protocol)

    def warning(self, peer: str, reason: str, what: str) -> None:
        """Log what a peer did wrong, with a back-off for each reason and host."""
        self._log_limiter.warning(self.logger, peer, reason, what, self.clock.monotonic())

    def release(self, connection: Connection) -> None:
        """A connection is gone."""
        self.connections.pop(connection, None)
        self.answers_changed()

    def check(self) -> None:
        """Close connections whose deadlines have passed, and accept again after a lack of file descriptors or memory."""
        if not self.is_closing:
            self._listener.check()
        now = self.clock.monotonic()
        for connection in list(self.connections):
            connection.check(now)

    def answers_changed(self) -> None:
        """End the wait of a close, or of `answered`, if nothing is unanswered any more."""
        if self._watch_answers is not None and not self.requests_in_progress:
            self._watch_answers.set()

    @property
    def requests_in_progress(self) -> int:
        """Requests without an answer. Those that are held are not in progress."""
        if self.is_held:
            return sum(connection.in_progress for connection in self.connections)
        return sum(connection.unanswered for connection in self.connections)

    def hold(self) -> None:
        """Handle no further requests until `resume`. Connections stay open, and those with a request are not read any further.

        Requests in progress are answered. A connection that is accepted meanwhile is held, too. At most what one read of a
        connection returns is kept in memory, and one unfinished frame.
        """
        self.is_held = True

    def resume(self) -> None:
        """Handle what was held, in the order of its arrival on each connection."""
        self.is_held = False
        for connection in list(self.connections):
            connection.resume()

    async def answered(self) -> None:
        """Wait until no request is in progress."""
        self._watch_answers = asyncio.Event()
        self.answers_changed()
        await self._watch_answers.wait()

    def stop_listening(self) -> None:
        """Take no new connections."""
        self.is_closing = True
        self._listener.stop()

    async def close(self, grace_seconds: float) -> int:
        """Take nothing new, wait for the answers under way, then close; how many connections had to be cut off.

        Requests that are held are not answered any more.
        """
        self.stop_listening()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self.answered()
        self._listener.cancel()
        cut = 0
        for connection in list(self.connections):
            if connection.in_progress if self.is_held else connection.unanswered:
                cut += 1
                connection.abort()
            else:
                connection.finish()
        if self._checker is not None:
            await self.supervisor.cancel(self._checker)
            self._checker = None
        await asyncio.sleep(0)
        return cut
