"""A list of thousands (ten thousand in `make e2e`), scrolled as a whole. `python -m benchmarks.console` measures how smoothly."""

import os
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from tests.served.e2e.pages import Inside
from tests.support.console.browser import PHONE, Visit
from tests.support.console.large_console import VIEWER, large_console
from tests.support.servers.system import System

SUBJECTS = 10_000 if os.environ.get("QMQ_STORIES") == "full" else 2_000
LAST = f"subject{SUBJECTS - 1:04}"
DRAWN_MAX = 100
"""Lines of the table at any time."""
LOADED_MS = 60_000
STEP_PX, STEPS = 1_500, 10
"""Each time all rows in view are new."""


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Instead of the folder's: its subjects are many and its nodes are none."""
    with large_console(tmp_path_factory.mktemp("large"), SUBJECTS) as found:
        yield found


def test_all_are_scrolled_to_and_filtered(new_visit: Callable[..., Visit]) -> None:
    inside = Inside(new_visit(user=VIEWER.name))
    inside.visit.open("/subjects?limit=all")
    table = inside.page.get_by_role("region", name=inside.text("subjects:title"), exact=True)
    shown = table.locator("tr[data-row]")
    expect(shown.first).to_have_attribute("data-row", "subject0000")
    rows = inside.page.locator("[data-rows]")

    inside.page.wait_for_function(
        """([table, rows, all, last]) => {
            table.scrollTo({top: table.scrollHeight});
            return Number(rows.dataset.rows) === all && table.querySelector(`[data-row=${last}]`) !== null;
        }""",
        arg=[table.element_handle(), rows.element_handle(), SUBJECTS, LAST],
        timeout=LOADED_MS,
    )
    expect(shown.last).to_have_attribute("data-row", LAST)
    assert shown.count() <= DRAWN_MAX
    table.press("Home")
    expect(shown.first).to_have_attribute("data-row", "subject0000")
    table.press("End")
    expect(shown.last).to_have_attribute("data-row", LAST)

    inside.page.get_by_label(inside.text("subjects:filter.search"), exact=True).fill(LAST[:-2])
    expect(rows).to_have_attribute("data-rows", "100", timeout=LOADED_MS)
    expect(shown.first).to_have_attribute("data-row", f"{LAST[:-2]}00")


def test_rows_that_come_and_go_do_not_move_the_list(new_visit: Callable[..., Visit]) -> None:
    inside = Inside(new_visit(user=VIEWER.name))
    inside.visit.open("/groups?limit=all&ordering=subject")
    table = inside.page.get_by_role("region", name=inside.text("groups:title"), exact=True)
    expect(table.locator("tr[data-row]").first).to_have_attribute("data-row", "subject0000/group0")
    expect(table.locator("tr[aria-hidden]")).to_be_attached()  # rows that are not drawn
    # Down, up, and down again: the second time the heights of the rows are known.
    for px in (STEP_PX, -STEP_PX, STEP_PX):
        moved = table.evaluate(
            """async (table, {px, frames}) => {
                const frame = () => new Promise(requestAnimationFrame);
                const from = table.scrollTop;
                for (let at = 0; at < frames; at++) {
                    table.scrollBy({top: px});
                    await frame();
                }
                return table.scrollTop - from;
            }""",
            {"px": px, "frames": STEPS},
        )
        assert moved == pytest.approx(STEPS * px, abs=STEP_PX)


def test_on_a_phone_all_are_scrolled_to_with_the_page(new_visit: Callable[..., Visit]) -> None:
    inside = Inside(new_visit(PHONE, user=VIEWER.name))
    inside.visit.open("/subjects?limit=all")
    shown = inside.page.locator("tr[data-row]")
    expect(shown.first).to_have_attribute("data-row", "subject0000")
    rows = inside.page.locator("[data-rows]")
    inside.page.wait_for_function(
        """([rows, all, last]) => {
            window.scrollTo({top: document.documentElement.scrollHeight, behavior: "instant"});
            return Number(rows.dataset.rows) === all && document.querySelector(`[data-row=${last}]`) !== null;
        }""",
        arg=[rows.element_handle(), SUBJECTS, LAST],
        timeout=LOADED_MS,
    )
    assert shown.count() <= DRAWN_MAX
    inside.page.evaluate("window.scrollTo({top: 0, behavior: 'instant'})")
    expect(shown.first).to_have_attribute("data-row", "subject0000")
