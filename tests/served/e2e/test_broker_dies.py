"""A broker is killed while people look."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from tests.served.e2e.pages import ConsolePage, incident_report
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


def _sentence(visit: Visit, kind: str) -> str:
    return ConsolePage(visit).text(f"events:sentence.{kind}")


@pytest.mark.usefixtures("whole_again")
def test_it_is_seen_without_a_reload_and_so_is_its_return(new_visit: Callable[..., Visit], console: System) -> None:
    brokers, overview, events = new_visit(user="vera"), new_visit(user="vera"), new_visit(user="vera")
    brokers.open("/brokers")
    events.open(f"/events?broker_group={GROUP}")
    overview.open("/")
    expect(_verdict(brokers)).to_have_attribute("data-verdict", "read_write", timeout=SEEN_MS)
    expect(overview.page.locator("[data-live=live]")).to_be_visible(timeout=SEEN_MS)
    expect(_warning(overview)).to_have_count(0)
    for visit in (brokers, overview, events):
        visit.page.evaluate("window.isTheSamePage = true")

    console.brokers[GROUP].kill()
    expect(_verdict(brokers)).to_have_attribute("data-verdict", "offline", timeout=SEEN_MS)
    expect(_warning(overview)).to_be_visible(timeout=SEEN_MS)
    away = _sentence(events, "unreachable").replace("{{target}}", f"{GROUP}-a")
    # With the cause, which depends on when the collector asked.
    expect(events.page.locator("[data-event=unreachable]").first).to_contain_text(f"{away}: ", timeout=SEEN_MS)
    expect(events.page.locator("[data-event=state]").first).to_contain_text(GROUP, timeout=SEEN_MS)

    console.brokers[GROUP].start()
    expect(_verdict(brokers)).to_have_attribute("data-verdict", "read_write", timeout=SEEN_MS)
    expect(_warning(overview)).to_have_count(0, timeout=SEEN_MS)
    expect(events.page.locator("[data-event=restart]").first).to_contain_text(f"{GROUP}-a", timeout=SEEN_MS)
    for visit in (brokers, overview, events):
        assert visit.page.evaluate("window.isTheSamePage") is True
    report = incident_report(ConsolePage(events))
    assert away in report
    assert "<script" not in report
    offline = new_visit(user="vera").page
    offline.set_content(report)
    expect(offline.locator("svg")).not_to_have_count(0)
    expect(offline.get_by_role("cell", name=away).first).to_be_visible()
