"""Ports of tests: reserved for one process, and free for its server at every start."""

import asyncio
import errno
import socket
import subprocess
import sys

import pytest

from tests.support.servers.ports import free_port, free_ports, release
from tests.support.servers.processes import PROJECT

OTHER_PROCESS = """
import socket
from tests.support.servers.ports import free_port
reserved = {free_port() for _ in range(%d)}
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
outgoing = set()
for _ in range(%d):
    with socket.socket() as client:
        client.connect(listener.getsockname())
        outgoing.add(client.getsockname()[1])
        listener.accept()[0].close()
print(*reserved, *outgoing)
"""


async def serve_once(port: int) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port)
    async with server:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        writer.close()


async def test_a_server_listens_on_its_port_at_each_start_and_nothing_answers_in_between() -> None:
    port = free_port()
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        await serve_once(port)


def test_a_reserved_port_is_given_to_no_other_socket() -> None:
    reserved = {free_port() for _ in range(200)}
    assert len(reserved) == 200
    done = subprocess.run(
        [sys.executable, "-c", OTHER_PROCESS % (200, 2_000)], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    used = {int(port) for port in done.stdout.split()}
    assert len(used) > 200
    assert not reserved & used
    for reuse in (0, 1):
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
            other.bind(("127.0.0.1", 0))
            assert other.getsockname()[1] not in reserved


def test_consecutive_ports_are_all_reserved() -> None:
    first = free_ports(4)
    for port in range(first, first + 4):
        with socket.socket() as probe, pytest.raises(OSError) as refused:
            probe.bind(("127.0.0.1", port))
        assert refused.value.errno == errno.EADDRINUSE
    assert free_ports(4) not in range(first - 3, first + 4)


def test_a_released_port_is_free_for_every_program() -> None:
    port = free_port()
    release(port)
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
