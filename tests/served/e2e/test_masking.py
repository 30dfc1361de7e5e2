"""An administrator hides a value of messages; an operator then sees the message without it, and the rule as the reason."""

import json
from collections.abc import Callable

from playwright.sync_api import expect

from tests.served.e2e.clients import producer
from tests.served.e2e.preview_dialog import PreviewDialog
from tests.served.e2e.subject_pages import SubjectPage
from tests.support.console.browser import PHONE, Visit
from tests.support.servers.system import System

SUBJECT = "card.charged"
SECRET = "4111111111111111"


def test_a_rule_is_set_and_an_operator_sees_the_masked_message(
    console: System, new_visit: Callable[..., Visit]
) -> None:
    with producer(console) as sending:
        sending.send(SUBJECT, {"card": SECRET, "data": json.dumps({"email": "ada@example.com", "sum": 17})})
    page = SubjectPage(new_visit(user="ada")).open(SUBJECT, tab="settings")
    part = page.page.locator("[data-part=masking]")
    part.locator("[data-action=add-rule]").click()
    rule = page.text("subjects:masking.rule", number="1")
    for field, value in (("properties", "card*"), ("json_paths", "email")):
        box = part.get_by_label(f"{rule}: {page.text(f'subjects:masking.{field}')}", exact=True).locator("visible=true")
        box.fill(value)
        box.press("Enter")
    part.locator("[data-action=preview-masking]").click()
    preview = part.locator("[data-masking-preview=operator]")
    expect(preview.locator("[data-masked]")).to_have_attribute("data-masked", "2")
    assert SECRET not in preview.inner_text()
    page.visit.axe_clean()
    part.locator("[data-action=save-masking]").click()
    dialog = PreviewDialog(page.visit, page.language)
    expect(dialog.previewed).to_contain_text("card*, email")
    dialog.done(page.text("subjects:masking.done", name=SUBJECT))

    for screen in ({}, {"device": PHONE}):
        seen = SubjectPage(new_visit(*screen.values(), user="olga")).open(SUBJECT)
        place = seen.messages.first.get_attribute("data-row") or ""
        message = seen.open_message(place)
        expect(message.locator("[data-masked]")).to_contain_text(
            seen.text("message:masks.hide", rule="card*", property="card")
        )
        body = message.locator("[data-body]")
        expect(body).to_contain_text("••••")
        expect(body).to_contain_text("17")
        assert SECRET not in seen.page.content()
        seen.visit.axe_clean()
    seen = SubjectPage(new_visit(user="ada")).open(SUBJECT)
    message = seen.open_message(seen.messages.first.get_attribute("data-row") or "")
    expect(message.get_by_role("row", name="card")).to_contain_text(SECRET)
