"""A real browser: Debian's Chromium without a window, and visits that let nothing go wrong unseen."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Response,
    StorageState,
    ViewportSize,
    WebError,
    sync_playwright,
)

from tests.support.servers.processes import PROJECT

WAIT_SECONDS = 20.0
"""How long an action or expectation waits at most, unless it is told otherwise."""
TRACE_VARIABLE = "QMQ_BROWSER_TRACE"
"""1: playwright's trace is kept of each visit, a snapshot for every step: a third more work for the machine."""
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
REBOUND_NAME = "evil.example"
"""A foreign host name that resolves to this machine, as in an attack by DNS rebinding."""
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--js-flags=--max-opt=1", "--process-per-site",
    f"--host-resolver-rules=MAP {REBOUND_NAME} 127.0.0.1",
)  # fmt: skip
AXE = PROJECT / "frontend/node_modules/axe-core/axe.min.js"
NOTHING_CHANGES = """() => document.getAnimations().every(
    one => one.playState !== "running" || one.effect?.getComputedTiming().endTime === Infinity)"""
"""True without transitions and animations that end: halfway between two colours the contrast of a text is that of no design."""
AXE_TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
SIGN_IN = "/_allauth/browser/v1"
_RESOURCE_FAILED = "Failed to load resource"
"""What Chromium's console says of each failed request; `Visit` judges the request itself."""
_SOCKET_FAILED = "WebSocket connection to "
"""The same of a websocket; that is told nowhere else."""
_NOT_OF_THE_SERVER = {"net::ERR_ABORTED", "net::ERR_NETWORK_CHANGED"}
"""A page that was left, and a change of an interface of the machine, as with a laptop that finds another network."""
_NOBODY_THERE = {"net::ERR_CONNECTION_REFUSED", "net::ERR_CONNECTION_RESET", "net::ERR_EMPTY_RESPONSE"}


class BrowserMissing(Exception):
    """There is no Chromium; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a page is told about the machine it is shown on."""

    width: int = 1440
    height: int = 900
    is_phone: bool = False
    locale: str = "en-GB"
    colour_scheme: Literal["light", "dark"] = "light"
    timezone: str = "Asia/Shanghai"


DESKTOP = Look()
PHONE = Look(width=390, height=844, is_phone=True)


class Visit:
    """One person's browser: cookies of its own, a page, and a list of what went wrong.

    Wrong is: an error on the page's console (broken rules of the Content-Security-Policy are such), an exception nobody
    caught, a request that failed, an answer of 400 and more that `expects` did not name, and one that it named and that
    never came. A request that the page itself gave up, because it left or asked anew, is none.
    """

    def __init__(self, context: BrowserContext, url: str) -> None:
        self._context = context
        self.url = url
        self._log: list[str] = []
        self._wrong: list[str] = []
        self._expected: dict[tuple[int, str], int] = {}
        self.server_errors: list[str] = []
        """Answers of 500 and more that no test expects."""
        self._is_server_away = False
        self.is_signed_in = False
        """Whether `sign_in` was called."""
        context.set_default_timeout(WAIT_SECONDS * 1000)
        context.on("console", self._on_console)
        context.on("weberror", self._on_exception)
        context.on("response", self._on_response)
        context.on("requestfailed", self._on_failure)
        self._is_traced = os.environ.get(TRACE_VARIABLE, "") == "1"
        if self._is_traced:
            context.tracing.start(snapshots=True)
        self.page: Page = context.new_page()

    # --- what a test does ------------------------------------------------------------------------------------------------

    def expects(self, status: int, path: str) -> None:
        """From now on answers with this status from this path (a glob, without the query) are no fault; one has to come."""
        self._expected.setdefault((status, path), 0)

    def allows(self, status: int, path: str) -> None:
        """As `expects`, where none may come: the page may be left before its answer is there."""
        self._expected.setdefault((status, path), 1)

    @contextmanager
    def without_server(self) -> Iterator[None]:
        """Inside, while the server is away on purpose, connections that it does not take are no fault."""
        self._is_server_away = True
        yield
        self._hear_all()
        self._is_server_away = False

    def open(self, path: str = "/") -> Page:
        """Go to a page of the console."""
        self.page.goto(f"{self.url}{path}")
        return self.page

    def sign_in(self, name: str, password: str) -> None:
        """Sign in by the JSON address, for tests that are not about signing in."""
        request = self._context.request
        request.get(f"{self.url}{SIGN_IN}/config")
        token = next(cookie["value"] for cookie in self._context.cookies() if cookie["name"] == "qmq_csrf")
        answer = request.post(
            f"{self.url}{SIGN_IN}/auth/login",
            data={"username": name, "password": password},
            headers={"X-CSRFToken": token},
        )
        assert answer.status == 200, (answer.status, answer.text())
        self.is_signed_in = True

    def state(self) -> StorageState:
        """Cookies and local storage, for a visit that is signed in from its start."""
        return self._context.storage_state()

    def axe_clean(self) -> None:
        """Fail unless the page, as it is once its colours no longer change, keeps the WCAG AA rules that axe can judge."""
        self.page.wait_for_function(NOTHING_CHANGES)
        self.page.evaluate(AXE.read_text())
        found: list[dict[str, Any]] = self.page.evaluate(
            "async tags => (await axe.run(document, {runOnly: {type: 'tag', values: tags}})).violations", AXE_TAGS
        )
        said = [
            f"{rule['id']} ({rule['impact']}): {node['target']} {node['html'][:200]}\n    {node['failureSummary']}"
            for rule in found
            for node in rule["nodes"]
        ]
        assert not said, f"axe: {len(said)} places on {self.page.url}\n" + "\n".join(said)

    # --- what went wrong -------------------------------------------------------------------------------------------------

    def problems(self) -> list[str]:
        """What went wrong so far; empty when nothing did."""
        self._hear_all()
        never = [
            f"expected {status} from {path}, which never came" for (status, path), n in self._expected.items() if not n
        ]
        return [*self._wrong, *never]

    def save(self, folder: Path) -> None:
        """Write screenshot, HTML and console of all pages into a folder, and the trace when one is kept."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, page in enumerate(self._context.pages):
            page.screenshot(path=folder / f"page{number}.png", full_page=True)
            (folder / f"page{number}.html").write_text(page.content())
        (folder / "console.log").write_text("\n".join((*self._log, "", *self._wrong, "")))
        if self._is_traced:
            self._context.tracing.stop(path=folder / "trace.zip")

    def close(self) -> None:
        """Close all pages."""
        self._context.close()

    def _hear_all(self) -> None:
        for page in self._context.pages:
            page.evaluate("1")  # a round trip: what happened before it has been told

    def _on_console(self, message: ConsoleMessage) -> None:
        place = message.location
        line = f"console {message.type}: {message.text} ({place['url']}:{place['lineNumber']})"
        self._log.append(line)
        meant = (_RESOURCE_FAILED, _SOCKET_FAILED) if self._is_server_away else (_RESOURCE_FAILED,)
        if message.type in ("error", "assert") and not message.text.startswith(meant):
            self._wrong.append(line)

    def _on_exception(self, error: WebError) -> None:
        self._wrong.append(f"exception: {error.error}")

    def _on_response(self, response: Response) -> None:
        line = f"{response.request.method} {response.url} {response.status}"
        self._log.append(line)
        if response.status < 400:
            return
        path = urlsplit(response.url).path
        for status, pattern in self._expected:
            if status == response.status and fnmatchcase(path, pattern):
                self._expected[status, pattern] += 1
                return
        self._wrong.append(line)
        if response.status >= 500:
            self.server_errors.append(line)

    def _on_failure(self, request: Request) -> None:
        line = f"{request.method} {request.url} failed: {request.failure}"
        self._log.append(line)
        ignored = _NOT_OF_THE_SERVER | _NOBODY_THERE if self._is_server_away else _NOT_OF_THE_SERVER
        if request.failure not in ignored:
            self._wrong.append(line)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A started Chromium.

    While it runs this thread has a running event loop: tests that are coroutines can't run beside it.

    Raises:
        BrowserMissing: there is none.
    """
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        raise BrowserMissing("there is no Chromium on PATH: `make services` installs Debian's (as root)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def visit(browser: Browser, url: str, look: Look = DESKTOP, *, state: StorageState | None = None) -> Visit:
    """A new visit to the console at `url`, with the cookies of another one's `state`; the caller closes it."""
    context = browser.new_context(
        storage_state=state,
        viewport=ViewportSize(width=look.width, height=look.height),
        is_mobile=look.is_phone,
        has_touch=look.is_phone,
        locale=look.locale,
        timezone_id=look.timezone,
        color_scheme=look.colour_scheme,
        reduced_motion="reduce",
        service_workers="block",
    )
    return Visit(context, url)
