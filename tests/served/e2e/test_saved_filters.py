"""Filters of messages: saved where one is used, used by a colleague elsewhere; bodies in the subject's format."""

from collections.abc import Callable

import msgpack
import pytest
from playwright.sync_api import expect

from tests.served.e2e.clients import producer
from tests.served.e2e.looks import EN_DESKTOP, ZH_PHONE
from tests.served.e2e.subject_pages import SubjectPage
from tests.support.console.browser import Look, Visit
from tests.support.servers.system import System
from tests.support.waiting import eventually


@pytest.mark.parametrize("look", [EN_DESKTOP, ZH_PHONE])
def test_a_filter_is_saved_and_used_to_find_a_message_in_msgpack(
    console: System, new_visit: Callable[..., Visit], look: Look, request: pytest.FixtureRequest
) -> None:
    subject = f"parcel.packed.{request.node.callspec.id}"
    with producer(console) as sending:
        for weight in (5, 17):
            sending.send(subject, msgpack.packb({"parcel": "A-1", "weight": weight}))
    language = look.locale[:2]
    page = SubjectPage(new_visit(look, user="olga"), language).open(subject, tab="settings")
    page.page.get_by_label(page.text("subjects:field.body_format")).select_option("msgpack")
    page.page.locator("[data-action=save]").click()
    dialog = page.page.get_by_role("dialog")
    expect(dialog.locator("[data-preview]")).to_be_visible()
    dialog.locator("[data-action=apply]").click()
    expect(dialog).to_have_count(0)

    page.open(subject)
    # The first search of a node starts a process of low priority: on a busy machine it does not answer in time.
    eventually(lambda: _finds(page, "body.weight > 10"))
    expect(page.messages).to_have_count(1)
    page.page.get_by_role("button", name=page.text("filter.saved")).click()
    dialog.locator("[data-action=save-filter]").click()
    dialog.get_by_label(page.text("field.name")).fill("heavy")
    page.visit.axe_clean()
    dialog.locator("[data-action=apply]").click()
    line = dialog.locator("[data-saved-filter=heavy]")
    expect(line).to_contain_text("body.weight > 10")
    expect(line).to_contain_text(page.text("saved_filters:who.own"))
    page.visit.axe_clean()
    page.page.keyboard.press("Escape")
    page.messages.first.click()
    expect(page.message.locator("[data-decoding=msgpack]")).to_be_visible()
    expect(page.message.locator("[data-body=json]")).to_contain_text("weight")

    page.open(subject, tab="tail")
    page.page.get_by_role("button", name=page.text("filter.saved")).click()
    dialog.get_by_role("button", name="heavy", exact=True).click()
    expect(page.page.get_by_role("textbox", name=page.text("filter.label"))).to_have_value("body.weight > 10")
    expect(page.page.get_by_role("tabpanel").locator("[data-live=live]")).to_be_visible()


def _finds(page: SubjectPage, text: str) -> bool:
    expect(page.search(text)).to_have_attribute("data-search", "finished")
    return page.page.locator("[data-unreachable]").count() == 0
