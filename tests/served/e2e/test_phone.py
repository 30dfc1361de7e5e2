"""On a phone nothing is cut off: what would happen can be read, and the buttons of a dialog are in sight."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from tests.served.e2e.furniture import GROUP, SUBJECT
from tests.served.e2e.group_pages import GroupPage
from tests.support.browser import PHONE, Visit

CUT = """element => [...element.querySelectorAll("*")].filter(one => {
    const style = getComputedStyle(one);
    const hides = [style.overflowX, style.overflowY].includes("hidden") || style.textOverflow === "ellipsis";
    return one.checkVisibility() && hides && (one.scrollWidth > one.clientWidth + 1) && !one.closest(".sr-only");
}).map(one => one.className)"""
"""Elements whose content is wider than they show and can't be scrolled."""


def is_in_sight(part: Locator) -> bool:
    """Whether all of it is in the window."""
    sight: bool = part.evaluate("""element => {
        const box = element.getBoundingClientRect();
        return box.left >= 0 && box.top >= 0 && box.right <= innerWidth && box.bottom <= innerHeight;
    }""")
    return sight


@pytest.mark.usefixtures("furniture")
def test_preview_of_a_reset_wraps(new_visit: Callable[..., Visit]) -> None:
    group = GroupPage(new_visit(PHONE, user="ada")).open(SUBJECT, GROUP)
    dialog = group.begin_reset("latest")
    assert is_in_sight(dialog.apply)
    assert dialog.dialog.evaluate(CUT) == []
    expect(dialog.apply).to_be_disabled()
