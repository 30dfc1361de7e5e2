"""`python -m benchmarks.console`: how smoothly lists of 10,000 subjects and 20,000 groups scroll in Chromium; a table.

A real uvicorn over SQLite in a folder of its own and the built pages (`make frontend`). Frames are what
`requestAnimationFrame` tells; a machine that is busy otherwise shows that too.
"""

import argparse
import tempfile
from contextlib import closing
from pathlib import Path

from playwright.sync_api import Page

from tests.support.console.browser import chromium, visit
from tests.support.console.large_console import VIEWER, large_console
from tests.support.console.password import PASSWORD

LIST_SECONDS_MAX = 120.0
ROWS_MAX = 20_000
"""As many as a list shows, as `ui/table/types.ts` has it."""
GROUPS_OF_ONE = 5
"""Consumer groups of each subject, as `tests.support.console.large` makes them."""
ROUGH_MS = 50.0
"""A frame that took longer is seen as a jerk."""

_SCROLL = """async ({by, all}) => {
    const table = document.querySelector(".table-scroll");
    const frame = () => new Promise(requestAnimationFrame);
    const frames = [];
    let last = await frame();
    for (;;) {
        table.scrollBy({top: by});
        const now = await frame();
        frames.push(now - last);
        last = now;
        const isEnd = Math.abs(table.scrollTop) + table.clientHeight >= table.scrollHeight - 1;
        const rows = Number(document.querySelector("[data-rows]").dataset.rows);
        if (by < 0 ? table.scrollTop <= 0 : isEnd && rows >= all) return frames;
    }
}"""
_TYPE = """async ({text, rows}) => {
    const began = performance.now();
    const field = document.querySelector("[data-filter=search]");
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
    set.call(field, text);
    field.dispatchEvent(new Event("input", {bubbles: true}));
    while (document.querySelector("[data-rows]").dataset.rows !== rows) await new Promise(requestAnimationFrame);
    return performance.now() - began;
}"""


def row(name: str, frames: list[float]) -> str:
    """A table row."""
    found = sorted(frames)
    p50, p99 = found[len(found) // 2], found[min(len(found) - 1, int(len(found) * 0.99))]
    rough = sum(frame > ROUGH_MS for frame in found)
    return f"| {name} | {len(found)} | {p50:.0f} | {p99:.0f} | {found[-1]:.0f} | {rough} |"


def scroll(page: Page, what: str, rows: int) -> None:
    """Scroll a list down and up, slowly and fast; prints."""
    page.locator("tr[data-row]").first.wait_for()
    print(
        f"| {rows} {what} | frames | p50 ms | p99 ms | longest ms | over {ROUGH_MS:g} ms |\n|---|---|---|---|---|---|"
    )
    for name, by in (
        ("down, 400 px a frame, loading", 400),
        ("up, 2,000 px a frame", -2_000),
        ("down, 2,000 px a frame", 2_000),
    ):
        print(row(name, page.evaluate(_SCROLL, {"by": by, "all": rows})), flush=True)


def filter_subjects(page: Page) -> None:
    """Limit the list of subjects to 100 of them; prints."""
    took = page.evaluate(_TYPE, {"text": "subject00", "rows": "100"})
    print(f"\nfiltered to 100 rows, {took:.0f} ms after the last key (250 of them are waited for another key)\n")


def run(folder: Path, subjects: int) -> None:
    """Fill a database, serve it, measure."""
    with large_console(folder, subjects) as console, chromium() as browser, closing(visit(browser, console.url)) as one:
        one.sign_in(VIEWER.name, PASSWORD)
        one.page.set_default_timeout(LIST_SECONDS_MAX * 1000)
        scroll(one.open("/subjects?limit=all"), "subjects", subjects)
        filter_subjects(one.page)
        scroll(one.open("/groups?limit=all&ordering=subject"), "groups", min(ROWS_MAX, GROUPS_OF_ONE * subjects))
        if wrong := one.problems():
            raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--subjects", type=int, default=10_000, help="up to 20,000, as many as a list shows; 1,000 at least"
    )
    with tempfile.TemporaryDirectory() as place:
        run(Path(place), parser.parse_args().subjects)
