"""The errors of `http_get` when a server does not return an HTTP response."""

import asyncio

import pytest

from qmq.errors import ConnectionLost, Unreachable
from qmq.net.discovery import http_get


async def answer_of(data: bytes) -> tuple[int, bytes]:
    """Return the result of `http_get` from a server that sends `data` and closes the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        return await http_get(f"http://{host}:{port}/stats", timeout_s=30.0)


async def test_a_connection_that_is_closed_without_a_response_is_not_taken_for_another_protocol() -> None:
    with pytest.raises(Unreachable) as caught:
        await answer_of(b"")
    assert caught.value.reason == "connection closed without a response"


async def test_another_protocol_is_named_as_such() -> None:
    with pytest.raises(ConnectionLost, match=r"/stats does not respond with HTTP$"):
        await answer_of(b"SSH-2.0-OpenSSH_9.2\r\n")


async def test_a_response_is_returned() -> None:
    assert await answer_of(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok") == (200, b"ok")
