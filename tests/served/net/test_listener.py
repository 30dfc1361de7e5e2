"""The socket listener: a kernel's sockets, their options, and what it does at the end of file descriptors."""

import asyncio
import errno
import resource
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from qmq.errors import ConnectionLost
from qmq.net.caller import Caller
from qmq.protocol.frames import Frame, encode_request
from qmq_node.server.connection import Connection
from qmq_node.server.listener import KEEPALIVE_SECONDS
from qmq_node.server.server import FrameServer
from qmq_node.server.server_limits import ServerLimits
from tests.support.drivers.peers import Peers
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async

MIB = 1 << 20


@asynccontextmanager
async def serving(
    handler: Callable[[Connection, Frame], None], port: int = 0, **limits: int
) -> AsyncIterator[FrameServer]:
    server = FrameServer("127.0.0.1", port, handler, clock=ManualClock(), limits=ServerLimits(**limits))
    await server.start()
    try:
        yield server
    finally:
        await server.close(0)


@asynccontextmanager
async def calling(server: FrameServer) -> AsyncIterator[Caller]:
    caller = Caller(*server.address)
    await caller.connect()
    try:
        yield caller
    finally:
        await caller.close()


def answer(connection: Connection, frame: Frame) -> None:
    connection.reply(frame, 0, b"!")


def test_both_ends_work_on_the_loop_that_uvicorn_runs_the_console_on() -> None:
    async def ask() -> bytes:
        async with (
            serving(lambda connection, frame: connection.reply(frame, 0, b"!")) as server,
            calling(server) as caller,
        ):
            return bytes((await caller.call(10, b"", timeout_s=20)).body)

    assert uvloop.run(ask()) == b"!"


async def test_a_silent_connection_is_probed_by_the_kernel() -> None:
    async with serving(lambda c, f: None) as server, calling(server):
        (connection,) = server.connections
        sock = connection._transport.get_extra_info("socket")  # type: ignore[union-attr]
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert tuple(sock.getsockopt(socket.IPPROTO_TCP, option) for option in options) == KEEPALIVE_SECONDS


async def test_a_taken_port_is_an_error_with_its_address() -> None:
    async with serving(answer) as server:
        port = server.address[1]
        with pytest.raises(OSError, match=f"127.0.0.1:{port}: Address already in use"):
            async with serving(answer, port):
                pass
    # The port is free as soon as the server is closed.
    async with serving(answer, port) as server, calling(server) as caller:
        assert bytes((await caller.call(10, timeout_s=20)).body) == b"!"


async def test_a_port_without_a_listener_is_reported_with_its_address() -> None:
    async with serving(answer) as server:
        host, port = server.address
    with pytest.raises(ConnectionLost, match=f"{host}:{port}"):
        await Caller(host, port).connect()


async def test_connections_over_the_limit_are_closed_and_the_others_are_served() -> None:
    async with (
        serving(answer, connections_max=2) as server,
        calling(server) as one,
        calling(server) as two,
        Peers(server.address) as clients,
    ):
        await eventually_async(lambda: len(server.connections) == 2)
        for _ in range(20):
            reader, _ = await clients.connect()
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        assert server.metrics.refused == 20
        for caller in (one, two):
            assert (await caller.call(10, timeout_s=20)).code == 0


async def test_a_burst_of_connections_beyond_one_turn_of_the_loop_is_accepted_whole() -> None:
    async with serving(answer) as server, Peers(server.address) as clients:
        await asyncio.gather(*(clients.connect(encode_request(10, n)) for n in range(200)))
        await eventually_async(lambda: len(server.connections) == 200)


async def test_without_file_descriptors_the_listener_pauses_and_accepts_again_after_the_next_check() -> None:
    errors: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context["exception"]))
    async with serving(answer) as server, calling(server) as caller:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        client = socket.socket()
        client.setblocking(False)
        try:
            # The client's own socket is open already; accepting it takes one more.
            resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno(), limits[1]))
            await asyncio.get_running_loop().sock_connect(client, server.address)
            await eventually_async(lambda: bool(errors))
            for _ in range(20):
                assert (await caller.call(10, timeout_s=20)).code == 0
            assert [getattr(error, "errno", 0) for error in errors] == [errno.EMFILE], "it does not try in a loop"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert len(server.connections) == 1
        server.check()
        await eventually_async(lambda: len(server.connections) == 2)
        client.close()


async def test_large_answers_to_a_peer_that_reads_slowly_arrive_whole() -> None:
    async with serving(lambda c, f: c.reply(f, 0, bytes(MIB)), answer_bytes_max=4 * MIB) as server:
        reader, writer = await asyncio.open_connection(*server.address)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"".join(encode_request(10, n) for n in range(60)))
        await eventually_async(lambda: server.metrics.paused == 1)
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        for n in range(60):
            head = await reader.readexactly(24)
            assert int.from_bytes(head[14:18], "big") == n
            await reader.readexactly(MIB)
        writer.close()


async def test_a_bound_server_refuses_connections_until_it_starts() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()
    server = FrameServer(*address, answer, clock=ManualClock())
    await server.bind()
    with pytest.raises(ConnectionLost, match="connection refused"):
        await Caller(*address).connect()
    other = FrameServer("127.0.0.1", address[1], answer, clock=ManualClock())
    await other.bind()
    await server.start()
    with pytest.raises(OSError, match=f"127.0.0.1:{address[1]}: Address already in use"):
        await other.start()
    await other.close(0)
    assert server.address == address
    async with calling(server) as caller:
        assert (await caller.call(10, timeout_s=20)).code == 0
    await server.close(0)


async def test_a_server_that_was_only_bound_releases_its_address() -> None:
    server = FrameServer("127.0.0.1", 0, answer, clock=ManualClock())
    await server.bind()
    _, port = server.address
    await server.close(0)
    async with serving(answer, port) as again:
        assert again.address[1] == port


async def test_a_free_port_that_was_bound_is_not_given_to_another_process_and_can_be_bound_again() -> None:
    server = FrameServer("127.0.0.1", 0, answer, clock=ManualClock(), limits=ServerLimits())
    await server.bind()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            other.bind(server.address)
    await server.start()
    port = server.address[1]
    async with calling(server) as caller:
        await caller.call(10, b"", timeout_s=20)
        # The server ends its connections first, and these keep the port for a minute.
        await server.close(0)
    async with serving(answer, port):
        pass
