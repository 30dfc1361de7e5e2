"""A story of many subjects: they are found by the folders of their names."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.served.e2e.looks import MOSTLY_TWO, name_of
from tests.served.e2e.subject_pages import SubjectsPage
from tests.support.console.browser import Look, Visit
from tests.support.servers.system import System

SUBJECTS = ("filled", "paid.card", "paid.invoice.late", "paid.invoice.sent", "shipped")
TOUCHED_PX = 40
"""The least height of what is touched on a phone."""


@pytest.mark.parametrize("look", MOSTLY_TWO)
def test_a_subject_is_found_by_the_folders_of_its_name(
    console: System, new_visit: Callable[..., Visit], look: Look, request: pytest.FixtureRequest
) -> None:
    root = f"basket.{name_of(request)}."
    for name in SUBJECTS:
        console.post("/subjects/", {"name": root + name})
    page = SubjectsPage(new_visit(look, user="ada"), look.locale[:2]).open()
    page.button("subjects:tree.show").click()
    page.folder("basket.").click()
    expect(page.folder(root)).to_have_attribute("aria-expanded", "false")
    expect(page.node(root)).to_contain_text(page.text("subjects:tree.count_other", count=str(len(SUBJECTS))))
    for folder in (root, f"{root}paid.", f"{root}paid.invoice."):
        page.folder(folder).click()
        expect(page.folder(folder)).to_have_attribute("aria-expanded", "true")
    found = page.node(f"{root}paid.invoice.late").get_by_role("link", name="late", exact=True)
    expect(found).to_be_visible()
    if look.is_phone:
        box = page.folder(root).bounding_box()
        assert box is not None
        assert box["height"] >= TOUCHED_PX
    page.fits_its_width()
    page.visit.axe_clean()

    # A link to this page shows the same.
    page.page.reload()
    found.click()
    expect(page.heading).to_have_text(f"{root}paid.invoice.late")
    page.page.go_back()
    expect(found).to_be_visible()

    page.folder(root).click()
    expect(found).to_have_count(0)
    page.folder(root).click()
    expect(page.folder(f"{root}paid.")).to_have_attribute("aria-expanded", "false")
    page.button("subjects:tree.list").click()
    expect(page.page.get_by_label(page.text("subjects:filter.search")).first).to_be_visible()
