"""Page objects of subjects: the list, and one with its tabs."""

import re

from playwright.sync_api import Locator, expect

from tests.served.e2e.pages import Inside
from tests.served.e2e.preview_dialog import PreviewDialog


class SubjectsPage(Inside):
    """The list."""

    def open(self) -> "SubjectsPage":
        """Go there."""
        self.visit.open("/subjects")
        expect(self.heading).to_have_text(self.text("subjects:title"))
        return self

    def create(self, name: str, owner: str) -> None:
        """Make a subject that a team owns; its page follows."""
        self.button("subjects:create.title").click()
        dialog = PreviewDialog(self.visit, self.language)
        dialog.dialog.get_by_role("textbox", name=self.text("subjects:field.name")).fill(name)
        dialog.dialog.get_by_role("combobox", name=self.text("subjects:field.owner")).click()
        owners = self.page.get_by_role("listbox", name=self.text("subjects:field.owner"))
        owners.get_by_role("option", name=owner, exact=True).click()
        dialog.done(self.text("subjects:create.done", name=name))
        expect(self.heading).to_have_text(name)

    def node(self, name: str) -> Locator:
        """A line of the tree: a subject, or a folder by its name with the point at its end."""
        return self.page.locator(f'[data-node="{name}"]')

    def folder(self, name: str) -> Locator:
        """What opens and closes a folder of the tree."""
        return self.node(name).get_by_role("button")


class SubjectPage(Inside):
    """One subject."""

    def open(self, subject: str, tab: str = "messages") -> "SubjectPage":
        """Go there."""
        self.visit.open(f"/subjects/{subject}?tab={tab}")
        expect(self.heading).to_have_text(subject)
        return self

    def go_to(self, key: str) -> None:
        """Another tab, by the key of its label."""
        self.page.get_by_role("tab", name=self.text(key), exact=True).click()

    @property
    def messages(self) -> Locator:
        """The lines of messages that are listed, found or tailed."""
        return self.page.locator("[data-row]")

    @property
    def message(self) -> Locator:
        """The message that is open beside the list."""
        return self.page.get_by_role("dialog", name=self.text("messages:one.title")).locator("[data-message]")

    def open_message(self, place: str) -> Locator:
        """Open a line's message."""
        name = re.compile(re.escape(self.text("messages:one.open", place=place)) + "$")
        self.page.get_by_role("button", name=name).click()
        expect(self.message).to_have_attribute("data-message", place)
        return self.message

    def close_message(self) -> None:
        """Back to the list."""
        self.page.get_by_role("dialog").get_by_role("button", name=self.text("action.close"), exact=True).click()
        expect(self.page.get_by_role("dialog")).to_have_count(0)

    def send(self, body: str) -> str:
        """Send a test message; its id, as the page says it."""
        self.button("messages:send.open").click()
        dialog = PreviewDialog(self.visit, self.language)
        dialog.dialog.get_by_label(self.text("messages:send.body"), exact=True).fill(body)
        dialog.done(self.text("messages:send.done"))
        return self.page.locator("[data-receipt]").get_attribute("data-receipt") or ""

    def search(self, text: str) -> Locator:
        """Look for messages that match a filter; the search's state is its attribute `data-search`."""
        self.page.get_by_role("radiogroup", name=self.text("messages:view.label")).get_by_text(
            self.text("messages:view.search"), exact=True
        ).click()
        form = self.page.get_by_role("search", name=self.text("messages:search.label"))
        form.get_by_role("textbox", name=self.text("common:filter.label")).fill(text)
        form.get_by_role("button", name=self.text("messages:search.action")).click()
        return self.page.locator("[data-search]")
