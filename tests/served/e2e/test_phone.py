"""Where there is little room nothing is cut off: previews wrap, rows are cards, lists show that they scroll."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from tests.served.e2e.furniture import GROUP, MESSAGES, SUBJECT, Furniture
from tests.served.e2e.group_pages import GroupPage, GroupsPage
from tests.served.e2e.pages import Inside, is_in_sight
from tests.served.e2e.subject_pages import SubjectPage
from tests.support.console.browser import DESKTOP, PHONE, Visit

CUT = """element => [...element.querySelectorAll("*")].filter(one => {
    const style = getComputedStyle(one);
    const hides = [style.overflowX, style.overflowY].includes("hidden") || style.textOverflow === "ellipsis";
    return one.checkVisibility() && hides && (one.scrollWidth > one.clientWidth + 1) && !one.closest(".sr-only");
}).map(one => one.className)"""
"""Elements whose content is wider than they show and can't be scrolled."""
FINGER_PX = 40
INNER_SCROLL_PX = "region => region.scrollHeight - region.clientHeight"
SMALL = """buttons => buttons.map(one => {
    // What takes the touch may be larger than what is drawn.
    const [drawn, touched] = [one.getBoundingClientRect(), getComputedStyle(one, "::after")];
    const px = ["width", "height"].map(side => Math.max(drawn[side], parseFloat(touched[side]) || 0));
    return [one.getAttribute("aria-label"), ...px];
}).filter(([, width, height]) => Math.min(width, height) < 40)"""
"""Names and sizes of buttons that are smaller than FINGER_PX."""


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


def test_lists_scroll_with_the_page_and_the_first_message_is_in_sight(
    new_visit: Callable[..., Visit], furniture: Furniture
) -> None:
    subject = SubjectPage(new_visit(PHONE, user="vera")).open(SUBJECT)
    expect(subject.messages).to_have_count(MESSAGES)
    assert is_in_sight(subject.messages.first)
    region = subject.page.get_by_role("region", name=subject.text("messages:tab.messages"), exact=True)
    assert region.evaluate(INNER_SCROLL_PX) == 0
    subject.messages.last.scroll_into_view_if_needed()
    assert subject.page.evaluate("window.scrollY") > 0
    subject.visit.axe_clean()


@pytest.mark.parametrize(
    "address", ["/groups", f"/subjects/{SUBJECT}?tab=messages&message={{broker_group}}:{{sequence}}"]
)
def test_icon_buttons_have_room_for_a_finger(
    new_visit: Callable[..., Visit], furniture: Furniture, address: str
) -> None:
    inside = Inside(new_visit(PHONE, user="vera"))
    inside.visit.open(furniture.address(address))
    buttons = inside.page.locator(".mantine-ActionIcon-root:visible, .mantine-Burger-root:visible")
    expect(inside.page.locator("[data-row]").first).to_be_visible()
    if "message=" in address:
        expect(inside.page.locator("[data-message]")).to_be_visible()
    small = buttons.evaluate_all(SMALL)
    assert buttons.count() > 4
    assert small == []


@pytest.mark.usefixtures("furniture")
def test_the_search_opens_with_a_thumb(new_visit: Callable[..., Visit]) -> None:
    groups = GroupsPage(new_visit(PHONE, user="vera")).open(SUBJECT)
    button = groups.page.get_by_role("button", name=groups.text("jump.open"), exact=True)
    box = button.bounding_box()
    assert box is not None
    assert box["y"] > PHONE.height * 2 / 3
    assert min(box["width"], box["height"]) >= FINGER_PX
    button.click()
    expect(groups.page.get_by_role("dialog").get_by_role("combobox")).to_be_focused()
