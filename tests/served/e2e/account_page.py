"""Page object of one's own account."""

from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.served.e2e.pages import Inside


class AccountPage(Inside):
    """The second factor on `/account`."""

    def open(self) -> "AccountPage":
        """Go there."""
        self.visit.open("/account")
        expect(self.heading).to_have_text(self.text("nav.account"))
        return self

    @property
    def codes_left(self) -> Locator:
        """The line that counts the recovery codes."""
        return self.page.get_by_text(self.text("account:codes.left").partition("{{total}}")[2].strip())

    def begin_second_factor(self, password: str) -> str:
        """Set up an app, with the password once more; the secret that is shown for typing."""
        self.button("account:factor.set_up").click()
        dialog = self.page.get_by_role("dialog", name=self.text("proof.title"))
        dialog.get_by_label(self.text("proof.password"), exact=True).fill(password)
        dialog.get_by_role("button", name=self.text("proof.go_on")).click()
        expect(self.page.get_by_role("img", name=self.text("account:factor.picture"))).to_be_visible()
        return self.page.locator("form", has=self._code).locator("pre").inner_text()

    def turn_on(self, code: str) -> None:
        """Give the app's first code."""
        self._code.fill(code)
        self.button("account:factor.confirm").click()

    @property
    def _code(self) -> Locator:
        return self.page.get_by_label(self.text("account:factor.code"))

    def keep_codes(self) -> tuple[list[str], str]:
        """The recovery codes as shown, and the file of them that was downloaded; then close them."""
        dialog = self.page.get_by_role("dialog", name=self.text("account:codes.title"))
        expect(dialog).to_be_visible()
        shown = dialog.locator("[data-codes] code").all_inner_texts()
        with self.page.expect_download() as download:
            dialog.get_by_role("link", name=self.text("table.download")).click()
        kept = Path(download.value.path()).read_text()
        dialog.get_by_role("button", name=self.text("account:codes.kept")).click()
        expect(dialog).to_have_count(0)
        return shown, kept
