"""A broker is killed while people look."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from tests.served.e2e.pages import ConsolePage
from tests.support.console.browser import Visit
from tests.support.servers.system import System

GROUP = "g2"
SEEN_MS = 30_000
"""Until the metaserver gives up hope and all who look are told; on a busy machine."""


def _verdict(visit: Visit) -> Locator:
    return visit.page.locator(f"[data-group={GROUP}] [data-verdict]").first


def _warning(visit: Visit) -> Locator:
    text = ConsolePage(visit).text("overview:attention.group_offline").replace("{{name}}", GROUP)
    return visit.page.get_by_role("link", name=text, exact=True)


@pytest.mark.usefixtures("whole_again")
def test_it_is_seen_without_a_reload_and_so_is_its_return(new_visit: Callable[..., Visit], console: System) -> None:
    brokers, overview = new_visit(user="vera"), new_visit(user="vera")
    brokers.open("/brokers")
    overview.open("/")
    expect(_verdict(brokers)).to_have_attribute("data-verdict", "read_write", timeout=SEEN_MS)
    expect(overview.page.locator("[data-live=live]")).to_be_visible(timeout=SEEN_MS)
    expect(_warning(overview)).to_have_count(0)
    for visit in (brokers, overview):
        visit.page.evaluate("window.isTheSamePage = true")

    console.brokers[GROUP].kill()
    expect(_verdict(brokers)).to_have_attribute("data-verdict", "offline", timeout=SEEN_MS)
    expect(_warning(overview)).to_be_visible(timeout=SEEN_MS)

    console.brokers[GROUP].start()
    expect(_verdict(brokers)).to_have_attribute("data-verdict", "read_write", timeout=SEEN_MS)
    expect(_warning(overview)).to_have_count(0, timeout=SEEN_MS)
    for visit in (brokers, overview):
        assert visit.page.evaluate("window.isTheSamePage") is True
