"""The console's page and its files: which addresses, which headers, under ASGI; no database is asked for any of it."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from asgiref.testing import ApplicationCommunicator
from django.test import Client

from console.asgi import application
from tests.served.frontend.builds import SCRIPT, put_build

pytestmark = pytest.mark.usefixtures("build")
FILE = "/static/assets/main-Ab12Cd34.js"
PAGES = [
    "/",
    "/sign-in",
    "/sign-in?error=provider_away",
    "/subjects",
    "/subjects/order.paid/groups/a/b",
    "/nothing",
    "/apiary",
]
NO_PAGES = [
    "/api", "/api/", "/api/v1", "/api/v1/nothing/", "/api/v2/subjects/", "/static", "/static/", "/static/nothing.js",
    "/static/assets/main-00000000.js", "/static/index.html", "/static/.vite/manifest.json", "/static/assets/../index.html",
    "/ws/lag/", "/metrics/nothing", "/healthz/", "/favicon.ico", "/robots.txt", "/accounts/nothing/", "/_allauth/nothing",
]  # fmt: skip


@pytest.mark.parametrize("path", PAGES)
def test_every_address_of_a_page_answers_the_page(path: str) -> None:
    answer = Client().get(path)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-store"
    assert b"<p>first" in answer.content
    assert answer.cookies["qmq_csrf"]["samesite"] == "Lax"


@pytest.mark.parametrize("path", NO_PAGES)
def test_what_is_unknown_elsewhere_is_a_problem(path: str) -> None:
    answer = Client().get(path)
    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["code"] == "request.not_found"


def test_an_api_address_without_its_slash_is_sent_to_the_one_with_it() -> None:
    answer = Client().get("/api/v1/subjects")
    assert (answer.status_code, answer.headers["Location"]) == (301, "/api/v1/subjects/")


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_a_change_without_the_slash_is_not_redirected(method: str) -> None:
    """Clients repeat a redirected POST as a GET: 200, and nothing was created."""
    answer = getattr(Client(), method)("/api/v1/subjects", {"name": "a"}, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (404, "request.not_found")
    assert "Use /api/v1/subjects/ with a slash" in answer.json()["detail"]
    assert "Use" not in Client().post("/api/v1/nothing").json()["detail"]


def test_styles_need_the_nonce_of_this_very_answer() -> None:
    nonces = set()
    for _ in range(3):
        answer = Client().get("/")
        policy = answer.headers["Content-Security-Policy"]
        found = re.search(r"style-src 'self' 'nonce-([\w-]{22,})';", policy)
        assert found
        assert f'<meta name="csp-nonce" content="{found[1]}">' in answer.text
        assert policy.count("nonce") == 1, "scripts have none: they are files"
        nonces.add(found[1])
    assert len(nonces) == 3


def test_the_policy_of_pages() -> None:
    policy = Client().get("/").headers["Content-Security-Policy"]
    parts = dict(part.strip().split(" ", 1) for part in re.sub("'nonce-[^']*'", "'nonce'", policy).split(";"))
    assert parts == {
        "default-src": "'self'", "script-src": "'self'", "style-src": "'self' 'nonce'", "img-src": "'self' data:",
        "font-src": "'self'", "connect-src": "'self'", "object-src": "'none'", "base-uri": "'self'",
        "form-action": "'self'", "frame-ancestors": "'none'",
    }  # fmt: skip


def test_pages_are_only_looked_at() -> None:
    assert Client().head("/subjects").status_code == 200
    answer = Client().post("/subjects")
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert Client(enforce_csrf_checks=True).post("/subjects").status_code == 403


def test_the_csrf_cookie_stays_the_same() -> None:
    browser = Client()
    first = browser.get("/").cookies["qmq_csrf"].value
    browser.get("/subjects")
    assert browser.cookies["qmq_csrf"].value == first


def test_hashed_files_are_kept_for_ever() -> None:
    answer = Client().get(FILE)
    assert answer.status_code == 200
    assert answer.content == SCRIPT
    assert answer.headers["Content-Type"] == 'text/javascript; charset="utf-8"'
    assert answer.headers["Cache-Control"] == "max-age=315360000, public, immutable"
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert not {"Content-Security-Policy", "Permissions-Policy", "Referrer-Policy"} & set(answer.headers), (
        "of documents"
    )
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert not answer.cookies


def test_others_for_an_hour() -> None:
    answer = Client().get("/static/favicon.svg")
    assert (answer.status_code, answer.headers["Cache-Control"]) == (200, "max-age=3600, public")
    assert answer.headers["Content-Type"] == "image/svg+xml"
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'"), "it may be opened as a page"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("accepted", "encoding", "suffix"),
    [("gzip, deflate, br, zstd", "br", ".br"), ("gzip", "gzip", ".gz"), ("deflate", None, ""), ("", None, "")],
)
def test_what_was_compressed_is_handed_out(build: Path, accepted: str, encoding: str | None, suffix: str) -> None:
    answer = Client().get(FILE, headers={"Accept-Encoding": accepted})
    content = (build / f"assets/main-Ab12Cd34.js{suffix}").read_bytes()
    assert answer.headers.get("Content-Encoding") == encoding
    assert answer.content == content
    assert answer.headers["Content-Length"] == str(len(content))


def test_files_are_asked_for_again_by_their_tag() -> None:
    tag = Client().get(FILE).headers["ETag"]
    answer = Client().get(FILE, headers={"If-None-Match": tag})
    assert (answer.status_code, answer.content) == (304, b"")
    assert Client().get(FILE, headers={"If-None-Match": '"other"'}).status_code == 200


def test_parts_and_heads_of_files() -> None:
    answer = Client().get(FILE, headers={"Range": "bytes=0-6"})
    assert (answer.status_code, answer.content) == (206, b"console")
    answer = Client().head(FILE)
    assert (answer.status_code, answer.content, answer.headers["Content-Length"]) == (200, b"", str(len(SCRIPT)))
    assert Client().get(FILE, headers={"Range": "bytes=999999-"}).status_code == 416
    assert Client().post(FILE).status_code == 405


def test_another_build_is_served_from_then_on(build: Path) -> None:
    browser = Client()
    assert browser.get(FILE).status_code == 200
    put_build(build, "main-Zz98Yy76.js", "second")
    assert b"<p>second" in browser.get("/").content
    assert browser.get("/static/assets/main-Zz98Yy76.js").status_code == 200
    assert browser.get(FILE).status_code == 404


def test_a_file_that_goes_under_our_hands_is_not_found(build: Path) -> None:
    browser = Client()
    assert browser.get(FILE).status_code == 200
    (build / "assets/main-Ab12Cd34.js").unlink()
    assert browser.get(FILE).status_code == 404


def test_without_a_build_the_page_says_what_to_run(tmp_path: Path, settings: Any) -> None:
    settings.FRONTEND_DIR = tmp_path / "elsewhere"
    answer = Client().get("/subjects")
    assert answer.status_code == 503
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.text == "The console's pages are not built: run `make frontend` in the project's folder.\n"
    assert Client().get(FILE).status_code == 404
    assert Client().get("/healthz").status_code == 200


async def ask(path: str, *headers: tuple[bytes, bytes], method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    """One request to the ASGI application: status, headers, body."""
    scope = {
        "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": path, "raw_path": path.encode(),
        "query_string": b"", "root_path": "", "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
        "headers": [(b"host", b"localhost"), *headers],
    }  # fmt: skip
    caller = ApplicationCommunicator(application, scope)
    await caller.send_input({"type": "http.request", "body": b"", "more_body": False})
    start = await caller.receive_output(10)
    body, more = b"", True
    while more:
        part = await caller.receive_output(10)
        body, more = body + part["body"], part.get("more_body", False)
    await caller.wait(10)
    return start["status"], {name.decode(): value.decode() for name, value in start["headers"]}, body


async def test_asgi_serves_files_and_pages_without_a_warning() -> None:
    # Warnings are errors here, so that one about an iterator would fail this.
    status, headers, body = await ask(FILE)
    assert (status, headers["Content-Length"], body) == (200, str(len(SCRIPT)), SCRIPT)
    status, headers, body = await ask(FILE, (b"if-none-match", headers["ETag"].encode()))
    assert (status, body) == (304, b"")
    status, _, body = await ask(FILE, (b"range", b"bytes=0-6"))
    assert (status, body) == (206, b"console")
    status, _, body = await ask(FILE, method="HEAD")
    assert (status, body) == (200, b"")
    status, headers, body = await ask("/subjects")
    assert (status, headers["Cache-Control"]) == (200, "no-store")
    assert b"<p>first" in body


async def test_many_at_once_under_asgi() -> None:
    answers = await asyncio.gather(*(ask(FILE) for _ in range(50)))
    assert {(status, body) for status, _, body in answers} == {(200, SCRIPT)}
