"""One of two broker groups fails: the overview names alert and event with the cause, no page is blank, and every number says how
complete it is."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from tests.served.e2e.furniture import Furniture
from tests.served.e2e.pages import PAGES, Inside
from tests.support.console.broker_failures import DISK_HANGS, KILLED, PAUSED, Failure, failing
from tests.support.console.browser import Visit
from tests.support.disks.faulty_disks import Disks
from tests.support.servers.system import System
from tests.support.waiting import ASK_SECONDS, eventually

NUMBERS = (
    "/", "/subjects", "/subjects/{subject}", "/subjects/{subject}?tab=groups", "/groups", "/groups/{subject}/{group}",
)  # fmt: skip
"""Pages with sums over broker groups."""
LISTS = (
    "/subjects/{subject}?tab=messages", "/subjects/{subject}?tab=tail", "/dead-letters", "/dead-letters/{subject}/{group}",
)  # fmt: skip
"""Pages that list what nodes store."""
SEEN_MS = 30_000


def _hints(found: Locator) -> list[str]:
    return [str(one.get_attribute("data-hint")) for one in found.all()]


def _says_how_complete_it_is(inside: Inside, pattern: str, away: str) -> None:
    main = inside.page.get_by_role("main")
    if pattern in LISTS:
        expect(main.locator("[data-unreachable]").first).to_contain_text(away, timeout=SEEN_MS)
    if pattern in NUMBERS:
        incomplete = main.locator(".incomplete")
        expect(incomplete.first).to_be_visible(timeout=SEEN_MS)
        assert all(away in hint for hint in _hints(incomplete)), _hints(incomplete)
        unknown, of_away = main.locator(".unknown"), main.locator("tr", has_text=away).locator(".unknown")
        of_alerts = main.locator("[data-alert] .unknown")
        groups = max(1, main.locator("tbody tr").count())
        others = unknown.count() - of_away.count() - of_alerts.count()
        assert others <= 2 * groups, f"more than time lags and times to drain are unknown: {_hints(unknown)}"
    no_reason = inside.text("unknown.reason")
    # A dash has its reason, and it is not the one for which nothing is known.
    assert no_reason not in _hints(main.locator(".unknown"))


@pytest.mark.parametrize(
    ("failure", "patterns"),
    [
        pytest.param(KILLED, [pattern for area in PAGES.values() for pattern in area], id="killed"),
        pytest.param(PAUSED, [*NUMBERS, *LISTS], id="paused"),
    ],
)
@pytest.mark.usefixtures("whole_again")
def test_every_page_shows_what_is_known(
    new_visit: Callable[..., Visit],
    console: System,
    furniture: Furniture,
    disks: Disks,
    failure: Failure,
    patterns: list[str],
) -> None:
    visit = new_visit(user="ada")
    visit.open("/")
    inside = Inside(visit)
    (away,) = console.brokers.keys() - {furniture.broker_group}
    wrong = []
    with failing(failure, console, away, disks):
        failure.is_shown(visit.page, away, SEEN_MS)
        eventually(
            lambda: (console.get("/overview/")["known"] or {}).get("missing") == [away]
            and console.group(away)["state"] == "offline",
            what="the collector and the metaserver noticed", every_s=ASK_SECONDS,
        )  # fmt: skip
        for pattern in patterns:
            visit.open(furniture.address(pattern))
            try:
                inside.settles()
                expect(inside.page.locator("[data-problem], [data-page=not-found]")).to_have_count(0)
                _says_how_complete_it_is(inside, pattern, away)
            except AssertionError as error:
                wrong.append(f"{pattern}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.usefixtures("whole_again")
def test_the_overview_names_a_disk_that_hangs_until_it_writes_again(
    new_visit: Callable[..., Visit], console: System, furniture: Furniture, disks: Disks
) -> None:
    page, (group,) = new_visit(user="ada").page, console.brokers.keys() - {furniture.broker_group}
    page.goto(console.url)
    with failing(DISK_HANGS, console, group, disks):
        DISK_HANGS.is_shown(page, group, SEEN_MS)
    expect(DISK_HANGS.alert_on(page, group)).to_have_count(0, timeout=SEEN_MS)
