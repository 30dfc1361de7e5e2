"""A database is registered, its failed rows are looked at, resent and discarded."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from qmq.outbox.rows import Status
from tests.served.e2e.clients import consumer, receive_and_ack
from tests.served.e2e.furniture import outbox_of
from tests.served.e2e.outbox_pages import OutboxPage
from tests.served.e2e.preview_dialog import PreviewDialog
from tests.support.console.browser import Visit
from tests.support.console.business import Business, content
from tests.support.servers.system import System
from tests.support.waiting import eventually

NAME = "shop"
SUBJECT = "invoice.issued"
MEASURED_MS = 60_000
"""The worker counts rows every 15 s, beside its other jobs."""


@pytest.fixture
def business(console: System) -> Iterator[Business]:
    """An outbox with two refused messages and an invalid one. Its registration is deleted afterwards."""
    found = outbox_of(console, NAME)
    found.insert(*(content(SUBJECT, f"invoice-{number}") for number in (1, 2)), status=Status.REFUSED, errors=1)
    found.insert("{}", status=Status.INVALID, errors=1)
    yield found
    for row in console.get(f"/outbox/databases/?search={NAME}")["results"]:
        console.ask("DELETE", f"/outbox/databases/{row['id']}/")


def test_failed_rows_are_resent_and_discarded(
    console: System, business: Business, new_visit: Callable[..., Visit]
) -> None:
    page = OutboxPage(new_visit(user="ada")).open()
    page.register_sqlite(NAME, business.address.database)
    shop = page.database(NAME)
    expect(shop.locator('[data-cell="failed"]')).to_have_text("3", timeout=MEASURED_MS)
    expect(shop.locator('[data-cell="pending"]')).to_have_text("0")
    expect(shop.locator('[data-cell="oldest"]')).to_have_text(page.text("outbox:none"))

    rows = page.show_failed(NAME)
    expect(rows.rows).to_have_count(3)
    rows.choose("1", "2")
    expect(rows.change_chosen("resend")).to_contain_text(page.text("outbox:resend.will_other", shown="2"))
    expect(rows.apply()).to_contain_text(page.text("outbox:resend.did_other", shown="2"))
    rows.close_dialog()
    expect(rows.rows).to_have_count(1)
    with consumer(console, SUBJECT, "books") as reading:
        sent = receive_and_ack(reading, 2)
    assert {delivery.message_id for delivery in sent} == {"invoice-1", "invoice-2"}
    eventually(lambda: business.statuses() == [(Status.INVALID, 1)], what="sent rows are deleted")

    rows.choose("3")
    preview = rows.change_chosen("discard")
    expect(preview).to_contain_text(page.text("outbox:discard.means"))
    PreviewDialog(rows.visit).confirm.fill(NAME)
    expect(rows.apply()).to_contain_text(page.text("outbox:discard.did_one", shown="1"))
    rows.close_dialog()
    expect(rows.page.locator("[data-empty=failed]")).to_be_visible()
    assert business.statuses() == []

    page.open()
    page.delete(NAME)
    expect(page.database(NAME)).to_have_count(0)
