"""A receiver of webhooks, and who changes rules."""

import json
import re
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from metaserver.services.changes import Actor
from tests.support.servers.processes import PROJECT

ACTOR = Actor("ada", "192.0.2.1", "request-1")


def documented_body() -> dict[str, Any]:
    """The example of docs/alerts.md: an alert that fires."""
    (example,) = re.findall(r"^```json\n(.*?)^```", (PROJECT / "docs/alerts.md").read_text(), re.S | re.M)
    found: dict[str, Any] = json.loads(example)
    return found


class Receiver:
    """A real HTTP server that records its requests and sends the answer that a test has set."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body = b"x" * 100_000
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
                self.wfile.write(receiver.body)

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
