"""A broker is killed while people look."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from tests.served.e2e.looks import MOSTLY_ONE
from tests.served.e2e.pages import ConsolePage, incident_report
from tests.support.console.browser import Look, Visit
from tests.support.servers.system import System

GROUP = "g2"
SEEN_MS = 30_000
"""Until the metaserver gives up hope and all who look are told; on a busy machine."""


def _verdict(brokers: ConsolePage) -> Locator:
    return brokers.page.locator(f"[data-group={GROUP}] [data-verdict]").first


def _warning(overview: ConsolePage) -> Locator:
    text = overview.text("overview:attention.group_offline", name=GROUP)
    return overview.page.get_by_role("link", name=text, exact=True)


@pytest.mark.usefixtures("whole_again")
@pytest.mark.parametrize("look", MOSTLY_ONE)
def test_it_is_seen_without_a_reload_and_so_is_its_return(
    new_visit: Callable[..., Visit], console: System, look: Look
) -> None:
    pages = [ConsolePage(new_visit(look, user="vera"), look.locale[:2]) for _ in range(3)]
    brokers, overview, events = pages
    brokers.visit.open("/brokers")
    events.visit.open(f"/events?broker_group={GROUP}")
    overview.visit.open("/")
    expect(_verdict(brokers)).to_have_attribute("data-verdict", "read_write", timeout=SEEN_MS)
    expect(overview.page.locator("[data-live=live]")).to_be_visible(timeout=SEEN_MS)
    expect(_warning(overview)).to_have_count(0)
    for one in pages:
        one.page.evaluate("window.isTheSamePage = true")

    console.brokers[GROUP].kill()
    expect(_verdict(brokers)).to_have_attribute("data-verdict", "offline", timeout=SEEN_MS)
    expect(_warning(overview)).to_be_visible(timeout=SEEN_MS)
    away = events.text("events:sentence.unreachable", target=f"{GROUP}-a")
    because = events.text("events:because", text=away, why="")
    # The cause that follows depends on when the collector asked.
    expect(events.page.locator("[data-event=unreachable]").first).to_contain_text(because, timeout=SEEN_MS)
    expect(events.page.locator("[data-event=state]").first).to_contain_text(GROUP, timeout=SEEN_MS)

    console.brokers[GROUP].start()
    expect(_verdict(brokers)).to_have_attribute("data-verdict", "read_write", timeout=SEEN_MS)
    expect(_warning(overview)).to_have_count(0, timeout=SEEN_MS)
    expect(events.page.locator("[data-event=restart]").first).to_contain_text(f"{GROUP}-a", timeout=SEEN_MS)
    for one in pages:
        assert one.page.evaluate("window.isTheSamePage") is True
    report = incident_report(events)
    assert away in report
    assert "<script" not in report
    offline = new_visit(user="vera").page
    offline.set_content(report)
    expect(offline.locator("svg")).not_to_have_count(0)
    expect(offline.get_by_role("cell", name=away).first).to_be_visible()
