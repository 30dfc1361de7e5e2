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

    def create(self, subject: str, name: str, start: str) -> None:
        """Make a group that starts at a place ("earliest", "latest"); its page follows."""
        self.button("groups:create.title").click()
        dialog = PreviewDialog(self.visit, self.language)
        dialog.dialog.get_by_role("combobox", name=self.text("groups:column.subject")).fill(subject)
        dialog.dialog.get_by_role("textbox", name=self.text("groups:column.group")).fill(name)
        dialog.dialog.get_by_role("radio", name=self.text(f"groups:start.{start}"), exact=True).check()
        expect(dialog.preview()).to_be_visible()
        dialog.done(self.text("groups:create.done", name=name))
        expect(self.heading).to_have_text(name)


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
        return tile.locator("[data-measured]").first

    @property
    def state(self) -> Locator:
        """The badge with the group's state, as its attribute `data-state`."""
        return self.page.locator("main [data-state]").first

    def set_paused(self, group: str, *, to: bool) -> None:
        """Pause the group, or resume it."""
        word = "pause" if to else "resume"
        self.page.locator(f"[data-do={word}]").click()
        dialog = PreviewDialog(self.visit, self.language)
        expect(dialog.previewed).to_contain_text(self.text(f"groups:{word}.means"))
        dialog.done(self.text(f"groups:{word}.done", group=group))

    def finding(self, code: str) -> Locator:
        """A finding of the diagnosis."""
        return self.page.locator(f"[data-finding={code}]")

    def change(self, what: str, group: str) -> str:
        """Skip the backlog ("skip") or undo the newest reset ("undo"); what its preview said."""
        self.button(f"groups:action.{what}").click()
        dialog = PreviewDialog(self.visit, self.language)
        expect(dialog.previewed).to_be_visible()
        said = dialog.previewed.inner_text()
        dialog.done(self.text(f"groups:{what}.done", group=group))
        return said

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
