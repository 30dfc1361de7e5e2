"""What the simulated network promises of TCP connections, and what it does in each kind of weather."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from qmq.errors import ConnectionLost
from spark_analytics.source.node_reader import find_nodes
from tests.sim.world.loop import Process, running_loop
from tests.sim.world.network import KEEPALIVE_SECONDS, KERNEL_BYTES, LATENCY_SECONDS, READ_BYTES, RETRY_SECONDS, Network
from tests.support.drivers.in_process import blocking

LATEST = LATENCY_SECONDS[1]


class Peer(asyncio.Protocol):
    """Records what happens to it, with the time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.data = b""
        self.sizes: list[int] = []
        self.ended_at: float | None = None
        self.error: BaseException | None = None
        self.has_eof = False
        self.is_half_open = False
        self.pauses = self.resumes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.sizes.append(len(data))

    def eof_received(self) -> bool:
        self.has_eof = True
        return self.is_half_open

    def pause_writing(self) -> None:
        self.pauses += 1

    def resume_writing(self) -> None:
        self.resumes += 1

    def connection_lost(self, exc: BaseException | None) -> None:
        self.ended_at, self.error = running_loop().time(), exc


class Pair:
    """Host `a` is connected to a server on host `b`."""

    def __init__(self) -> None:
        self.loop = running_loop()
        self.network: Network = self.loop.network
        self.a, self.b = Process(self.loop, "a"), Process(self.loop, "b")
        self.accepted: list[Peer] = []
        self.port = 0

    async def serve(self, port: int = 0) -> None:
        def accept() -> Peer:
            self.accepted.append(Peer())
            return self.accepted[-1]

        server = await self.b.start(self.loop.create_server(accept, "127.0.0.1", port))
        self.port = server.sockets[0].getsockname()[1]

    async def connect(self) -> tuple[Peer, Peer]:
        """The peers of `a` and of `b`."""
        _, client = await self.a.start(self.loop.create_connection(Peer, "127.0.0.1", self.port))
        await asyncio.sleep(0.01)
        return client, self.accepted[-1]


async def pair() -> tuple[Pair, Peer, Peer]:
    found = Pair()
    await found.serve()
    return found, *await found.connect()


async def test_bytes_arrive_in_order_after_a_latency_and_know_their_addresses() -> None:
    found, client, server = await pair()
    began = found.loop.time()
    for n in range(200):
        client.transport.write(b"%03d" % n)
    assert server.data == b""
    await asyncio.sleep(LATENCY_SECONDS[0] / 2)
    assert server.data == b""
    await asyncio.sleep(LATEST)
    assert server.data == b"".join(b"%03d" % n for n in range(200))
    assert found.loop.time() - began < 0.001
    for one, other in ((client, server), (server, client)):
        assert one.transport.get_extra_info("peername") == other.transport.get_extra_info("sockname")
    assert client.transport.get_extra_info("peername") == ("127.0.0.1", found.port)


async def test_a_writer_is_paused_until_the_reader_reads() -> None:
    _found, client, server = await pair()
    server.transport.pause_reading()
    data = bytes(range(256)) * 8192
    client.transport.write(data)
    assert client.pauses == 1
    await asyncio.sleep(60)
    assert (client.resumes, server.data) == (0, b"")
    assert client.transport.get_write_buffer_size() == len(data) - KERNEL_BYTES
    server.transport.resume_reading()
    await asyncio.sleep(1)
    assert (client.pauses, client.resumes) == (1, 1)
    assert server.data == data
    assert max(server.sizes) <= READ_BYTES


async def test_many_bytes_to_a_reader_of_small_pieces_take_few_packets() -> None:
    class Small(asyncio.BufferedProtocol):
        received = 0

        def get_buffer(self, sizehint: int) -> bytearray:
            self.buffer = bytearray(1000)
            return self.buffer

        def buffer_updated(self, nbytes: int) -> None:
            self.received += nbytes

    found = Pair()
    small: list[Small] = []

    def accept() -> Small:
        small.append(Small())
        return small[-1]

    server = await found.b.start(found.loop.create_server(accept, "127.0.0.1", 0))
    found.port = server.sockets[0].getsockname()[1]
    _, client = await found.a.start(found.loop.create_connection(Peer, "127.0.0.1", found.port))
    before = found.loop.events
    client.transport.write(bytes(4 << 20))
    await asyncio.sleep(5)
    assert small[0].received == 4 << 20
    assert found.loop.events - before < 200


async def test_a_close_delivers_what_was_written_and_both_sides_end() -> None:
    _found, client, server = await pair()
    client.transport.write(bytes(1 << 20))
    client.transport.close()
    client.transport.write(b"too late")
    await asyncio.sleep(1)
    assert (len(server.data), server.has_eof, server.error, client.error) == (1 << 20, True, None, None)
    assert None not in (client.ended_at, server.ended_at)
    assert _found.network.connections() == []


async def test_after_the_end_of_one_direction_the_other_still_works() -> None:
    _found, client, server = await pair()
    server.is_half_open = True
    client.transport.write(b"all")
    client.transport.write_eof()
    await asyncio.sleep(0.1)
    assert (server.data, server.has_eof, server.ended_at) == (b"all", True, None)
    server.transport.write(b"answer")
    server.transport.close()
    await asyncio.sleep(0.1)
    assert client.data == b"answer"
    assert client.has_eof


async def test_eof_follows_bytes_that_the_transport_still_holds() -> None:
    _found, client, server = await pair()
    server.transport.pause_reading()
    client.transport.write(bytes(1 << 20))
    client.transport.write_eof()
    await asyncio.sleep(1)
    server.transport.resume_reading()
    await asyncio.sleep(1)
    assert (len(server.data), server.has_eof) == (1 << 20, True)


async def test_a_connection_closed_with_unread_bytes_is_reset() -> None:
    _found, client, server = await pair()
    server.transport.pause_reading()
    client.transport.write(b"never read")
    await asyncio.sleep(0.1)
    server.transport.close()
    await asyncio.sleep(0.1)
    assert isinstance(client.error, ConnectionResetError)


async def test_a_port_without_a_listener_refuses_and_a_taken_one_can_not_be_bound() -> None:
    found = Pair()
    await found.serve()
    with pytest.raises(OSError, match="Address already in use"):
        await found.serve(found.port)
    found.b.kill()
    found.network.process_killed(found.b)
    with pytest.raises(ConnectionRefusedError):
        await found.connect()
    found.b = Process(found.loop, "b")
    await found.serve(found.port)
    await found.connect()


@pytest.mark.parametrize("one_way", [False, True])
async def test_a_cut_stops_one_or_both_directions_and_what_was_sent_arrives_after_its_end(one_way: bool) -> None:
    found, client, server = await pair()
    found.network.cut("a", "b", one_way=one_way)
    client.transport.write(b"from a")
    server.transport.write(b"from b")
    await asyncio.sleep(30)
    assert (server.data, client.data) == (b"", b"from b" if one_way else b"")
    found.network.heal()
    await asyncio.sleep(RETRY_SECONDS[0] / 2)
    assert server.data == b""
    await asyncio.sleep(RETRY_SECONDS[1])
    assert (server.data, client.data) == (b"from a", b"from b")
    assert (client.ended_at, server.ended_at) == (None, None)


async def test_a_long_cut_ends_the_connections_at_both_ends_by_keepalive() -> None:
    found, client, server = await pair()
    began = found.loop.time()
    found.network.cut("a", "b")
    await asyncio.sleep(KEEPALIVE_SECONDS * 2)
    for peer in (client, server):
        assert isinstance(peer.error, TimeoutError)
        assert peer.ended_at == began + KEEPALIVE_SECONDS
    assert found.network.connections() == []


async def test_an_attempt_to_connect_during_a_cut_succeeds_after_it() -> None:
    found = Pair()
    await found.serve()
    found.network.cut("a", "b")
    connecting = asyncio.ensure_future(found.connect())
    await asyncio.sleep(20)
    assert not connecting.done()
    found.network.heal()
    await asyncio.sleep(2)
    assert connecting.done()


async def test_a_killed_process_closes_its_connections_after_what_it_sent() -> None:
    found, client, server = await pair()
    server.transport.write(b"last words")
    found.b.kill()
    found.network.process_killed(found.b)
    await asyncio.sleep(0.1)
    assert (client.data, client.has_eof) == (b"last words", True)
    assert server.ended_at is None, "no code of a killed process runs"
    assert found.network.connections() == []


async def test_a_power_cut_leaves_the_other_end_half_open_until_it_sends() -> None:
    found, client, _server = await pair()
    found.b.kill()
    found.network.power_off("b")
    await asyncio.sleep(10)
    assert client.ended_at is None
    found.network.power_on("b")
    await asyncio.sleep(10)
    assert client.ended_at is None, "the host is back and does not know the connection"
    client.transport.write(b"still there?")
    await asyncio.sleep(0.1)
    assert isinstance(client.error, ConnectionResetError)


async def test_a_reset_reaches_one_end_at_once_and_the_other_when_it_is_told() -> None:
    found, client, server = await pair()
    end = next(end for end in found.network.connections() if end.host == "b")
    found.network.reset(end, both=False)
    await asyncio.sleep(1)
    assert isinstance(server.error, ConnectionResetError)
    assert client.ended_at is None
    client.transport.write(b"x")
    await asyncio.sleep(0.1)
    assert isinstance(client.error, ConnectionResetError)


async def test_a_slow_path_adds_to_the_latency_of_both_directions() -> None:
    found, client, server = await pair()
    found.network.slow_down("a", "b", 2.0)
    client.transport.write(b"slow")
    server.transport.write(b"slow")
    await asyncio.sleep(1.99)
    assert (client.data, server.data) == (b"", b"")
    await asyncio.sleep(0.02)
    assert (client.data, server.data) == (b"slow", b"slow")


async def test_a_paused_process_still_receives_in_its_kernel_and_handles_it_later() -> None:
    found, client, server = await pair()
    found.b.pause()
    client.transport.write(b"request")
    await asyncio.sleep(30)
    assert (server.data, client.ended_at) == (b"", None)
    found.b.resume()
    await asyncio.sleep(0.1)
    assert server.data == b"request"


async def test_a_blocking_http_client_reads_from_a_server_in_virtual_time() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(3)
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    began = running_loop().time()
    ask: Callable[[], Any] = lambda: find_nodes(f"http://{host}:{port}/meta/address")  # noqa: E731
    with pytest.raises(ConnectionLost):
        await blocking(ask)
    assert running_loop().time() - began == pytest.approx(3, abs=0.1)
