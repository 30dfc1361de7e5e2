"""Pages say when their numbers are old, keep them meanwhile, and are live again by themselves."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from playwright.sync_api import Locator, expect

from tests.served.e2e.furniture import GROUP, SUBJECT
from tests.served.e2e.pages import Inside
from tests.support.console.browser import Visit
from tests.support.servers.system import System

SEEN_MS = 30_000
COUNTS = (0, 2, 3)
"""Places of lag, backlog and in flight among the numbers: the time lag grows while a message waits, and rates fall."""


class LivePage(Inside):
    """A page with live numbers: the groups of a subject."""

    def open(self) -> "LivePage":
        """Go there, and wait until its numbers are live."""
        self.visit.open(f"/subjects/{SUBJECT}?tab=groups")
        self.becomes("live")
        expect(self.numbers.first).to_be_visible()
        self.page.evaluate("window.isTheSamePage = true")
        return self

    @property
    def numbers(self) -> Locator:
        """What is measured of the group."""
        return self.page.locator(f'tr[data-row="{SUBJECT}/{GROUP}"] [data-measured]')

    def counts_are(self, before: list[str]) -> None:
        """Wait until the counts are as before."""
        for place in COUNTS:
            expect(self.numbers.nth(place)).to_have_text(before[place])

    def becomes(self, kind: str) -> None:
        """Wait until the badge says so."""
        badge = self.page.locator(f"[data-live={kind}]").first
        expect(badge).to_be_visible(timeout=SEEN_MS)
        expect(badge).to_contain_text(self.text(f"live.{kind}").partition("{{")[0].strip())

    def was_never_left(self) -> None:
        """Fail when it was loaded anew."""
        assert self.page.evaluate("window.isTheSamePage") is True


@pytest.mark.usefixtures("furniture")
@pytest.mark.parametrize("what", ["collector", "redis"])
def test_numbers_are_said_to_be_old_and_stay(new_visit: Callable[..., Visit], console: System, what: str) -> None:
    page = LivePage(new_visit(user="vera")).open()
    before = page.numbers.all_inner_texts()
    assert any(number != "0" for number in before)
    fault: AbstractContextManager[None] = console.collector.paused() if what == "collector" else console.redis.paused()
    with fault:
        page.becomes("stale")
        assert page.numbers.all_inner_texts() == before
    page.becomes("live")
    page.counts_are(before)
    page.was_never_left()


@pytest.mark.usefixtures("furniture")
def test_a_page_whose_server_is_gone_comes_back(new_visit: Callable[..., Visit], console: System) -> None:
    visit = new_visit(user="vera")
    page = LivePage(visit).open()
    before = page.numbers.all_inner_texts()
    with visit.without_server():
        console.console.kill()
        try:
            page.becomes("reconnecting")
            assert page.numbers.all_inner_texts() == before
            expect(page.numbers.first).to_have_css("font-style", "italic")
        finally:
            console.console.start()
        page.becomes("live")
    expect(page.numbers.first).to_have_css("font-style", "normal")
    page.counts_are(before)
    page.was_never_left()
