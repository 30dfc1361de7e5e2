"""Where there is little room nothing is cut off: previews wrap, rows are cards, lists show that they scroll."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from tests.served.e2e.furniture import GROUP, SUBJECT
from tests.served.e2e.group_pages import GroupPage, GroupsPage
from tests.served.e2e.pages import is_in_sight
from tests.support.console.browser import DESKTOP, PHONE, Visit

CUT = """element => [...element.querySelectorAll("*")].filter(one => {
    const style = getComputedStyle(one);
    const hides = [style.overflowX, style.overflowY].includes("hidden") || style.textOverflow === "ellipsis";
    return one.checkVisibility() && hides && (one.scrollWidth > one.clientWidth + 1) && !one.closest(".sr-only");
}).map(one => one.className)"""
"""Elements whose content is wider than they show and can't be scrolled."""


@pytest.mark.usefixtures("furniture")
def test_preview_of_a_reset_wraps(new_visit: Callable[..., Visit]) -> None:
    group = GroupPage(new_visit(PHONE, user="ada")).open(SUBJECT, GROUP)
    dialog = group.begin_reset("latest")
    assert is_in_sight(dialog.apply)
    assert dialog.dialog.evaluate(CUT) == []
    expect(dialog.apply).to_be_disabled()


@pytest.mark.usefixtures("furniture")
def test_a_row_is_a_card_with_its_most_important_numbers(new_visit: Callable[..., Visit]) -> None:
    groups = GroupsPage(new_visit(PHONE, user="vera")).open(SUBJECT)
    row = groups.row(f"{SUBJECT}/{GROUP}")
    expect(groups.page.get_by_role("columnheader")).to_have_count(0)
    for column in ("group", "state", "subject", "lag", "time_lag_seconds", "drain_seconds"):
        assert is_in_sight(groups.cell(f"{SUBJECT}/{GROUP}", column)), column
    expect(groups.cell(f"{SUBJECT}/{GROUP}", "ack_rate")).to_be_hidden()
    assert row.evaluate(CUT) == []
    assert is_in_sight(groups.page.get_by_role("button", name=groups.text("settings.account", name="vera"), exact=True))
    groups.fits_its_width()


@pytest.mark.usefixtures("furniture")
def test_filters_are_behind_a_button_that_counts_them(new_visit: Callable[..., Visit]) -> None:
    groups = GroupsPage(new_visit(PHONE, user="vera")).open(SUBJECT)
    state = groups.page.locator("select[data-filter=state]")
    expect(state).to_be_hidden()
    groups.button("table.filters").click()
    state.select_option("paused")
    expect(groups.page.get_by_role("button", name=groups.text("table.filters_set", count="1"))).to_be_visible()
    expect(groups.row(f"{SUBJECT}/{GROUP}")).to_have_count(0)


@pytest.mark.usefixtures("furniture")
def test_a_list_that_scrolls_sideways_shows_it_and_keeps_its_names(new_visit: Callable[..., Visit]) -> None:
    groups = GroupsPage(new_visit(replace(DESKTOP, width=1000), user="vera")).open(SUBJECT)
    frame = groups.page.locator(".table-frame")
    name = groups.cell(f"{SUBJECT}/{GROUP}", "group")
    expect(frame).to_have_attribute("data-more-right", "")
    before = name.bounding_box()
    groups.page.get_by_role("region", name=groups.text("groups:title")).evaluate(
        "region => { region.scrollLeft = 9999 }"
    )
    expect(frame).to_have_attribute("data-more-left", "")
    expect(frame).not_to_have_attribute("data-more-right", "")
    assert name.bounding_box() == before
