"""Page objects of dead letters: how many each consumer group has, and those of one."""

from playwright.sync_api import Locator, expect

from tests.served.e2e.pages import Inside


class LetterCountsPage(Inside):
    """How many each consumer group has."""

    def open(self) -> "LetterCountsPage":
        """Go there."""
        self.visit.open("/dead-letters")
        expect(self.heading).to_have_text(self.text("nav.dead_letters"))
        return self

    def go_to(self, subject: str, group: str) -> "LettersPage":
        """To the letters of one."""
        self.row(f"{subject} {group}").get_by_role("link", name=group, exact=True).click()
        expect(self.heading).to_have_text(self.text("dead_letters:of", group=group))
        return LettersPage(self.visit, self.language)


class LettersPage(Inside):
    """The letters of one consumer group."""

    @property
    def letters(self) -> Locator:
        """The lines of the list."""
        return self.page.locator("[data-row]")

    @property
    def letter(self) -> Locator:
        """The letter that is open beside the list."""
        return self.page.get_by_role("dialog", name=self.text("dead_letters:one"), exact=True)

    @property
    def attempts(self) -> Locator:
        """The table that compares the open letter's attempts."""
        return self.letter.get_by_role("region", name=self.text("dead_letters:attempts.title"))

    def open_letter(self, place: str) -> None:
        """Open a line's letter."""
        self.page.get_by_role("button", name=self.text("dead_letters:open", place=place), exact=True).click()
        expect(self.attempts).to_be_visible()

    def close_letter(self) -> None:
        """Back to the list."""
        self.letter.get_by_role("button", name=self.text("action.close"), exact=True).click()
        expect(self.letter).to_have_count(0)

    def replay_open_letter(self) -> None:
        """Replay the open letter to its group: the preview is looked at, then done."""
        self.letter.get_by_role("button", name=self.text("dead_letters:action.replay"), exact=True).click()
        title = self.one("dead_letters:title.replay", count="1")
        dialog = self.page.get_by_role("dialog", name=title, exact=True)
        dialog.locator("[data-action=preview]").click()
        expect(dialog.locator("[data-preview]")).to_contain_text(self.one("dead_letters:sum.replay_preview", shown="1"))
        dialog.locator("[data-action=apply]").click()
        expect(dialog.locator("[data-work=finished]")).to_contain_text(self.one("dead_letters:sum.replay", shown="1"))
        dialog.get_by_role("button", name=self.text("action.close"), exact=True).last.click()
        expect(dialog).to_have_count(0)

    def repair_open_letter(self, name: str, value: str, *, to: str) -> None:
        """Replay the open letter to another subject with another value of a property."""
        self.letter.get_by_role("button", name=self.text("dead_letters:action.edit"), exact=True).click()
        dialog = self.page.get_by_role("dialog", name=self.text("dead_letters:title.edit"), exact=True)
        dialog.get_by_label(self.text("dead_letters:edit.value_of", name=name), exact=True).fill(value)
        dialog.get_by_label(self.text("dead_letters:to.other"), exact=True).check()
        dialog.get_by_label(self.text("dead_letters:to.other_subject")).last.fill(to)
        dialog.locator("[data-action=preview]").click()
        expect(dialog.locator("[data-preview]")).to_contain_text(self.one("dead_letters:sum.replay_preview", shown="1"))
        dialog.locator("[data-action=apply]").click()
        expect(dialog.locator("[data-work=finished]")).to_contain_text(self.one("dead_letters:sum.replay", shown="1"))
        dialog.get_by_role("button", name=self.text("action.close"), exact=True).last.click()
        expect(dialog).to_have_count(0)
