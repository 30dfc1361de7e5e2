"""Limits of admin HTTP connections: a server, and clients that break each limit (F-9, F-1)."""

import asyncio
import json
import logging

import pytest

from qmq.net.discovery import http_get
from qmq.net.http_auth import RequestSigner
from qmq.net.node_secret import NodeSecret
from qmq_node.admin.http_guard import GuardedConnection, HttpGuard, HttpLimits
from tests.sim.net.pages import Pages, serving
from tests.support.drivers.peers import Peers
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async


async def ends(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


async def status(clients: Peers, request: bytes = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n") -> bytes:
    reader, _ = await clients.connect(request)
    return (await reader.readline()).split(b" ")[1]


async def test_a_request_that_does_not_arrive_in_time_is_cut_off() -> None:
    clock, pages = ManualClock(), Pages()
    body = json.dumps({"name": "a"}).encode()
    head = (
        b"POST /change HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % len(body)
    )
    async with serving(pages, clock, request_seconds=10) as server, Peers(server.address) as clients:
        silent = await clients.connect()
        half_head = await clients.connect(head[:30])
        half_body = await clients.connect(head + body[:4])
        whole = await clients.connect(head + body)
        assert (await whole[0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        await eventually_async(lambda: len(server.guard.open) == 4)
        clock.advance(9)
        server.guard.check()
        assert len(server.guard.open) == 4
        clock.advance(1)
        server.guard.check()
        assert [await ends(reader) for reader, _ in (silent, half_head, half_body)] == [True] * 3
        assert server.guard.cut == {"slow_request": 3}
        # The fourth is idle, and its next request has its own time.
        await whole[0].readuntil(b"{}")
        whole[1].write(head)
        await eventually_async(lambda: any(c.expects_since is not None for c in server.guard.open.values()))
        clock.advance(9)
        server.guard.check()
        whole[1].write(body)
        assert (await whole[0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert pages.changes == ["a", "a"]


async def test_only_so_many_connections_are_open() -> None:
    async with serving(Pages(), ManualClock(), connections_max=3) as server, Peers(server.address) as clients:
        others = [await clients.connect() for _ in range(3)]
        await eventually_async(lambda: len(server.guard.open) == 3)
        for connection in server.guard.open.values():
            connection.has_proof = True
        reader, _ = await clients.connect()
        assert await ends(reader)
        assert server.guard.cut == {"too_many": 1}
        others.pop()[1].close()
        await eventually_async(lambda: len(server.guard.open) == 2)
        assert await status(clients) == b"200"


async def test_connections_without_a_proof_make_room_for_others() -> None:
    secret = NodeSecret.parse("secret-of-the-tests-0123456789abcdef", "x")
    signer, metrics = RequestSigner(secret), "GET /metrics HTTP/1.1\r\nHost: localhost\r\n{}\r\n"
    async with serving(Pages(), ManualClock(), secret, connections_max=3) as server, Peers(server.address) as clients:
        host, port = server.address
        await http_get(f"http://{host}:{port}/large", timeout_s=20, signer=signer)
        await eventually_async(lambda: not server.guard.open)
        proof = f"Authorization: {signer.header(f'{host}:{port}', 'GET', '/metrics', b'')}\r\n"
        member = await clients.connect(metrics.format(proof).encode())
        assert (await member[0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        strangers = [await clients.connect() for _ in range(2)]
        await eventually_async(lambda: len(server.guard.open) == 3)
        # One whose request is answered, but without a proof, is a stranger too.
        for number in range(5):
            assert await status(clients) == b"200"
            await eventually_async(lambda number=number: server.guard.cut == {"displaced": number + 1})
            assert len(server.guard.open) == 3
        assert [await ends(reader) for reader, _ in strangers] == [True] * 2
        assert not member[0].at_eof()


async def test_requests_without_a_proof_are_handled_at_a_limited_rate() -> None:
    guard = HttpGuard(ManualClock(), logging.getLogger("test"), HttpLimits(requests_per_second=10, requests_burst=5))
    loop, protocol = asyncio.get_running_loop(), asyncio.Protocol()
    guard.open[protocol] = GuardedConnection(guard, protocol)
    began = loop.time()

    async def handled_after() -> float:
        assert await guard.pace(protocol)
        return loop.time() - began

    # The burst at once, the others one after the other.
    expected = [0.0] * 5 + [n / 10 for n in range(1, 21)]
    assert await asyncio.gather(*(handled_after() for _ in range(25))) == pytest.approx(expected)


async def test_requests_whose_client_has_left_take_no_turn() -> None:
    """Clients that start together give up and ask again: what they gave up would let all of them wait ever longer."""
    ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with (
        serving(Pages(), ManualClock(), requests_per_second=1, requests_burst=1) as server,
        Peers(server.address) as clients,
    ):
        left = [await clients.connect(ask) for _ in range(100)]
        await eventually_async(lambda: len(server.guard.open) == len(left))
        for _, writer in left:
            writer.close()
        await eventually_async(lambda: not server.guard.open)
        began = asyncio.get_running_loop().time()
        assert await status(clients) == b"200"
        assert asyncio.get_running_loop().time() - began < 10


async def test_signed_requests_do_not_wait_for_others() -> None:
    secret = NodeSecret.parse("secret-of-the-tests-0123456789abcdef", "x")
    signer = RequestSigner(secret)
    async with serving(Pages(), ManualClock(), secret, requests_per_second=0.001, requests_burst=3) as server:
        url = "http://{}:{}/large".format(*server.address)
        for _ in range(5):
            assert (await http_get(url, timeout_s=20, signer=signer))[0] == 200


async def test_bad_requests_are_counted_and_logged_once_for_each_host(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Pages(), ManualClock()) as server, Peers(server.address) as clients:
        for n in range(20):
            assert await status(clients, b"GET /%d \x00\r\n\r\n" % n) == b"400"
        assert server.guard.bad_requests == 20
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "127.0.0.1:0: bad HTTP request (bad_request)")
    ]


async def test_peers_that_do_not_read_are_cut_off() -> None:
    clock = ManualClock()
    ask = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with serving(Pages(), clock, stall_seconds=20) as server, Peers(server.address) as clients:
        reader, _ = await clients.connect(ask)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        await eventually_async(lambda: server.guard.unread_bytes > 0)
        clock.advance(19)
        server.guard.check()
        assert len(server.guard.open) == 1
        clock.advance(1)
        server.guard.check()
        await eventually_async(lambda: len(server.guard.open) == 0)
        assert server.guard.cut == {"not_reading": 1}
        assert server.guard.unread_bytes == 0


async def test_unread_answers_of_all_connections_are_limited() -> None:
    """30 clients that did not read a page of 8 MiB would hold 240 MB."""
    ask = b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with serving(Pages(), ManualClock(), unread_bytes_max=12 << 20) as server, Peers(server.address) as clients:
        for n in range(30):
            reader, _ = await clients.connect(ask)
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            await eventually_async(lambda n=n: server.guard.cut.total() + len(server.guard.open) == n + 1)
            await eventually_async(lambda: all(c.stalled_since is not None for c in server.guard.open.values()))
            assert server.guard.unread_bytes <= 12 << 20
        assert set(server.guard.cut) == {"unread"}
        assert await status(clients) == b"200"


async def test_metrics_are_built_once_for_requests_at_the_same_time() -> None:
    pages = Pages()
    ask = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with serving(pages, ManualClock()) as server, Peers(server.address) as clients:
        assert await asyncio.gather(*(status(clients, ask) for _ in range(10))) == [b"200"] * 10
        assert pages.metrics_built == 1
