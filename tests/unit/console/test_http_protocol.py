"""Deadlines and sizes of one HTTP connection, on a loop and a transport of the test."""

import asyncio
from typing import Any

import pytest
from uvicorn.config import Config
from uvicorn.server import ServerState

from console.http import protocol
from console.http.protocol import (
    BODY_SECONDS,
    HEADER_BYTES_MAX,
    HEADER_SECONDS,
    MESSAGE_BYTES_MAX,
    UVICORN_OPTIONS,
    WRITE_SECONDS,
    GuardedProtocol,
)

GET = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
HALF = b"GET /healthz HTTP/1.1\r\nhost"


class Loop:
    """Timers that run when the test says so; tasks of the running loop."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[tuple[float, Any, Any, tuple[Any, ...]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Any, *arguments: Any) -> Any:
        class Handle:
            is_cancelled = False

            def cancel(self) -> None:
                self.is_cancelled = True

        handle = Handle()
        self._timers.append((self.now + seconds, handle, call, arguments))
        return handle

    def create_task(self, coroutine: Any) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(coroutine)

    def advance(self, seconds: float) -> None:
        until = self.now + seconds
        while due := [timer for timer in self._timers if timer[0] <= until]:
            first = min(due, key=lambda timer: timer[0])
            self._timers.remove(first)
            self.now = first[0]
            if not first[1].is_cancelled:
                first[2](*first[3])
        self.now = until


class Transport:
    """Takes what is written; `is_reading` false: the client reads nothing, so that a closing transport stays."""

    def __init__(self) -> None:
        self.written = b""
        self.is_closed = self.is_aborted = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_extra_info(self, name: str) -> Any:
        return {"peername": ("192.0.2.1", 7), "sockname": ("127.0.0.1", 80)}.get(name)


class Console:
    """An application that answers when the test lets it."""

    def __init__(self) -> None:
        self.requests = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.loop = Loop()
        self.state = ServerState()
        self.config = Config(self, ws="none", log_config=None)
        self.config.load()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.requests += 1
        while (await receive()).get("more_body", False):
            pass
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    def connect(self) -> tuple[Any, Transport]:
        protocol = GuardedProtocol(self.config, self.state, {}, self.loop)  # type: ignore[arg-type]
        transport = Transport()
        protocol.connection_made(transport)  # type: ignore[arg-type]
        return protocol, transport


async def settled() -> None:
    """All that can run has run."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def _own_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GuardedProtocol, "waiting", {})
    monkeypatch.setattr(protocol, "connections_max", lambda: 100)


async def test_a_connection_that_sends_nothing_is_closed() -> None:
    console = Console()
    _, transport = console.connect()
    console.loop.advance(HEADER_SECONDS - 1)
    assert not transport.is_closed
    console.loop.advance(1)
    assert (transport.is_closed, transport.written) == (True, b"")


async def test_headers_that_come_byte_by_byte_end_in_408() -> None:
    console = Console()
    protocol, transport = console.connect()
    for byte in HALF[: int(HEADER_SECONDS) - 1]:
        protocol.data_received(bytes([byte]))
        console.loop.advance(1)
    assert not transport.is_closed
    console.loop.advance(1)
    assert transport.is_closed
    assert transport.written.startswith(b"HTTP/1.1 408 ")
    assert console.requests == 0


@pytest.mark.parametrize("begin", [HALF, b"\r\n"])
async def test_a_further_request_has_the_same_deadline(begin: bytes) -> None:
    console = Console()
    protocol, transport = console.connect()
    protocol.data_received(GET)
    await settled()
    console.loop.advance(1)
    protocol.data_received(begin)
    console.loop.advance(HEADER_SECONDS - 1)
    assert not transport.is_closed
    console.loop.advance(1)
    assert transport.is_closed


async def test_an_idle_connection_is_closed_by_uvicorn_and_a_busy_one_by_nobody() -> None:
    console = Console()
    console.may_answer.clear()
    protocol, transport = console.connect()
    protocol.data_received(GET)
    await settled()
    console.loop.advance(10 * BODY_SECONDS)
    assert not transport.is_closed
    console.may_answer.set()
    await settled()
    assert transport.written.endswith(b"ok")
    console.loop.advance(console.config.timeout_keep_alive)
    assert transport.is_closed


@pytest.mark.parametrize("head", [b"content-length: 100", b"transfer-encoding: chunked"])
async def test_a_body_that_stops_ends_in_408(head: bytes) -> None:
    console = Console()
    protocol, transport = console.connect()
    protocol.data_received(b"POST /x HTTP/1.1\r\nhost: x\r\n" + head + b"\r\n\r\n")
    await settled()
    console.loop.advance(BODY_SECONDS - 1)
    assert not transport.is_closed
    console.loop.advance(1)
    assert transport.is_closed
    assert transport.written.startswith(b"HTTP/1.1 408 ")


async def test_the_rest_of_an_answered_request_is_not_read_without_end() -> None:
    console = Console()
    protocol, transport = console.connect()

    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 429, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    protocol.app = refuse
    protocol.data_received(b"POST /x HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
    await settled()
    for _ in range(int(BODY_SECONDS)):
        assert not transport.is_closed
        protocol.data_received(b"1\r\nx\r\n")
        console.loop.advance(1)
    assert transport.is_closed
    assert transport.written.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("line", [b"a", b"x-name: value\r\n"])
async def test_headers_of_any_size_end_in_431(line: bytes) -> None:
    console = Console()
    protocol, transport = console.connect()
    protocol.data_received(b"GET /x HTTP/1.1\r\nhost: x\r\n")
    sent = 0
    while not transport.is_closed:
        protocol.data_received(line * (4096 // len(line)))
        sent += 4096
        assert sent <= HEADER_BYTES_MAX + 8192
    assert transport.written.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    ("first", "piece"),
    [(b"", b"1;" + b"e" * 4000 + b"\r\nx\r\n"), (b"0\r\n", b"x-trailer: value\r\n" * 200)],
    ids=["extensions of chunks", "trailers"],
)
async def test_framing_and_trailers_are_counted_too(first: bytes, piece: bytes) -> None:
    console = Console()
    protocol, transport = console.connect()
    protocol.data_received(b"POST /x HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" + first)
    sent = 0
    while not transport.is_closed and sent < 2 * MESSAGE_BYTES_MAX:
        protocol.data_received(piece)
        sent += len(piece)
    assert sent <= MESSAGE_BYTES_MAX + len(piece)
    assert transport.written.startswith(b"HTTP/1.1 413 ")
    protocol.connection_lost(None)
    await settled()


async def test_an_answer_that_nobody_reads_ends_the_connection() -> None:
    console = Console()
    protocol, transport = console.connect()
    protocol.data_received(GET)
    protocol.pause_writing()
    await settled()
    console.loop.advance(WRITE_SECONDS - 1)
    assert not transport.is_aborted
    protocol.resume_writing()
    console.loop.advance(WRITE_SECONDS)
    assert not transport.is_aborted
    other, other_transport = console.connect()
    other.data_received(GET)
    other.pause_writing()
    console.loop.advance(WRITE_SECONDS)
    assert other_transport.is_aborted
    other.connection_lost(None)
    await settled()


async def test_a_closing_connection_does_not_wait_without_end_for_its_client() -> None:
    console = Console()
    protocol, transport = console.connect()
    protocol.data_received(GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
    await settled()
    assert (transport.is_closed, transport.is_aborted) == (True, False)
    console.loop.advance(WRITE_SECONDS)
    assert transport.is_aborted


async def test_at_the_limit_the_longest_wait_ends_and_requests_in_progress_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol, "connections_max", lambda: 3)
    console = Console()
    console.may_answer.clear()
    busy, busy_transport = console.connect()
    busy.data_received(GET)
    await settled()
    slow = [console.connect() for _ in range(300)]
    for connected, transport in slow:
        if not transport.is_closed:
            connected.data_received(HALF)
    assert sum(not transport.is_closed for _, transport in slow) <= 3
    for connected, transport in slow:
        if transport.is_closed:
            connected.connection_lost(None)
    good, good_transport = console.connect()
    good.data_received(GET)
    console.may_answer.set()
    await settled()
    assert good_transport.written.endswith(b"ok")
    assert busy_transport.written.endswith(b"ok")


async def test_nothing_is_kept_of_a_connection_that_ended() -> None:
    console = Console()
    protocol, _ = console.connect()
    protocol.data_received(HALF)
    protocol.connection_lost(None)
    assert (GuardedProtocol.waiting, console.state.connections) == ({}, set())
    console.loop.advance(100)


def test_uvicorn_is_started_with_it() -> None:
    assert UVICORN_OPTIONS[:2] == ("--http", f"{GuardedProtocol.__module__}:{GuardedProtocol.__name__}")


async def test_bad_requests_fill_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", "uvicorn.error")
    console = Console()
    for _ in range(20):
        protocol, transport = console.connect()
        protocol.data_received(b"no HTTP at all\r\n\r\n")
        assert transport.written.startswith(b"HTTP/1.1 400 ")
    lines = [record.getMessage() for record in caplog.records if record.name == "uvicorn.error"]
    assert len(lines) <= 1
