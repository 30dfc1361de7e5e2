"""What one sees is in the address, in a download, and a few keys away."""

import csv
import io
import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect

from tests.served.e2e.pages import Inside
from tests.support.console.browser import Visit
from tests.support.servers.system import System

COUNT = 55
"""More than a page has."""
NAMES = [f"linked.{number:02}" for number in range(COUNT)]
ON_A_PAGE = 50


class SubjectList(Inside):
    """The list of subjects."""

    def open(self, path: str = "/subjects") -> "SubjectList":
        """Go there."""
        self.visit.open(path)
        return self

    def search_for(self, part: str, found: int) -> None:
        """Type part of a name, and wait until the list is of what was found."""
        self.page.get_by_label(self.text("subjects:filter.search"), exact=True).fill(part)
        # What is typed takes effect a moment later, and until then the list may have as many rows by chance, or none yet.
        expect(self.page).to_have_url(re.compile(rf"[?&]search={re.escape(part)}(&|$)"))
        self.has_rows(found)
        expect(self.page.locator("tr[data-row]").filter(has_not_text=part)).to_have_count(0)

    def has_rows(self, count: int) -> None:
        """Wait until the list has so many, and is at rest."""
        expect(self.page.locator("[data-table]:not([data-fetching]) [data-rows]")).to_have_attribute(
            "data-rows", str(count)
        )

    def header(self, name: str) -> Locator:
        """The head of a column."""
        return self.page.get_by_role("columnheader", name=self.text(f"subjects:column.{name}"), exact=True)

    def hide(self, column: str) -> None:
        """By the menu of columns."""
        self.button("table.columns").click()
        self.page.get_by_role("menuitemcheckbox", name=self.text(f"subjects:column.{column}"), exact=True).click()
        self.page.keyboard.press("Escape")

    def shows(self, names: list[str]) -> None:
        """Wait until these are the rows."""
        self.has_rows(len(names))
        expect(self.page.locator("tr[data-row]")).to_contain_text(names)

    def download(self, key: str) -> str:
        """The whole list as a file."""
        self.button("table.download").click()
        with self.page.expect_download() as waiting:
            self.page.get_by_role("menuitem", name=self.text(key), exact=True).click()
        return waiting.value.path().read_text(encoding="utf-8-sig")


@pytest.fixture(scope="module")
def linked(console: System) -> None:
    """Subjects to look for."""
    document = {"subjects": [{"name": name} for name in NAMES]}
    answer = console.ask("PUT", "/apply/", document)
    assert answer.status == 200, answer.raw


@pytest.mark.usefixtures("linked")
def test_a_reload_and_a_copied_link_show_what_one_saw(new_visit: Callable[..., Visit]) -> None:
    mine = SubjectList(new_visit(user="ada")).open()
    mine.search_for("linked.", ON_A_PAGE)
    mine.page.locator("[data-sort=name]").click()
    expect(mine.header("name")).to_have_attribute("aria-sort", "descending")
    mine.hide("tags")
    expect(mine.header("tags")).to_have_count(0)
    mine.has_rows(ON_A_PAGE)
    mine.button("table.next").click()
    last = NAMES[: COUNT - ON_A_PAGE][::-1]
    mine.shows(last)

    mine.page.reload()
    mine.shows(last)
    theirs = SubjectList(new_visit(user="vera")).open(mine.page.url.removeprefix(mine.visit.url))
    for each in (mine, theirs):
        each.shows(last)
        expect(each.page.get_by_label(each.text("subjects:filter.search"), exact=True)).to_have_value("linked.")
        expect(each.header("name")).to_have_attribute("aria-sort", "descending")
        expect(each.header("tags")).to_have_count(0)
    mine.button("table.previous").click()
    mine.has_rows(ON_A_PAGE)


@pytest.mark.usefixtures("linked")
def test_keys_alone_lead_to_a_subject_by_part_of_its_name(new_visit: Callable[..., Visit]) -> None:
    page = SubjectList(new_visit(user="vera")).open("/")
    page.is_shown("vera")
    page.page.keyboard.press("Control+K")
    expect(page.page.get_by_role("combobox", name=page.text("jump.placeholder"))).to_be_focused()
    page.page.keyboard.type("inked.07")
    option = page.page.get_by_role("option", name=re.compile(r"linked\.07"))
    expect(option).to_have_attribute("aria-selected", "true")
    page.page.keyboard.press("Enter")
    expect(page.page).to_have_url(f"{page.visit.url}/subjects/linked.07")
    expect(page.heading).to_have_text("linked.07")


@pytest.mark.usefixtures("linked")
def test_downloads_hold_exactly_the_filtered_list(new_visit: Callable[..., Visit]) -> None:
    page = SubjectList(new_visit(user="vera")).open("/subjects?ordering=-name")
    page.search_for("linked.", ON_A_PAGE)
    rows = list(csv.DictReader(io.StringIO(page.download("table.download_csv"))))
    assert [row["name"] for row in rows] == NAMES[::-1], "all pages of it"
    page.search_for("linked.1", 10)
    found = json.loads(page.download("table.download_json"))
    assert [row["name"] for row in found["results"]] == NAMES[10:20][::-1]
    assert found["is_complete"]


def test_an_address_without_a_page_keeps_the_menu(new_visit: Callable[..., Visit]) -> None:
    inside = Inside(new_visit(user="vera"))
    inside.visit.open("/nosuch/page")
    expect(inside.heading).to_have_text(inside.text("state.no_page"))
    inside.page.get_by_role("navigation").get_by_role("link", name=inside.text("nav.subjects"), exact=True).click()
    expect(inside.heading).to_have_text(inside.text("nav.subjects"))
