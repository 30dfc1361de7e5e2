"""Page objects: what a person sees and does on a page, by the words on the screen. No waiting but playwright's own."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, expect

from tests.support.console.browser import Visit
from tests.support.servers.processes import PROJECT

TEXTS = PROJECT / "frontend/src/i18n"


@cache
def _namespace(language: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((TEXTS / language / f"{name}.json").read_text())
    return found


COVERED_CELLS = """() => [...document.querySelectorAll('tr[data-row]')].flatMap((row) => {
    const cells = [...row.children].filter((cell) => cell.offsetParent !== null && cell.textContent !== '')
    const boxes = cells.map((cell) => cell.getBoundingClientRect())
    const covers = (a, b) =>
        Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1
    return cells.flatMap((one, index) =>
        cells.slice(index + 1)
            .filter((_, further) => covers(boxes[index], boxes[index + 1 + further]))
            .map((other) => `${one.textContent} / ${other.textContent}`))
})"""


def text(language: str, key: str) -> str:
    """A text of the front end: `sign_in:code.app`, or of the common ones `action.save`."""
    namespace, _, path = key.rpartition(":")
    value: Any = _namespace(language, namespace or "common")
    for part in path.split("."):
        value = value[part]
    assert isinstance(value, str), key
    return value


def is_in_sight(part: Locator) -> bool:
    """Whether all of it is in the window."""
    sight: bool = part.evaluate("""element => {
        const box = element.getBoundingClientRect();
        return box.left >= 0 && box.top >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
    }""")
    return sight


class ConsolePage:
    """What all pages have. `language` is the one that the visitor sees."""

    def __init__(self, visit: Visit, language: str = "en") -> None:
        self.visit = visit
        self.page = visit.page
        self.language = language

    def text(self, key: str, **values: str) -> str:
        """A text in the visitor's language, with values in its places."""
        found = text(self.language, key)
        for name, value in values.items():
            found = found.replace(f"{{{{{name}}}}}", value)
        return found

    def one(self, key: str, **values: str) -> str:
        """The text for one of something; Chinese has no form of its own for it."""
        return self.text(f"{key}_{'other' if self.language == 'zh' else 'one'}", **values)

    def button(self, key: str) -> Locator:
        """A button by its text."""
        return self.page.get_by_role("button", name=self.text(key), exact=True)

    @property
    def heading(self) -> Locator:
        """The page's name."""
        return self.page.get_by_role("heading", level=1)

    def row(self, key: str) -> Locator:
        """A line of a list."""
        return self.page.locator(f'[data-row="{key}"]')

    def cell(self, key: str, column: str) -> Locator:
        """A cell of a list."""
        return self.row(key).locator(f'[data-cell="{column}"]')

    @property
    def live(self) -> Locator:
        """The badge that says the page's numbers are live."""
        return self.page.locator("[data-live=live]")

    @property
    def problem(self) -> Locator:
        """What the page says that went wrong."""
        return self.page.get_by_role("alert")

    def settles(self) -> None:
        """Wait until everything that the page asks for at once is there."""
        expect(self.heading).to_be_visible()
        self.page.wait_for_load_state("networkidle")
        expect(self.page.locator(".mantine-Loader-root, .mantine-Skeleton-root[data-visible]")).to_have_count(0)

    def choose_language(self, language: str) -> None:
        """Switch; both languages have the same button."""
        self.page.locator(f"[data-language={language}]").click()
        self.language = language

    def fits_its_width(self) -> None:
        """Fail when the page as a whole has to be scrolled sideways."""
        wide = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{self.page.url} is {wide} px wider than its window"

    def cells_are_apart(self) -> None:
        """Fail when a cell of a list, which is a card on a phone, covers another one."""
        covered = self.page.evaluate(COVERED_CELLS)
        assert covered == [], f"{self.page.url}: cells cover each other: {covered}"


def incident_report(page: ConsolePage) -> str:
    """The incident report of the span that a page offers, as the browser saves it."""
    page.button("events:report.title").click()
    with page.page.expect_download() as download:
        page.button("events:report.make").click()
    return Path(download.value.path()).read_text()


class Inside(ConsolePage):
    """Any page for who is signed in."""

    def is_shown(self, user: str) -> None:
        """Wait until the frame is there, with this user in it."""
        name = self.text("settings.account", name=user)
        expect(self.page.get_by_role("button", name=name, exact=True)).to_be_visible()

    def sign_out(self, user: str) -> None:
        """By the menu, until the session has ended: the page asks for the next sign-in then."""
        name = self.text("settings.account", name=user)
        self.page.get_by_role("button", name=name, exact=True).click()
        self.page.get_by_role("menuitem", name=self.text("action.sign_out")).click()
        expect(self.heading).to_have_text(self.text("sign_in:title"))


class SignInPage(ConsolePage):
    """The way in."""

    def open(self, next_path: str = "") -> "SignInPage":
        """Go there; with `next_path` by way of a page that sends whoever is not signed in there."""
        if next_path:
            self.visit.expects(401, "/api/v1/me/")
        self.visit.open(next_path or "/sign-in")
        expect(self.heading).to_have_text(self.text("sign_in:title"))
        return self

    def give(self, user: str, password: str) -> None:
        """Fill in name and password, and send them."""
        self.page.get_by_label(self.text("sign_in:login")).fill(user)
        self.page.get_by_label(self.text("sign_in:password"), exact=True).fill(password)
        self.button("sign_in:title").click()

    def give_code(self, code: str) -> None:
        """Fill in the second factor, and send it."""
        self.page.get_by_label(self.text("sign_in:code.app")).fill(code)
        self.button("sign_in:code.go_on").click()

    def give_recovery_code(self, code: str) -> None:
        """Fill in a recovery code in place of the app's, and send it."""
        self.button("sign_in:code.use_recovery").click()
        self.page.get_by_label(self.text("sign_in:code.recovery")).fill(code)
        self.button("sign_in:code.go_on").click()


PAGES = {
    "subjects": (
        "/",
        "/subjects",
        "/subjects/{subject}",
        "/subjects/{subject}?tab=messages",
        "/subjects/{subject}?tab=tail",
        "/subjects/{subject}?tab=groups",
        "/subjects/{subject}?tab=placement",
        "/subjects/{subject}?tab=settings",
    ),
    "delivery": (
        "/groups",
        "/groups/{subject}/{group}",
        "/clients",
        "/delayed",
        "/delayed?message={delayed}&of={subject}",
        "/dead-letters",
        "/dead-letters/{subject}/{group}",
        "/outbox",
        "/outbox/{outbox}",
        "/trace",
        "/trace/{subject}/{broker_group}/{sequence}",
    ),
    "cluster": (
        "/brokers",
        "/brokers/{broker_group}",
        "/jobs",
        "/provisioning",
        "/audit",
        "/events",
        "/analytics",
    ),
    "people": (
        "/alerts",
        "/alerts?tab=rules",
        "/alerts?tab=channels",
        "/alerts?tab=silences",
        "/users",
        "/users/{user}",
        "/teams",
        "/teams/{team}",
        "/tokens",
        "/account",
    ),
}
"""By area, as the tests go through them. A new page is added here."""
