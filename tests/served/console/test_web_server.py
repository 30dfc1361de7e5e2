"""Anonymous clients of the console's web server, started with the options of `up`: large bodies, slow headers, many requests."""

import select
import shlex
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from asgiref.testing import ApplicationCommunicator
from django.db.backends.utils import CursorWrapper

from console.accounts.models import ApiToken
from console.asgi import application
from console.http.admission import Admission, Limits
from console.launcher.programs import Ports, programs
from tests.support.console.people import without_redis
from tests.support.manual_clock import ManualClock
from tests.support.servers.ports import free_port
from tests.support.servers.processes import Process

HALF_HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1"
SENT_BYTES_MAX = 64 << 20
"""The server refuses a body at 4 MiB. A client sends more before it sees that, as much as the buffers of both sockets hold."""
ANSWER_SECONDS = 60
SHORT_DEADLINE = "import uvicorn; from console.http import protocol; protocol.HEADER_SECONDS = 0.5; uvicorn.main()"


@contextmanager
def web_server(folder: Path, limits: str = "true", code: str = "") -> Iterator[int]:
    """The port of a console without database and Redis.

    Args:
        limits: shell command that sets limits of the process first.
        code: Python code that runs uvicorn; by default its own program.
    """
    ports = replace(Ports.choose(None), console=free_port(), redis=free_port())
    (console,) = (program for program in programs(str(folder), ports, "") if program.name == "console")
    python, *command = console.command
    assert command[:2] == ["-m", "uvicorn"]
    if code:
        command[:2] = ["-c", code]
    shell = ["bash", "-c", f"{limits}; exec {shlex.join([python, *command])}"]
    environment = {**console.environment, "QMQ_SECRET_KEY": "a key for tests only"}
    process = Process("console", shell, folder, console.ready_url, environment)
    process.start()
    try:
        yield ports.console
    finally:
        process.stop()


@contextmanager
def connected(port: int, first: bytes) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.settimeout(ANSWER_SECONDS)
        sock.sendall(first)
        yield sock


def send_until_answered(sock: socket.socket, piece: bytes) -> tuple[int, bytes]:
    """Send a body until the server answers: the bytes sent, and the beginning of the answer; b"" when there was none."""
    sent, rest = 0, b""
    while sent < SENT_BYTES_MAX:
        readable, writable, _ = select.select([sock], [sock], [], ANSWER_SECONDS)
        if readable:
            return sent, sock.recv(4096)
        assert writable, f"the server neither reads nor answers after {sent} bytes"
        rest = rest or piece
        try:
            count = sock.send(rest)
        except ConnectionResetError:
            # The server answered and closed since `select` looked; the answer is still to be read.
            return sent, sock.recv(4096)
        sent, rest = sent + count, rest[count:]
    return sent, b""


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """One server for the tests that leave it as it was."""
    with web_server(tmp_path_factory.mktemp("console")) as found:
        yield found


@pytest.mark.parametrize("path", ["/_allauth/browser/v1/auth/login", "/api/v1/subjects/"])
@pytest.mark.parametrize("framing", ["Content-Length: 3000000000", "Transfer-Encoding: chunked"])
def test_a_body_over_the_limit_is_refused_instead_of_read_to_its_end(port: int, path: str, framing: str) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{framing}\r\n\r\n"
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with connected(port, head.encode()) as sock:
        sent, answer = send_until_answered(sock, chunk)
    assert answer.startswith(b"HTTP/1.1 413 "), f"{sent} bytes were sent, and the answer is {answer!r}"


def test_a_connection_whose_headers_do_not_arrive_is_closed(tmp_path: Path) -> None:
    with web_server(tmp_path, code=SHORT_DEADLINE) as port, connected(port, HALF_HEAD) as sock:
        assert sock.recv(4096).startswith(b"HTTP/1.1 408 ")
        assert sock.recv(4096) == b""


def test_connections_without_a_whole_header_leave_room_for_others(tmp_path: Path) -> None:
    with web_server(tmp_path, limits="ulimit -n 256") as port, ExitStack() as sockets:
        for _ in range(300):
            sockets.enter_context(connected(port, HALF_HEAD))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=ANSWER_SECONDS) as answer:
            assert answer.status == 200


@pytest.mark.django_db(transaction=True)
def test_requests_with_an_invalid_token_over_the_rate_take_no_query(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = 0
    execute = CursorWrapper.execute

    def counted(self: CursorWrapper, sql: Any, params: Any = None) -> Any:
        nonlocal lookups
        lookups += ApiToken._meta.db_table in sql
        return execute(self, sql, params)

    admission = Admission(application.app, clock=ManualClock())
    headers = [(b"host", b"127.0.0.1"), (b"authorization", b"Bearer qmq_invalid")]
    scope = {
        "type": "http", "http_version": "1.1", "method": "GET", "scheme": "http", "path": "/api/v1/subjects/",
        "query_string": b"", "headers": headers, "client": ("192.0.2.1", 5),
    }  # fmt: skip

    async def statuses(count: int) -> list[int]:
        found = []
        for _ in range(count):
            request = ApplicationCommunicator(admission, scope)
            await request.send_input({"type": "http.request", "body": b"", "more_body": False})
            found.append((await request.receive_output(ANSWER_SECONDS))["status"])
            await request.wait(ANSWER_SECONDS)
        return found

    limit = Limits().unverified_per_minute
    with without_redis():
        assert async_to_sync(statuses)(1) == [401]
        monkeypatch.setattr(CursorWrapper, "execute", counted)
        assert async_to_sync(statuses)(limit + 99) == [401] * (limit - 1) + [429] * 100
    assert lookups == limit - 1, "one for each request that is not refused"
