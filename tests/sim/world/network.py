"""A simulated network: TCP connections between hosts, with latency, cuts, stalls, resets and forgotten connections.

Addresses are 127.0.0.1 and a port; which host a port belongs to follows from the process that listens on it. A connection has two
ends; each end's bytes travel in a direction of their own, in order. As a kernel does, the network takes bytes of a process that is
paused or killed a moment later, and refuses or answers for it.
"""

import asyncio
import errno
import math
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any

from qmq.supervisor import Supervisor
from qmq_node.server.listener import Acceptor
from tests.sim.world.loop import Process, SimulatedLoop, current_process, running_loop

LATENCY_SECONDS = (0.00005, 0.0005)
"""A packet's shortest and longest way."""
KERNEL_BYTES = 128 << 10
"""Bytes of one direction that kernels hold between the two processes; more waits in the sender's transport."""
READ_BYTES = 256 << 10
"""Bytes that one read returns at most."""
RETRY_SECONDS = (0.2, 1.0)
"""After a cut ends, TCP sends again after so long."""
SYN_SECONDS = 1.0
"""How often an unanswered attempt to connect is repeated."""
KEEPALIVE_SECONDS = 60.0
"""An accepted connection whose peer answers nothing for so long is closed (`qmq_node.server.listener.KEEPALIVE_SECONDS`)."""
SPLIT_CHANCE = 0.05
"""How often the receiver reads a part of a piece first."""
FIRST_PORT = 30_000
TEST_HOST = "test"
"""The host of code that belongs to no process."""
EOF_MARK = b""

Piece = bytes | memoryview
MakeProtocol = Callable[[], asyncio.BaseProtocol]
Accept = Callable[[str], asyncio.BaseProtocol | None]


def _host() -> str:
    process = current_process()
    return TEST_HOST if process is None else process.host


class Direction:
    """Bytes on their way from one end to the other."""

    def __init__(self, network: "Network", number: int, source: "End", target: "End") -> None:
        self._network = network
        self._number = number
        self.source, self.target = source, target
        self._queue: deque[tuple[float, Piece]] = deque()
        self._is_scheduled = False
        self.not_before = 0.0
        self.in_flight = 0
        """Bytes sent and not read by the target's process."""

    def send(self, data: Piece) -> None:
        """Bytes, or EOF_MARK, leave the source."""
        network = self._network
        at = max(self.not_before, network.loop.now + network.latency(self.source.host, self.target.host))
        at += len(data) / network.bandwidth(self.source.host, self.target.host)
        self.not_before = at
        self.in_flight += len(data)
        self._queue.append((at, data))
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled and self._queue:
            self._is_scheduled = True
            loop = self._network.loop
            loop.call_at(max(loop.now, self._queue[0][0]), self._arrive, context=self._network.context)

    def retry(self, delay: float) -> None:
        """A cut has ended: what waits arrives after a delay."""
        if self._queue:
            self.not_before = max(self.not_before, self._network.loop.now + delay)
            self._queue = deque((max(at, self._network.loop.now + delay), data) for at, data in self._queue)
            self._schedule()

    def _arrive(self) -> None:
        self._is_scheduled = False
        if not self._queue:
            return
        if self._network.is_cut(self.source.host, self.target.host):
            self._network.waits_for_heal(self)
            return
        _, data = self._queue.popleft()
        resets = self._network.resets
        if resets is not None and data and resets(self.source.host, self.target.host):
            self._network.reset(self.target)
            return
        self._schedule()
        self._network.loop.record(self.source.host, self.target.host, self._number, len(data))
        self.target.received(data)

    def clear(self) -> None:
        """Drop what is on its way."""
        self._queue.clear()


class End(asyncio.Transport):
    """One end of a connection: the transport of its process's protocol."""

    def __init__(
        self, network: "Network", host: str, context: Context, name: tuple[str, int], peer: tuple[str, int]
    ) -> None:
        super().__init__()
        self._network = network
        self._loop = network.loop
        self.host = host
        self._context = context
        self._name, self._peer_name = name, peer
        self.out: Direction
        self.incoming: Direction
        self._protocol: asyncio.BaseProtocol | None = None
        self._inbox: deque[Piece] = deque()
        self._is_reading = True
        self._read_scheduled = False
        self._buffer: deque[memoryview] = deque()
        """Written, and not taken by the kernel."""
        self._buffer_bytes = 0
        self._high, self._low = 64 << 10, 16 << 10
        self._is_writing_paused = False
        self._is_closing = False
        self._wants_eof = self._eof_sent = False
        self._was_made = False
        self.is_gone = False
        """The kernel knows nothing of it any more."""
        self._is_lost = False
        """Its protocol was informed of the end, or will not be because its process is dead."""

    # --- the kernel's side -----------------------------------------------------------------------------------------

    @property
    def peer(self) -> "End":
        return self.out.target

    def attach(self, protocol: asyncio.BaseProtocol) -> None:
        """Accepted, or connected: the process has the connection now."""
        self._protocol = protocol
        self._was_made = True
        protocol.connection_made(self)
        self._read_soon()

    def received(self, data: Piece) -> None:
        """A piece has arrived."""
        if self.is_gone:
            # The kernel answers with RST to what it does not know.
            self._network.answer_reset(self)
            return
        self._inbox.append(data)
        self._read_soon()

    def reset(self, error: OSError) -> None:
        """The kernel learned that the connection has ended."""
        if not self.is_gone:
            self.is_gone = True
            self._network.forget(self)
            self._loop.call_soon(self._lose, error, context=self._context)

    def vanish(self) -> None:
        """The process, or the whole host, is gone: nothing is called any more."""
        self.is_gone = self._is_lost = True
        self._buffer.clear()
        self._inbox.clear()
        self._network.forget(self)

    @property
    def has_unread(self) -> bool:
        """Whether bytes have arrived that the process did not read."""
        return any(self._inbox)

    def _read_soon(self) -> None:
        if not self._read_scheduled and self._inbox and self._is_reading and self._was_made and not self._is_lost:
            self._read_scheduled = True
            self._loop.call_soon(self._read, context=self._context)

    def _read(self) -> None:
        self._read_scheduled = False
        if self._is_lost or self._is_closing or not self._is_reading or not self._inbox:
            return
        room = READ_BYTES
        if isinstance(self._protocol, asyncio.BufferedProtocol) and self._inbox[0]:
            buffer = memoryview(self._protocol.get_buffer(-1))
            room = min(room, len(buffer))
            data = self._take(room)
            buffer[: len(data)] = data
            self._consumed(len(data))
            self._protocol.buffer_updated(len(data))
        elif self._inbox[0]:
            data = self._take(room)
            self._consumed(len(data))
            self._protocol.data_received(data)  # type: ignore[union-attr]
        else:
            self._inbox.popleft()
            if not self._protocol.eof_received():  # type: ignore[union-attr]
                self.close()
        self._read_soon()

    def _take(self, room: int) -> bytes:
        """Up to `room` bytes, of several pieces if need be, as a read takes them."""
        parts: list[Piece] = []
        while room and self._inbox and self._inbox[0]:
            piece = self._inbox.popleft()
            if len(piece) > room:
                self._inbox.appendleft(piece[room:])
                piece = piece[:room]
            parts.append(piece)
            room -= len(piece)
        return b"".join(parts)

    def _consumed(self, size: int) -> None:
        self.incoming.in_flight -= size
        source = self.incoming.source
        if source._buffer and not source.is_gone:
            self._loop.call_soon(source._flush, context=self._network.context)

    def _flush(self) -> None:
        """Give the kernel what it takes."""
        while self._buffer and not self.is_gone:
            room = KERNEL_BYTES - self.out.in_flight
            # As TCP avoids silly windows: else each small read of the peer would make a small packet.
            if room < min(self._buffer_bytes, KERNEL_BYTES // 2):
                break
            piece = self._buffer.popleft()
            if len(piece) > room:
                self._buffer.appendleft(piece[room:])
                piece = piece[:room]
            self._buffer_bytes -= len(piece)
            for part in self._network.segments(piece):
                self.out.send(part)
        if not self._buffer and self._is_closing:
            self._end_soon()
        elif not self._buffer and self._wants_eof:
            self._send_eof()
        if self._is_writing_paused and self._buffer_bytes <= self._low:
            self._loop.call_soon(self._resume_writing, context=self._context)

    def _resume_writing(self) -> None:
        if (
            self._is_writing_paused
            and self._buffer_bytes <= self._low
            and not self._is_lost
            and self._protocol is not None
        ):
            self._is_writing_paused = False
            self._protocol.resume_writing()

    def _end_soon(self) -> None:
        """Closed, and everything written is with the kernel."""
        if not self.has_unread:
            self._send_eof()
        self._loop.call_soon(self._lose, None, context=self._context)

    def _send_eof(self) -> None:
        if not self._eof_sent and not self.is_gone:
            self._eof_sent = True
            self.out.send(EOF_MARK)

    def _lose(self, error: BaseException | None) -> None:
        if self._is_lost:
            return
        self._is_lost = self._is_closing = True
        self._buffer.clear()
        self._buffer_bytes = 0
        if not self.is_gone:
            if self.has_unread:
                self._network.answer_reset(self)
            self.is_gone = True
            self._network.forget(self)
        if self._protocol is not None and self._was_made:
            self._protocol.connection_lost(error)  # type: ignore[arg-type]

    # --- the protocol's side ---------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": self._peer_name, "sockname": self._name}.get(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return self._is_reading and not self._is_closing

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._read_soon()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 << 10 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return self._buffer_bytes

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or self._is_lost or self._wants_eof or not data:
            return
        # A view: what the kernel does not take yet is not copied again with each piece that it takes.
        self._buffer.append(memoryview(bytes(data)))
        self._buffer_bytes += len(data)
        self._flush()
        if not self._is_writing_paused and self._buffer_bytes > self._high and self._protocol is not None:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._wants_eof = True
        self._flush()

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            if not self._buffer:
                self._end_soon()

    def abort(self) -> None:
        if not self._is_lost:
            self._is_closing = True
            self._buffer.clear()
            self._buffer_bytes = 0
            self._end_soon()


class _Socket:
    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def fileno(self) -> int:
        return self._address[1]


class Server(asyncio.AbstractServer):
    """A listening socket."""

    def __init__(self, network: "Network", address: tuple[str, int], accept: Accept) -> None:
        self._network = network
        self.address = address
        self.accept = accept
        self.host = _host()
        self.process: Process | None = current_process()
        self.context = copy_context()
        self.sockets = [_Socket(address)]
        self.listens = True
        """Otherwise its port is taken, and connections are refused."""

    def close(self) -> None:
        self._network.stop_serving(self)

    async def wait_closed(self) -> None:
        pass

    def is_serving(self) -> bool:
        return self._network.servers.get(self.address[1]) is self

    async def start_serving(self) -> None:
        pass


class Network:
    """All connections of one run."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        loop.network = self
        self.context = Context()
        """What the network does by itself belongs to no process."""
        self._rng = loop.rng("network")
        self.servers: dict[int, Server] = {}
        self.split_chance = SPLIT_CHANCE
        self._port = FIRST_PORT
        self._numbers = 0
        self._ends: dict[End, None] = {}
        self._cuts: dict[tuple[str, str], None] = {}
        self._blocked: dict[Direction, None] = {}
        self._slow: dict[tuple[str, str], float] = {}
        self._bandwidths: dict[tuple[str, str], float] = {}
        self.resets: Callable[[str, str], bool] | None = None
        """Whether the connection of bytes that are about to arrive from one host at another is reset instead."""
        self._hosts: dict[int, str] = {}
        """By port: the host that listened there last."""
        self._dark: dict[str, None] = {}
        """Hosts without power: they answer nothing."""

    # --- weather ---------------------------------------------------------------------------------------------------

    def latency(self, source: str, target: str) -> float:
        """Seconds of one packet's way."""
        low, high = LATENCY_SECONDS
        return low + self._rng.random() * (high - low) + self._slow.get((source, target), 0.0)

    def bandwidth(self, source: str, target: str) -> float:
        """Bytes a second of one connection's direction."""
        return self._bandwidths.get((source, target), math.inf)

    def segments(self, data: memoryview) -> list[memoryview]:
        """The pieces in which bytes arrive: sometimes the receiver reads a part first."""
        if len(data) > 1 and self._rng.random() < self.split_chance:
            at = self._rng.randrange(1, len(data))
            return [data[:at], data[at:]]
        return [data]

    def is_cut(self, source: str, target: str) -> bool:
        """Whether packets from one host do not reach another."""
        return (source, target) in self._cuts or source in self._dark or target in self._dark

    def cut(self, source: str, target: str, *, one_way: bool = False) -> None:
        """Lose every packet from `source` to `target`, and back unless `one_way`, until `heal`."""
        self._cuts[source, target] = None
        if not one_way:
            self._cuts[target, source] = None
        for end in list(self._ends):
            if (end.host, end.peer.host) in ((source, target), (target, source)):
                self._keep_alive(end)

    def heal(self) -> None:
        """End all cuts and slowness."""
        self._cuts.clear()
        self._slow.clear()
        self._bandwidths.clear()
        self._retry_blocked()

    def mend(self, one: str, other: str) -> None:
        """End the cut between two hosts."""
        self._cuts.pop((one, other), None)
        self._cuts.pop((other, one), None)
        self._retry_blocked()

    def slow_down(self, source: str, target: str, seconds: float) -> None:
        """Add to the latency of both directions, until `heal`."""
        self._slow[source, target] = self._slow[target, source] = seconds

    @property
    def is_slow(self) -> bool:
        """Whether packets of some hosts take longer than usual."""
        return bool(self._bandwidths) or any(self._slow.values())

    def limit(self, source: str, target: str, bytes_per_second: float) -> None:
        """Give each connection of two hosts so much bandwidth in both directions, until `heal`."""
        self._bandwidths[source, target] = self._bandwidths[target, source] = bytes_per_second

    def power_off(self, host: str) -> None:
        """The host answers nothing, and its connections are unknown to it when it is back."""
        self._dark[host] = None
        self._vanish(host, None)

    def power_on(self, host: str) -> None:
        """The host answers again."""
        self._dark.pop(host, None)
        self._retry_blocked()

    def reset(self, end: End, *, both: bool = True) -> None:
        """End a connection: this end gets ECONNRESET. The other one too, or it learns by what it sends next."""
        end.reset(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
        end.out.clear()
        if both:
            self.answer_reset(end)

    def process_killed(self, process: Process) -> None:
        """The kernel closes all of a process's sockets; what it had taken is still delivered."""
        self._vanish(process.host, process)

    def _vanish(self, host: str, process: Process | None) -> None:
        """`process` None: everything of the host, without a packet."""
        for server in [server for server in self.servers.values() if server.host == host]:
            self.stop_serving(server)
        for end in [end for end in self._ends if end.host == host]:
            if process is not None:
                if end.has_unread:
                    self.answer_reset(end)
                else:
                    end._send_eof()
            else:
                end.out.clear()
            end.vanish()

    def connections(self) -> list[End]:
        """The ends of all connections; of each connection, both while both know of it."""
        return list(self._ends)

    def _keep_alive(self, end: End) -> None:
        self.loop.call_later(KEEPALIVE_SECONDS, self._probe, end, context=self.context)

    def _probe(self, end: End) -> None:
        is_silent = self.is_cut(end.host, end.peer.host) or self.is_cut(end.peer.host, end.host)
        if not end.is_gone and (is_silent or end.peer.is_gone):
            end.reset(TimeoutError(errno.ETIMEDOUT, "Connection timed out"))

    def waits_for_heal(self, direction: Direction) -> None:
        """It has something to deliver and is cut."""
        self._blocked[direction] = None

    def _retry_blocked(self) -> None:
        blocked, self._blocked = self._blocked, {}
        for direction in blocked:
            direction.retry(self._rng.uniform(*RETRY_SECONDS))

    # --- connections -----------------------------------------------------------------------------------------------

    def serve(self, host: str, port: int, accept: Accept) -> Server:
        """Listen. Raises OSError when the port is taken."""
        if not port:
            port = self._next_port()
        if port in self.servers:
            raise OSError(errno.EADDRINUSE, f"{host}:{port}: Address already in use")
        server = self.servers[port] = Server(self, (host, port), accept)
        return server

    def stop_serving(self, server: Server) -> None:
        """The port is free again."""
        if self.servers.get(server.address[1]) is server:
            del self.servers[server.address[1]]

    def _next_port(self) -> int:
        self._port += 1
        return self._port

    async def connect(self, make: MakeProtocol, host: str, port: int) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect to a listening port. Raises OSError."""
        source, target = _host(), self._host_of(port)
        while True:
            await asyncio.sleep(2 * self.latency(source, target))
            if not self.is_cut(source, target) and not self.is_cut(target, source):
                break
            await asyncio.sleep(SYN_SECONDS)
        server = self.servers.get(port)
        if server is None or not server.listens:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed ({host!r}, {port})")
        mine = (host, self._next_port())
        client = End(self, source, copy_context(), mine, server.address)
        accepted = End(self, server.host, server.context, server.address, mine)
        self._numbers += 1
        client.out = accepted.incoming = Direction(self, 2 * self._numbers, client, accepted)
        accepted.out = client.incoming = Direction(self, 2 * self._numbers + 1, accepted, client)
        self._ends[client] = self._ends[accepted] = None
        self.loop.call_soon(self._accept, server, accepted, context=server.context)
        protocol = make()
        client.attach(protocol)
        return client, protocol

    def _host_of(self, port: int) -> str:
        server = self.servers.get(port)
        if server is not None:
            self._hosts[port] = server.host
        return self._hosts.get(port, TEST_HOST)

    def _accept(self, server: Server, end: End) -> None:
        protocol = None if end.is_gone or not server.is_serving() else server.accept("{}:{}".format(*end._peer_name))
        if protocol is None:
            self.answer_reset(end)
            end.vanish()
        else:
            end.attach(protocol)

    def answer_reset(self, end: End) -> None:
        """Send RST to the other end, which may be unreachable."""
        peer = end.peer
        if not peer.is_gone and not self.is_cut(end.host, peer.host):
            error = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
            # Not before what was sent earlier.
            at = max(self.loop.now + self.latency(end.host, peer.host), end.out.not_before)
            self.loop.call_at(at, peer.reset, error, context=self.context)

    def forget(self, end: End) -> None:
        """The kernel dropped this end. The other one may not learn of it before it probes."""
        self._ends.pop(end, None)
        if not end.peer.is_gone:
            self._keep_alive(end.peer)


class SimulatedListener:
    """In the place of `qmq_node.server.listener.SocketListener`."""

    def __init__(self, host: str, port: int, acceptor: Acceptor, supervisor: Supervisor) -> None:
        self._host, self._port = host, port
        self._acceptor = acceptor
        self._server: Server | None = None

    async def bind(self) -> None:
        self._server = running_loop().network.serve(self._host, self._port, self._acceptor.admit)
        self._server.listens = False

    async def start(self) -> None:
        if self._server is None:
            await self.bind()
        assert self._server is not None
        self._server.listens = True

    @property
    def address(self) -> tuple[str, int]:
        assert self._server is not None
        return self._server.address

    def check(self) -> None:
        pass

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()

    def cancel(self) -> None:
        pass
