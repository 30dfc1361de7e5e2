"""Changes are made in a dialog: most are previewed first, harmless ones such as creating a subject are made at once."""

from playwright.sync_api import Locator, expect

from tests.served.e2e.pages import ConsolePage


class PreviewDialog(ConsolePage):
    """The dialog that is open."""

    @property
    def dialog(self) -> Locator:
        """All of it."""
        return self.page.get_by_role("dialog")

    @property
    def previewed(self) -> Locator:
        """What would happen, once it was asked for."""
        return self.dialog.locator("[data-preview]")

    @property
    def apply(self) -> Locator:
        """The button that does it."""
        return self.dialog.locator("[data-action=apply]")

    @property
    def confirm(self) -> Locator:
        """Where the name is typed before something dangerous."""
        return self.dialog.locator("[data-confirm]")

    def preview(self) -> Locator:
        """Ask what would happen; the preview."""
        self.dialog.locator("[data-action=preview]").click()
        return self.previewed

    def done(self, message: str) -> None:
        """Do it; wait until the page says so and the dialog is gone."""
        self.apply.click()
        expect(self.page.get_by_text(message, exact=True)).to_be_visible()
        expect(self.dialog).to_have_count(0)
