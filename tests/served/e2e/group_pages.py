"""Page objects of consumer groups: the list, and one with what can be done about it."""

from playwright.sync_api import Locator, expect

from tests.served.e2e.pages import Inside
from tests.served.e2e.preview_dialog import PreviewDialog


class GroupsPage(Inside):
    """The list."""

    def open(self, subject: str) -> "GroupsPage":
        """Go to the groups of a subject."""
        self.visit.open(f"/groups?search={subject}")
        expect(self.live).to_be_visible()
        return self


class GroupPage(Inside):
    """One consumer group."""

    def open(self, subject: str, group: str) -> "GroupPage":
        """Go there."""
        self.visit.open(f"/groups/{subject}/{group}")
        expect(self.heading).to_have_text(group)
        expect(self.live).to_be_visible()
        return self

    def number(self, field: str) -> Locator:
        """A live number; unknown ones are not found."""
        tile = self.page.locator(f'[data-tile="{self.text(f"groups:column.{field}")}"]')
        return tile.locator("[data-measured]")

    @property
    def state(self) -> Locator:
        """The badge with the group's state, as its attribute `data-state`."""
        return self.page.locator("main [data-state]").first

    def set_paused(self, group: str, *, to: bool) -> None:
        """Pause the group, or resume it."""
        word = "pause" if to else "resume"
        self.page.locator("[data-do=pause]", has_text=self.text(f"groups:action.{word}")).click()
        dialog = PreviewDialog(self.visit, self.language)
        expect(dialog.previewed).to_contain_text(self.text(f"groups:{word}.means"))
        dialog.done(self.text(f"groups:{word}.done", group=group))

    def begin_reset(self, to: str) -> PreviewDialog:
        """Open the dialog for a reset to a place ("earliest", "latest") as far as its preview."""
        self.page.locator("[data-do=reset]").click()
        return self.preview_reset(to)

    def preview_reset(self, to: str) -> PreviewDialog:
        """In the open dialog, ask for the preview of a reset to another place."""
        dialog = PreviewDialog(self.visit, self.language)
        dialog.dialog.get_by_role("radio", name=self.text(f"groups:reset.{to}"), exact=True).check()
        expect(dialog.preview()).to_be_visible()
        return dialog
