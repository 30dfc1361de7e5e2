"""Every page, looked at in each way it may be looked at: it is there, well-formed, and nothing in it goes wrong."""

import json
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from playwright.sync_api import TimeoutError as NotInTime
from playwright.sync_api import expect

from tests.served.e2e.furniture import Furniture
from tests.served.e2e.pages import PAGES, TEXTS, Inside
from tests.support.console.browser import DESKTOP, PHONE, Visit
from tests.support.console.page_load import BYTES_MAX, LAYOUT_SHIFT_MAX, REQUESTS_MAX, Meter
from tests.support.whole import in_whole_story_runs

CHINESE_PHONE = replace(PHONE, locale="zh-CN")
DARK_PAGES = (
    "/",
    "/subjects",
    "/groups/{subject}/{group}",
    "/brokers",
    "/delayed",
    "/outbox/{outbox}",
    "/trace/{subject}/{broker_group}/{sequence}",
    "/alerts",
    "/account",
)
TOUCHED_PAGES = ("/dead-letters/{subject}/{group}", "/outbox", "/alerts?tab=channels", "/alerts?tab=silences")
"""Where axe also judges the cards of a phone: their buttons and boxes need the room of a finger."""
NAMESPACES = sorted(path.stem for path in (TEXTS / "en").glob("*.json"))
KEY = re.compile(rf"\b(?:{'|'.join(NAMESPACES)}):[a-z_]+(?:\.[a-z_]+)*\b")
OUT_OF_REACH = """() => {
    const focusable = "a[href], button, input, select, textarea, summary, [tabindex]:not([tabindex='-1'])";
    // One of such a group is in the order of the Tab key, and arrow keys move among them; [data-at] are the calendar's hours.
    const roving = "[data-at], [role=tab], [role=gridcell], [role=option], [role=menuitem], [role=radio]";
    const isReached = element => {
        const of = element.closest(`${focusable}, ${roving}, label`);
        if (!of) return false;
        if (of.matches("label")) return Boolean(of.control && of.control.tabIndex >= 0);
        return of.tabIndex >= 0 || of.matches(roving) || of.disabled;
    };
    return [...document.querySelectorAll("body *")]
        .filter(element => element.checkVisibility() && getComputedStyle(element).cursor === "pointer")
        .filter(element => !isReached(element))
        .map(element => element.outerHTML.slice(0, 200));
}"""
"""What a pointer may click and the keyboard does not reach."""
CHINESE_LETTER = re.compile("[\u4e00-\u9fff]")


def _keys(value: object, path: str = "") -> set[str]:
    if isinstance(value, dict):
        return {key for name, inner in value.items() for key in _keys(inner, f"{path}.{name}" if path else name)}
    return {path}


DOTTED = {
    key for name in NAMESPACES for key in _keys(json.loads((TEXTS / "en" / f"{name}.json").read_text())) if "." in key
}


class Walk:
    """From page to page; what is wrong is told at the end, of all pages."""

    def __init__(self, visit: Visit, language: str) -> None:
        self.inside = Inside(visit, language)
        self.visit = visit
        self.wrong: list[str] = []
        self._meter: Meter | None = None

    def measure(self) -> None:
        """From now on no page is read from the browser's cache, and each has to keep the limits of its first load."""
        self._meter = Meter(self.visit.page)

    def look_at(self, address: str, *looks: Callable[[Inside], None]) -> None:
        """Open a page and look at it in these ways."""
        if self._meter is not None:
            self._meter.reset()
        self.visit.open(address)
        for look in (_is_well, *((self._is_light,) if self._meter is not None else ()), *looks):
            try:
                look(self.inside)
            except AssertionError as error:
                self.wrong.append(f"{address}: {error}")

    def _is_light(self, inside: Inside) -> None:
        assert self._meter is not None
        load = self._meter.load()
        assert load.layout_shift <= LAYOUT_SHIFT_MAX, load.shifts
        assert 0 < load.count <= REQUESTS_MAX, list(load.requests)
        assert 0 < load.bytes <= BYTES_MAX, sorted(load.requests.items(), key=lambda item: -item[1])

    def end(self) -> None:
        """Fail when something was wrong."""
        assert not self.wrong, "\n".join(self.wrong)


def _is_well(inside: Inside) -> None:
    inside.settles()
    expect(inside.heading).to_have_count(1)
    expect(inside.page.locator("[data-problem], [data-page=not-found]")).to_have_count(0)
    words = inside.page.locator("body").inner_text()
    # Actions in the audit log have such names, too: silence.create.
    actions = inside.page.locator('[data-cell="action"]').all_inner_texts()
    left = {*KEY.findall(words), *(DOTTED & set(words.split()) - {action.strip() for action in actions})}
    assert not left, f"texts that are not there: {left}"
    out_of_reach = inside.page.evaluate(OUT_OF_REACH)
    assert not out_of_reach, f"not reached by the keyboard: {out_of_reach}"


def _is_accessible(inside: Inside) -> None:
    inside.visit.axe_clean()


def _is_accessible_in_the_dark(inside: Inside) -> None:
    inside.page.emulate_media(color_scheme="dark")
    try:
        expect(inside.page.locator("html[data-mantine-color-scheme=dark]")).to_be_attached()
        inside.visit.axe_clean()
    finally:
        inside.page.emulate_media(color_scheme="light")


def _fits(inside: Inside) -> None:
    inside.fits_its_width()
    inside.cells_are_apart()


def _is_accessible_on_a_phone(inside: Inside) -> None:
    inside.page.set_viewport_size({"width": PHONE.width, "height": PHONE.height})
    try:
        expect(inside.page.locator("[data-cards] tr[data-row]").first).to_have_css("display", "grid")
        inside.visit.axe_clean()
    finally:
        inside.page.set_viewport_size({"width": DESKTOP.width, "height": DESKTOP.height})


def _fits_a_phone(inside: Inside) -> None:
    inside.page.set_viewport_size({"width": PHONE.width, "height": PHONE.height})
    try:
        # Charts take their new width a moment later.
        inside.page.wait_for_function("() => document.scrollingElement.scrollWidth <= innerWidth")
    except NotInTime:
        inside.fits_its_width()
    finally:
        inside.page.set_viewport_size({"width": DESKTOP.width, "height": DESKTOP.height})


def _is_chinese(inside: Inside) -> None:
    assert CHINESE_LETTER.search(inside.page.get_by_role("main").inner_text())


@pytest.mark.parametrize("area", PAGES)
def test_in_english(new_visit: Callable[..., Visit], furniture: Furniture, area: str) -> None:
    walk = Walk(new_visit(user="ada"), "en")
    walk.measure()
    for pattern in PAGES[area]:
        dark = (_is_accessible_in_the_dark,) if pattern in DARK_PAGES else ()
        touched = (_is_accessible_on_a_phone,) if pattern in TOUCHED_PAGES else ()
        walk.look_at(furniture.address(pattern), _is_accessible, *dark, *touched, _fits_a_phone)
    walk.end()


@in_whole_story_runs
@pytest.mark.parametrize("area", PAGES)
def test_in_chinese_on_a_phone(new_visit: Callable[..., Visit], furniture: Furniture, area: str) -> None:
    walk = Walk(new_visit(CHINESE_PHONE, user="ada"), "zh")
    for pattern in PAGES[area]:
        walk.look_at(furniture.address(pattern), _is_chinese, _fits)
    walk.end()


def test_no_page_is_left_out() -> None:
    """A page of the app without a line in PAGES."""
    source = TEXTS.parent / "app/pages.ts"
    known = {re.sub(r"\{\w+\}", "$", pattern.partition("?")[0]) for pages in PAGES.values() for pattern in pages}
    there = {re.sub(r"\$\w+", "$", path) for path in re.findall(r'\bpath: "([^"]+)"', source.read_text())}
    assert there - known == {"/sign-in"}, "tests of signing in look at that one"
