"""Where a server's connections come from: class Listener, and SocketListener, which accepts them from a TCP socket.

A server asks its listener for nothing else, so that a simulated network can replace the socket.
"""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Protocol

from qmq.supervisor import Supervisor

BACKLOG = 1024
"""Connections that the kernel keeps until they are accepted."""
ACCEPTS_IN_A_ROW = 32
"""New connections of one turn of the loop."""
KEEPALIVE_SECONDS = (30, 10, 3)
"""A connection that is silent for 30 s is probed each 10 s, and closed after 3 probes without an answer: a peer whose host or
network is gone would otherwise be treated as alive until its lease ends."""
OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

logger = logging.getLogger("qmq.net")


class Acceptor(Protocol):
    """Decides about each new connection: the server that a listener works for."""

    def admit(self, peer: str) -> asyncio.BufferedProtocol | None:
        """The protocol of a new connection from `host:port`; None: close it at once."""

    def not_connected(self, protocol: asyncio.BufferedProtocol) -> None:
        """An admitted connection ended before `connection_made`."""


class Listener(Protocol):
    """Accepts connections for one acceptor."""

    async def bind(self) -> None:
        """Choose the port, so that `address` is known; connections are refused until `start`.

        Raises OSError when another process listens there. One that has only bound the port too is noticed by `start`.
        """

    async def start(self) -> None:
        """Bind, unless `bind` was called, and listen. Raises OSError when the address is taken."""

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens; the real port after port 0."""

    def check(self) -> None:
        """Accept again after a lack of file descriptors or memory; called periodically."""

    def stop(self) -> None:
        """Take no new connections."""

    def cancel(self) -> None:
        """End admitted connections that are not set up yet."""


MakeListener = Callable[[str, int, Acceptor, Supervisor], Listener]
"""Makes a listener for host and port, not started."""


class SocketListener:
    """Accepts from a TCP socket.

    asyncio's own server would hold each connection that there is no room for open for four turns of the loop: a burst of them would
    use up the file descriptors that log and indexes need. Here it is closed at once.
    """

    def __init__(self, host: str, port: int, acceptor: Acceptor, supervisor: Supervisor) -> None:
        self._host = host
        self._port = port
        self._acceptor = acceptor
        self._supervisor = supervisor
        self._socket: socket.socket | None = None
        self._joining: dict[asyncio.Task[None], None] = {}
        self._is_listening = self._is_accepting = False

    async def bind(self) -> None:
        self._loop = asyncio.get_running_loop()
        addresses = await self._loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = addresses[0]
        sock = socket.socket(family, kind, protocol)
        try:
            if self._port:
                _reuse_address(sock)
            sock.bind(address)
        except OSError as error:
            sock.close()
            raise self._named(error) from error
        sock.setblocking(False)
        self._socket = sock

    async def start(self) -> None:
        if self._socket is None:
            await self.bind()
        assert self._socket is not None
        try:
            self._socket.listen(BACKLOG)
            # Not before for a port that the kernel chose: until then it would give the port to others that bind any free one.
            _reuse_address(self._socket)
        except OSError as error:
            raise self._named(error) from error
        self._is_listening = True
        self.check()

    def _named(self, error: OSError) -> OSError:
        return OSError(error.errno, f"{self._host}:{self._port}: {error.strerror}")

    @property
    def address(self) -> tuple[str, int]:
        assert self._socket is not None
        host, port = self._socket.getsockname()[:2]
        return str(host), int(port)

    def check(self) -> None:
        if not self._is_accepting and self._is_listening and self._socket is not None and self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket.fileno(), self._accept)
            self._is_accepting = True

    def stop(self) -> None:
        if self._socket is not None and self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._is_listening = False

    def cancel(self) -> None:
        for task in self._joining:
            task.cancel()

    def _accept(self) -> None:
        assert self._socket is not None
        for _ in range(ACCEPTS_IN_A_ROW):
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._loop.call_exception_handler({"message": "a connection can't be accepted", "exception": error})
                if error.errno in OUT_OF_RESOURCES:
                    # The socket stays readable: without a pause this would spin. The next check resumes.
                    self._loop.remove_reader(self._socket.fileno())
                    self._is_accepting = False
                return
            connection = self._acceptor.admit(f"{address[0]}:{address[1]}")
            if connection is None:
                sock.close()
                continue
            sock.setblocking(False)
            _keep_alive(sock)
            task = self._supervisor.background("connection_setup", self._join(connection, sock))
            self._joining[task] = None
            task.add_done_callback(partial(self._joined, connection, sock))

    async def _join(self, connection: asyncio.BufferedProtocol, sock: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: connection, sock)
        except OSError as error:
            sock.close()
            self._acceptor.not_connected(connection)
            logger.warning("a new connection failed: %s", error)

    def _joined(self, connection: asyncio.BufferedProtocol, sock: socket.socket, task: "asyncio.Task[None]") -> None:
        self._joining.pop(task, None)
        if task.cancelled() or task.exception() is not None:
            sock.close()
            self._acceptor.not_connected(connection)


def _keep_alive(sock: socket.socket) -> None:
    idle, interval, probes = KEEPALIVE_SECONDS
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, probes)


def _reuse_address(sock: socket.socket) -> None:
    """Let a later process bind the port while connections of this one wait for their end (TIME_WAIT)."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
