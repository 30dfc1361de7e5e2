"""Where there is little room nothing is cut off: previews wrap, rows are cards, lists show that they scroll."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from tests.served.e2e.delayed_page import DelayedPage
from tests.served.e2e.furniture import GROUP, MESSAGES, SUBJECT, Furniture
from tests.served.e2e.group_pages import GroupPage, GroupsPage
from tests.served.e2e.pages import Inside, is_in_sight
from tests.served.e2e.subject_pages import SubjectPage
from tests.support.console.browser import DESKTOP, PHONE, Visit
from tests.support.servers.system import System
from tests.support.waiting import ASK_SECONDS, eventually

CUT = """element => [...element.querySelectorAll("*")].filter(one => {
    const style = getComputedStyle(one);
    const hides = [style.overflowX, style.overflowY].includes("hidden") || style.textOverflow === "ellipsis";
    return one.checkVisibility() && hides && (one.scrollWidth > one.clientWidth + 1) && !one.closest(".sr-only");
}).map(one => one.className)"""
"""Elements whose content is wider than they show and can't be scrolled."""
COVERED = """(notification, buttons) => {
    const box = notification.getBoundingClientRect();
    const covers = other => Math.min(box.right, other.right) > Math.max(box.left, other.left)
        && Math.min(box.bottom, other.bottom) > Math.max(box.top, other.top);
    return [...document.querySelectorAll(buttons)].map(one => [one.ariaLabel, covers(one.getBoundingClientRect())]);
}"""
"""Each of these buttons, and whether it is behind a notification."""
BEYOND_ITS_CARD_PX = "one => one.getBoundingClientRect().right - one.closest('tr').getBoundingClientRect().right"
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


@pytest.mark.usefixtures("furniture")
def test_a_long_text_in_a_badge_is_read_whole(new_visit: Callable[..., Visit]) -> None:
    inside = Inside(new_visit(PHONE, user="vera"))
    inside.visit.open("/alerts?tab=rules")
    badge = inside.page.locator(".mantine-Badge-root", has_text=inside.text("alerts:filter.not_notified")).first
    expect(badge).to_be_visible()
    assert badge.evaluate(BEYOND_ITS_CARD_PX) <= 0
    assert badge.evaluate(CUT) == []


def test_a_notification_covers_no_button(new_visit: Callable[..., Visit], console: System) -> None:
    subject = "notified.phone"
    assert console.qmq("produce", subject, "-p", "name=early", "--delay", "1h").returncode == 0
    page = DelayedPage(new_visit(PHONE, user="ada"))
    eventually(lambda: console.ask("GET", f"/subjects/{subject}/").status == 200, every_s=ASK_SECONDS)
    page.open(subject)
    page.look_at("early")
    page.begin("reschedule")
    page.give_due_time(datetime.now(UTC) + timedelta(days=2))
    page.go_on("reschedule")
    notification = page.page.locator(".mantine-Notification-root")
    expect(notification).to_be_visible()
    in_drawer = notification.evaluate(COVERED, "[role=dialog] button")
    assert len(in_drawer) > 3
    assert not any(is_covered for _, is_covered in in_drawer)
    page.leave()
    assert notification.evaluate(COVERED, ".jump-open") == [[None, False]]


@pytest.mark.usefixtures("furniture")
@pytest.mark.parametrize("address", ["/audit", "/events"])
def test_filters_share_one_row_where_there_is_room(new_visit: Callable[..., Visit], address: str) -> None:
    inside = Inside(new_visit(DESKTOP, user="ada"))
    inside.visit.open(address)
    expect(inside.page.locator("[data-row]").first).to_be_visible()
    fields = inside.page.get_by_role("search").locator("[data-filter]")
    tops = fields.evaluate_all("fields => fields.map(one => Math.round(one.getBoundingClientRect().top))")
    refresh = inside.button("table.refresh").bounding_box()
    assert len(tops) > 5
    assert refresh is not None
    assert {*tops, round(refresh["y"])} == {tops[0]}
