"""How commands reach the console: no redirect and no web proxy gets the token unasked."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from qmq.cli import console, main
from qmq.errors import ConnectionLost, QmqError


class Recorder(ThreadingHTTPServer):
    """Answers all requests the same, and keeps what it got."""

    def __init__(self, status: int, location: str = "") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.location, self.problem = status, location, dict[str, object]()
        self.requests: list[tuple[str, str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Recorder

    def do_GET(self) -> None:
        self.server.requests.append((self.command, self.path, self.headers["Authorization"]))
        self.rfile.read(int(self.headers["Content-Length"] or 0))
        body = json.dumps(
            {
                "results": [],
                "next": None,
                "before": {},
                "after": {},
                "notes": [{"code": "", "values": {}, "text": "A\x1b[2J\nforged"}],
                **self.server.problem,
            }
        ).encode()
        self.send_response(self.server.status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_GET

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def recorder(status: int = 200, location: str = "") -> Iterator[Recorder]:
    with Recorder(status, location) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("QMQ_TOKEN", "qmq_SECRET")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("command", [["list"], ["switch-over", "g1"]])
def test_a_redirect_is_not_followed(status: int, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with recorder() as other, recorder(status, f"{other.url}/api/v1/broker-groups/") as first:
        assert main(["broker-groups", *command, "--console", first.url]) == 1
        assert (len(first.requests), other.requests) == (1, [])
    error = capsys.readouterr().err
    assert "redirects are not followed" in error
    assert f"use URL {other.url} (--console or QMQ_CONSOLE)" in error


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1.2.3", "[::1]", "console.localhost"])
def test_a_web_proxy_is_not_used_for_this_machine(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with recorder() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        with pytest.raises(QmqError) as caught:
            console.call(f"http://{host}:1", "qmq_SECRET", "GET", "broker-groups/")
        assert "proxy" not in str(caught.value)
        assert proxy.requests == []


def test_a_web_proxy_that_is_used_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with recorder() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//user:password@"))
        assert main(["broker-groups", "list", "--console", "http://console.invalid:8000"]) == 0
        assert [path for _, path, _ in proxy.requests] == ["http://console.invalid:8000/api/v1/broker-groups/"]
        error = capsys.readouterr().err
        assert (
            f"console.invalid:8000 is requested through the web proxy {proxy.url.removeprefix('http://')} of http_proxy"
            in error
        )
        assert "password" not in error
        monkeypatch.setenv("no_proxy", "console.invalid")
        with pytest.raises(ConnectionLost):
            console.call("http://console.invalid:8000", "qmq_SECRET", "GET", "broker-groups/")
        assert len(proxy.requests) == 1


def test_texts_of_a_console_act_on_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with recorder() as server:
        assert main(["broker-groups", "switch-over", "g1", "--console", server.url]) == 0
    assert capsys.readouterr().out == "nothing changed\nA\\x1b[2J\\x0aforged\n"


def test_each_problem_of_a_document_has_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = tmp_path / "document.yaml"
    document.write_text("subjects: [a]")
    fields = {"subject a": "tags: wrong", "subject b": "A\nforged", "the document": "and 3 more; correct these first"}
    with recorder(400) as server:
        server.problem = {"code": "apply.invalid", "detail": "all in one text", "fields": fields}
        assert main(["apply", "-f", str(document), "--console", server.url]) == 1
        assert capsys.readouterr() == (
            "",
            "qmq: subject a: tags: wrong\nqmq: subject b: A\\x0aforged\nqmq: the document: and 3 more; correct these first\n"
            "qmq: nothing was changed\n",
        )
        server.problem = {"code": "access.denied", "detail": "one text", "fields": {}}
        assert main(["apply", "-f", str(document), "--console", server.url]) == 1
        assert capsys.readouterr().err == "qmq: one text\n"
