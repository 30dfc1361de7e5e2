"""A real server that closes while a connection is being accepted, as when a member steps down and its process continues."""

import asyncio
import socket
from contextlib import suppress

import pytest

from tests.sim.net.pages import Pages, serving
from tests.support.manual_clock import ManualClock


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_is_being_accepted_while_the_server_closes_ends(turns: int) -> None:
    async with serving(Pages(), ManualClock()) as server:
        with socket.create_connection(server.address) as peer:
            peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.close()
            peer.setblocking(False)
            with suppress(ConnectionResetError):
                while await asyncio.get_running_loop().sock_recv(peer, 1 << 16):
                    pass
