"""Callers by role, and a webhook's receiver."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from console.accounts.models import ApiToken, User
from console.accounts.roles import Role, Scope
from console.accounts.tokens import new_token
from metaserver.services.changes import Actor

ACTOR = Actor("ada", "192.0.2.1", "request-1")


@pytest.fixture(autouse=True)
def no_redis(settings: Any) -> None:
    """Rate limits count in this process: Redis is not the subject here."""
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}


@pytest.fixture
def caller(db: None) -> Callable[[Role], APIClient]:
    """Makes a client that asks with a token of a user of a role."""

    def make(role: Role) -> APIClient:
        user = User.objects.create(username=f"{role}-user", role=role)
        token, prefix, digest = new_token()
        ApiToken.objects.create(
            name="test", owner=user, prefix=prefix, digest=digest, scopes=[Scope.ADMIN, Scope.OPERATE],
            expires_at=timezone.now() + timedelta(hours=1),
        )  # fmt: skip
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        return client

    return make


@pytest.fixture
def viewer(caller: Callable[[Role], APIClient]) -> APIClient:
    return caller(Role.VIEWER)


@pytest.fixture
def operator(caller: Callable[[Role], APIClient]) -> APIClient:
    return caller(Role.OPERATOR)


@pytest.fixture
def admin(caller: Callable[[Role], APIClient]) -> APIClient:
    return caller(Role.ADMIN)


class Receiver:
    """A real HTTP server that keeps what it was sent and answers what it is told to."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.raw: bytes | None = None
        """Sent instead of an answer, and then nothing until `released`."""
        self.released = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append((self.path, dict(self.headers), body))
                if receiver.raw is not None:
                    self.wfile.write(receiver.raw)
                    receiver.released.wait(20)
                    return
                self.send_response(receiver.status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(b"x" * 100_000)

            do_GET = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                """Tests are quiet."""

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                """The sender hangs up once it knows the status: nothing to report."""

        self._server = Server(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?key=hidden"

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, _, body in self.requests]

    def stop(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    """Its network is allowed."""
    settings.WEBHOOK_NETWORKS = ["127.0.0.0/8"]
    running = Receiver()
    try:
        yield running
    finally:
        running.stop()
