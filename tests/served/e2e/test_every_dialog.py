"""Every dialog that a page opens by a button: it is well-formed and accessible, its own buttons are in sight, Escape leads back."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.served.e2e.furniture import GROUP, SUBJECT, Furniture
from tests.served.e2e.group_pages import GroupPage
from tests.served.e2e.pages import Inside, is_in_sight
from tests.served.e2e.preview_dialog import PreviewDialog
from tests.support.console.browser import DESKTOP, PHONE, Visit
from tests.support.whole import in_whole_story_runs

DIALOGS = {
    "messages": (
        ("/subjects", "subjects:create.title"),
        ("/subjects/{subject}?tab=messages", "messages:send.open"),
        ("/subjects/{subject}?tab=placement", "subjects:placement.change"),
        ("/subjects/{subject}?tab=settings", "subjects:archive.action"),
        ("/subjects/{subject}?tab=tail", "common:filter.saved"),
        ("/groups", "groups:create.title"),
        ("/groups/{subject}/{group}", "groups:action.pause"),
        ("/groups/{subject}/{group}", "groups:action.skip"),
        ("/groups/{subject}/{group}", "groups:action.reset"),
        ("/groups/{subject}/{group}", "groups:action.forget"),
        ("/groups/{subject}/{group}", "groups:about.edit"),
        ("/dead-letters/{subject}/{group}", "dead_letters:action.replay_all"),
        ("/dead-letters/{subject}/{group}", "dead_letters:action.delete_all"),
        ("/outbox", "outbox:register.action"),
        ("/outbox/{outbox}", "outbox:test.action"),
        ("/outbox/{outbox}", "outbox:resend.all"),
        ("/outbox/{outbox}", "outbox:discard.all"),
    ),
    "control": (
        ("/brokers", "brokers:add.open"),
        ("/brokers", "brokers:rehearse.open"),
        ("/brokers/{broker_group}", "brokers:action.describe.open"),
        ("/brokers/{broker_group}", "brokers:action.read-only.open"),
        ("/brokers/{broker_group}", "brokers:action.drain.open"),
        ("/brokers/{broker_group}", "brokers:copies.open"),
        ("/alerts?tab=rules", "alert_pages:rule.create"),
        ("/alerts?tab=channels", "alert_pages:channel.create"),
        ("/alerts?tab=silences", "alerts:silence.create"),
        ("/jobs", "jobs:disable"),
        ("/audit", "audit:verify.start"),
        ("/events", "events:report.title"),
    ),
    "people": (
        ("/users", "users:create.title"),
        ("/users/{user}", "users:edit.title"),
        ("/users/{user}", "users:end_sessions.title"),
        ("/users/{user}", "users:unlock.title"),
        ("/users/{user}", "users:disable.title"),
        ("/teams", "teams:create.title"),
        ("/teams/{team}", "teams:members.edit"),
        ("/teams/{team}", "teams:describe.title"),
        ("/tokens", "tokens:create.title"),
        ("/account", "account:sessions.end_others"),
    ),
}
"""By area: a page, and the text of the button."""


@in_whole_story_runs
@pytest.mark.parametrize("area", DIALOGS)
def test_it_is_well_formed_and_escape_leads_back(
    new_visit: Callable[..., Visit], furniture: Furniture, area: str
) -> None:
    inside = Inside(new_visit(user="ada"))
    dialog = inside.page.get_by_role("dialog")
    wrong: list[str] = []
    for pattern, key in DIALOGS[area]:
        inside.visit.open(furniture.address(pattern))
        inside.settles()
        button = inside.page.get_by_role("main").get_by_role("button", name=inside.text(key)).first
        try:
            button.click()
            expect(dialog).to_be_visible()
            expect(dialog.locator(".mantine-Loader-root")).to_have_count(0)
            inside.visit.axe_clean()
            for look in (PHONE, DESKTOP):
                inside.page.set_viewport_size({"width": look.width, "height": look.height})
                for action in dialog.locator(".dialog-footer button").all():
                    assert is_in_sight(action), f"{action.inner_text()} at {look.width} px"
            inside.page.keyboard.press("Escape")
            expect(dialog).to_have_count(0)
            expect(button).to_be_focused()
        except AssertionError as error:
            wrong.append(f"{pattern} {key}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.usefixtures("furniture")
def test_escape_closes_a_calendar_and_not_the_dialog_around_it(new_visit: Callable[..., Visit]) -> None:
    group = GroupPage(new_visit(user="ada")).open(SUBJECT, GROUP)
    group.page.locator("[data-do=reset]").click()
    dialog = PreviewDialog(group.visit).dialog.filter(has=group.page.locator("form"))
    dialog.get_by_role("radio", name=group.text("groups:reset.time"), exact=True).check()
    dialog.get_by_role("button", name=group.text("dates.choose", name="")).click()
    today = group.page.locator("[data-preset=today]")
    expect(group.page.locator(".dates table")).to_be_visible()
    group.visit.axe_clean()
    group.page.keyboard.press("Escape")
    expect(today).to_have_count(0)
    expect(dialog).to_be_visible()
