"""The page of delayed messages."""

from datetime import datetime

from playwright.sync_api import Locator, expect

from tests.served.e2e.pages import Inside


class DelayedPage(Inside):
    """Calendar, list, and what can be done with one message. Messages of a story are told apart by their property `name`."""

    def open(self, subject: str) -> "DelayedPage":
        """The messages of a subject."""
        self.visit.open(f"/delayed?subject={subject}")
        expect(self.heading).to_have_text(self.text("delayed:title"))
        return self

    def row(self, name: str) -> Locator:
        """A message's line of the list."""
        return self.page.get_by_role("row").filter(has_text=f"name={name}")

    def message_id(self, name: str) -> str:
        """As the list shows it."""
        return self.row(name).locator('[data-cell="message_id"]').text_content() or ""

    def refresh(self) -> None:
        """Ask the list anew."""
        self.button("table.refresh").click()

    def counted(self, pending: int) -> Locator:
        """The hours of the calendar where so many wait."""
        label = self.text("delayed:calendar.cell", count=str(pending)).removeprefix("{{when}}")
        return self.page.get_by_role("grid").get_by_role("button").and_(self.page.locator(f"[aria-label$='{label}']"))

    def look_at(self, name: str) -> None:
        """Open a message."""
        self.row(name).get_by_role("button").click()

    @property
    def drawer(self) -> Locator:
        """The opened message."""
        return self.page.get_by_role("dialog").filter(has_text=self.text("delayed:detail.about"))

    @property
    def dialog(self) -> Locator:
        """What is about to be done with it."""
        return self.page.get_by_role("dialog").filter(has=self.page.locator("form"))

    @property
    def previewed(self) -> Locator:
        """What would happen."""
        return self.dialog.locator("[data-preview]")

    def begin(self, operation: str) -> None:
        """Ask for `cancel`, `deliver` or `reschedule` of the opened message."""
        self.drawer.get_by_role("button", name=self.text(f"delayed:change.{operation}.open"), exact=True).click()

    def give_due_time(self, at: datetime) -> None:
        """Fill in the new due time, in the visitor's zone, and ask what would happen."""
        self.dialog.locator("[data-field=due_at]").fill(f"{at:%Y-%m-%d %H:%M:%S}")
        self.dialog.get_by_role("button", name=self.text("change.preview"), exact=True).click()

    def go_on(self, operation: str) -> None:
        """Do what the preview says; it is done when the dialog is gone."""
        self.dialog.get_by_role("button", name=self.text(f"delayed:change.{operation}.do"), exact=True).click()
        expect(self.dialog).to_have_count(0)

    def leave(self) -> None:
        """Close the opened message."""
        self.drawer.get_by_role("button", name=self.text("action.close"), exact=True).click()
        expect(self.drawer).to_have_count(0)
