"""Page objects of the outbox: the registered databases, and the rows of one."""

from playwright.sync_api import Locator, expect

from tests.served.e2e.pages import Inside
from tests.served.e2e.preview_dialog import PreviewDialog


class OutboxPage(Inside):
    """The registered databases."""

    def open(self) -> "OutboxPage":
        """Go there."""
        self.visit.open("/outbox")
        expect(self.heading).to_have_text(self.text("nav.outbox"))
        return self

    def database(self, name: str) -> Locator:
        """The line of a database."""
        link = self.page.get_by_role("link", name=name, exact=True)
        return self.page.locator("[data-row]").filter(has=link)

    def register_sqlite(self, name: str, file: str) -> None:
        """Register a SQLite file: its form is filled in, the preview tests it."""
        self.page.locator("[data-action=create]").click()
        dialog = PreviewDialog(self.visit, self.language)
        dialog.dialog.get_by_label(self.text("outbox:column.name")).fill(name)
        dialog.dialog.get_by_label(self.text("outbox:column.kind")).select_option("sqlite")
        dialog.dialog.get_by_label(self.text("outbox:field.file")).fill(file)
        expect(dialog.preview()).to_contain_text(self.text("outbox:register.tested"))
        dialog.done(self.text("outbox:register.done", name=name))

    def delete(self, name: str) -> None:
        """Delete a database from the list."""
        self.page.get_by_role("button", name=self.text("outbox:actions_of", name=name), exact=True).click()
        self.page.get_by_role("menuitem", name=self.text("action.delete"), exact=True).click()
        dialog = PreviewDialog(self.visit, self.language)
        dialog.confirm.fill(name)
        dialog.done(self.text("outbox:delete.done", name=name))

    def show_failed(self, name: str) -> "DatabasePage":
        """To the failed rows of a database, by their number."""
        self.database(name).locator('[data-cell="failed"]').get_by_role("link").click()
        expect(self.heading).to_have_text(name)
        return DatabasePage(self.visit, self.language)


class DatabasePage(Inside):
    """One database with its rows."""

    @property
    def rows(self) -> Locator:
        """The rows of the list."""
        return self.page.locator("[data-row]")

    def choose(self, *rows: str) -> None:
        """Select rows by their IDs."""
        for row in rows:
            self.row(row).get_by_role("checkbox").check()

    def change_chosen(self, action: str) -> Locator:
        """Ask what resending or discarding the chosen rows does; the preview."""
        self.page.locator(f"[data-action={action}-selected]").click()
        return PreviewDialog(self.visit, self.language).previewed

    def apply(self) -> Locator:
        """Do what was previewed; what it came to. The dialog stays open."""
        dialog = PreviewDialog(self.visit, self.language)
        dialog.apply.click()
        done = self.page.locator("[data-progress=finished]")
        expect(done).to_be_visible()
        return done

    def close_dialog(self) -> None:
        """Back to the list."""
        dialog = self.page.get_by_role("dialog")
        dialog.get_by_role("button", name=self.text("action.close"), exact=True).last.click()
        expect(dialog).to_have_count(0)
