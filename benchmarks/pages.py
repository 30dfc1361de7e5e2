"""`python -m benchmarks.pages`: what each page of the console costs the browser, with the demo's data; a table.

A whole system of its own with the demo at work in it, on this machine; each page is opened in a browser that has nothing cached.
Ends with 1 when a page exceeds a limit.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from playwright.sync_api import Browser, StorageState

from tests.support.console.browser import chromium, visit
from tests.support.console.page_load import BYTES_MAX, LAYOUT_SHIFT_MAX, REQUESTS_MAX, Meter, PageLoad
from tests.support.console.screenshots import SHOTS, Shot, demo, show
from tests.support.servers.system import WHOLE, System
from tests.support.waiting import eventually

FIRST_CONTENT_MS_MAX = 1_000.0
REST_MAX = 0.02
"""Share of a core that the main thread of a page takes while nothing is done in it."""
CALM_SECONDS = 2.0
"""Live numbers and charts follow a page's data; what moves then still counts."""
PASSWORD_VARIABLE = "QMQ_DEMO_PASSWORD"


def excesses(load: PageLoad, rest: float | None) -> list[str]:
    """The limits that a page exceeds, by column of the table."""
    return [
        name
        for name, is_over in (
            ("first content", (load.first_content_ms or 0.0) > FIRST_CONTENT_MS_MAX),
            ("CLS", load.layout_shift > LAYOUT_SHIFT_MAX),
            ("requests", load.count > REQUESTS_MAX),
            ("KB", load.bytes > BYTES_MAX),
            ("rest", rest is not None and rest > REST_MAX),
        )
        if is_over
    ]


def measure(
    browser: Browser, url: str, shot: Shot, state: StorageState | None, rest_s: float
) -> tuple[PageLoad, float | None]:
    """The cost of a page in a browser of its own, and at rest over that many seconds (0: not measured)."""
    with closing(visit(browser, url, state=state)) as one:
        meter = Meter(one.page)
        show(one, shot.path)
        one.page.wait_for_timeout(CALM_SECONDS * 1000)
        load = meter.load()
        rest = None
        if rest_s:
            began, busy = time.monotonic(), meter.main_thread_seconds()
            one.page.wait_for_timeout(rest_s * 1000)
            rest = (meter.main_thread_seconds() - busy) / (time.monotonic() - began)
        if problems := one.problems():
            raise SystemExit("\n".join((f"{shot.name}:", *problems)))
        return load, rest


def row(name: str, load: PageLoad, rest: float | None, over: list[str]) -> str:
    """A table row."""
    first = "" if load.first_content_ms is None else f"{load.first_content_ms / 1000:.2f}"
    at_rest = "" if rest is None else f"{rest * 100:.1f}"
    cells = (name, first, f"{load.layout_shift:.3f}", load.count, f"{load.bytes / 1000:.0f}", at_rest, ", ".join(over))
    return f"| {' | '.join(map(str, cells))} |"


def details(load: PageLoad) -> Iterator[str]:
    """What moved, and what was transferred."""
    for shift in load.shifts:
        yield f"    {shift.value:.4f} at {shift.at_ms:.0f} ms"
        yield from (f"        {source}" for source in shift.sources)
    for address, size in sorted(load.requests.items(), key=lambda item: -item[1]):
        yield f"    {size / 1000:7.1f} KB {address}"


@contextmanager
def demo_system() -> Iterator[tuple[str, str]]:
    """The address of a system with the demo's data, and the password of its user `demo`."""
    with (
        tempfile.TemporaryDirectory(prefix="qmq-pages-") as folder,
        System(Path(folder), **WHOLE) as system,
        demo(system) as password,
    ):
        # The alerts of the demo's data fire seconds after it, and a page that is just loaded moves for them.
        eventually(lambda: system.get("/alerts/?state=firing")["results"], "an alert of the demo fires")
        yield system.url, password


def run(url: str, password: str, shots: list[Shot], rest_s: float, has_details: bool) -> int:
    """Measure, print; the exit code."""
    is_over = False
    with chromium() as browser:
        # One sign-in for all: these are limited per minute.
        with closing(visit(browser, url)) as one:
            one.sign_in("demo", password)
            signed_in = one.state()
        print("| page | first content s | CLS | requests | KB | at rest, % of a core | over |")
        print("|---|---|---|---|---|---|---|")
        for shot in shots:
            load, rest = measure(browser, url, shot, None if shot.is_public else signed_in, rest_s)
            over = excesses(load, rest)
            is_over = is_over or bool(over)
            print(row(shot.name, load, rest, over), flush=True)
            if has_details:
                print(*details(load), sep="\n", flush=True)
    return 1 if is_over else 0


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"some pages: {', '.join(shot.name for shot in SHOTS)}"
    )
    parser.add_argument(
        "--rest", type=float, default=0.0, metavar="SECONDS", help="measure pages at rest too; 15 or more"
    )
    parser.add_argument("--details", action="store_true", help="print what moved and what was transferred")
    parser.add_argument(
        "--console",
        metavar="URL",
        help=f"a running console with the demo's data; {PASSWORD_VARIABLE} holds the password of `demo`",
    )
    given = parser.parse_args()
    if unknown := set(given.names) - {shot.name for shot in SHOTS}:
        parser.error(f"there is no page {', '.join(sorted(unknown))}")
    shots = [shot for shot in SHOTS if not given.names or shot.name in given.names]
    if given.console:
        return run(given.console, os.environ[PASSWORD_VARIABLE], shots, given.rest, given.details)
    with demo_system() as (url, password):
        return run(url, password, shots, given.rest, given.details)


if __name__ == "__main__":
    sys.exit(main())
