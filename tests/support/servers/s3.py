"""An S3 server (moto) in a process of its own, also one that knows no conditional writes.

In a thread of the test it would not answer: `deltalake` waits for some answers without letting other threads run.

    python -m tests.support.servers.s3      prints its port, and ends with its standard input
"""

import logging
import subprocess
import sys
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from tests.support.servers.processes import PROJECT

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

CONTROL = "/-/"
CONDITION = "HTTP_IF_NONE_MATCH"
WHOLE, REFUSES, IGNORES, LOSES = "whole", "refuses", "ignores", "loses"
"""What it does with a conditional write: as Amazon's S3, answers 501, writes without condition, lets another writer be
first (once)."""
HIDES = "hides"
"""It answers 403 to reads."""
OTHERS_COMMIT = b'{"commitInfo":{"engineInfo":"another writer"}}\n'


@dataclass(frozen=True)
class S3Server:
    """A running server."""

    url: str

    def set_mode(self, mode: str) -> None:
        """What it does with conditional writes from now on."""
        self._put(f"{CONTROL}{mode}")

    def make_bucket(self, name: str) -> None:
        """Make a bucket."""
        self._put(f"/{name}")

    def environment(self) -> dict[str, str]:
        """Variables with which libraries find it."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }

    def _put(self, path: str) -> None:
        urllib.request.urlopen(urllib.request.Request(self.url + path, method="PUT"), timeout=60).close()


@contextmanager
def running_s3() -> Iterator[S3Server]:
    """A server on a free port of this machine."""
    command = [sys.executable, "-m", "tests.support.servers.s3"]
    with subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield S3Server(f"http://127.0.0.1:{int(process.stdout.readline())}")
        finally:
            process.kill()


def main() -> None:
    """Serve until standard input ends."""
    import threading

    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    s3 = DomainDispatcherApplication(create_backend_app)
    mode = WHOLE

    def refusal(status: str, code: str, start: "StartResponse") -> Iterable[bytes]:
        start(status, [("Content-Type", "application/xml")])
        return [f"<Error><Code>{code}</Code><Message>{status}</Message></Error>".encode()]

    def serve(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        nonlocal mode
        path = environ["PATH_INFO"]
        if path.startswith(CONTROL):
            mode = path.removeprefix(CONTROL)
            start("204 No Content", [])
            return []
        if mode == HIDES and environ["REQUEST_METHOD"] == "GET":
            return refusal("403 Forbidden", "AccessDenied", start)
        if CONDITION in environ and environ["REQUEST_METHOD"] == "PUT":
            if mode == REFUSES:
                environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
                return refusal("501 Not Implemented", "NotImplemented", start)
            if mode == LOSES:
                mode = WHOLE
                other = dict(environ) | {
                    "wsgi.input": BytesIO(OTHERS_COMMIT),
                    "CONTENT_LENGTH": str(len(OTHERS_COMMIT)),
                }
                kept = ("CONTENT_", "HTTP_X_AMZ_CONTENT", "HTTP_X_AMZ_CHECKSUM", CONDITION)
                other = {k: v for k, v in other.items() if k == "CONTENT_LENGTH" or not k.startswith(kept)}
                b"".join(s3(other, lambda *_: lambda _: None))
            elif mode == IGNORES:
                del environ[CONDITION]
        found: Any = s3(environ, start)
        return found  # type: ignore[no-any-return]

    server = make_server("127.0.0.1", 0, serve, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
