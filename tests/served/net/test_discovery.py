"""The errors of `http_get` when a server does not return an HTTP response."""

import asyncio

import pytest

from qmq.errors import ConnectionLost, Unreachable
from qmq.net.discovery import CLOSED_ATTEMPTS_MAX, http_get, http_post_json

RESPONSE = b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"


async def answers_of(*answers: bytes, method: str = "GET") -> tuple[tuple[int, bytes], int]:
    """Return the result of a request to a server that sends these answers, one to each connection, and closes it; and the number
    of connections. Further connections are closed without an answer."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers[connections - 1] if connections <= len(answers) else b"")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        url = f"http://{host}:{port}/stats"
        try:
            request = http_get(url, timeout_s=30.0) if method == "GET" else http_post_json(url, b"{}", timeout_s=30.0)
            return await request, connections
        except ConnectionLost as error:
            error.add_note(str(connections))
            raise


async def test_a_connection_that_is_closed_without_a_response_is_not_taken_for_another_protocol() -> None:
    with pytest.raises(Unreachable) as caught:
        await answers_of()
    assert caught.value.reason == "connection closed without a response"
    assert caught.value.__notes__ == [str(CLOSED_ATTEMPTS_MAX)]


async def test_a_get_is_sent_again_to_a_server_that_made_room_for_others() -> None:
    assert await answers_of(b"", b"", RESPONSE) == ((200, b"ok"), 3)


async def test_a_change_is_not_sent_again() -> None:
    with pytest.raises(Unreachable) as caught:
        await answers_of(b"", RESPONSE, method="POST")
    assert caught.value.__notes__ == ["1"]


async def test_another_protocol_is_named_as_such() -> None:
    with pytest.raises(ConnectionLost, match=r"/stats does not respond with HTTP"):
        await answers_of(b"SSH-2.0-OpenSSH_9.2\r\n")


async def test_a_response_is_returned() -> None:
    assert await answers_of(RESPONSE) == ((200, b"ok"), 1)
