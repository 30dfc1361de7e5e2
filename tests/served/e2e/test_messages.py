"""Messages of a subject: browsed, searched, tailed as they come, and traced to who handled them."""

import json
import re
from collections.abc import Callable

from playwright.sync_api import Route, expect

from tests.served.e2e.clients import consumer, producer, receive_and_ack, wait_until_caught_up
from tests.served.e2e.subject_pages import SubjectPage
from tests.support.console.browser import Visit
from tests.support.servers.system import System
from tests.support.waiting import eventually

SCANNED_AT_ONCE = 2_000
"""Messages that one step of a search looks through (`api.views.messages.SCAN_DEFAULT`)."""


def test_browse_and_read_one(console: System, new_visit: Callable[..., Visit]) -> None:
    subject = "parcel.scanned"
    said = {"parcel": 17, "place": "北京"}
    with producer(console) as sending:
        first = sending.send(subject, json.dumps(said), tags=["express"])
        second = sending.send(subject, {"place": "Basel"})
    page = SubjectPage(new_visit(user="olga")).open(subject)
    ids = page.messages.locator("[data-cell=message_id]")
    expect(ids).to_have_count(2)
    assert set(ids.all_inner_texts()) == {first.message_id, second.message_id}
    place = page.messages.filter(has_text=first.message_id).get_attribute("data-row") or ""
    expect(page.cell(place, "tags")).to_have_text("express")
    message = page.open_message(place)
    body = message.locator("[data-body]")
    expect(body).to_have_attribute("data-body", "json")
    assert json.loads(body.inner_text()) == said
    message.get_by_role("radiogroup", name=page.text("message:body.format")).get_by_text(
        page.text("message:body.hex"), exact=True
    ).click()
    expect(body).to_contain_text(" ".join(f"{byte:02x}" for byte in json.dumps(said).encode()[:8]))
    page.close_message()
    expect(ids).to_have_count(2)


def test_search_by_property_with_progress(console: System, new_visit: Callable[..., Visit]) -> None:
    subject = "parcel.weighed"
    messages = 2 * SCANNED_AT_ONCE + 1
    with producer(console) as sending:
        for number in range(messages):
            sending.send_soon(subject, {"region": "eu" if number % 1_000 == 0 else "us", "number": str(number)})
        sending.flush()
    page = SubjectPage(new_visit(user="olga")).open(subject)
    held: list[Route] = []
    # The second step waits until the test has seen how far the first came.
    page.page.route(re.compile(r"/messages/search/.*cursor="), lambda route: held.append(route), times=1)
    found = page.search("region=eu")
    expect(found).to_have_attribute("data-search", "running")
    bar = found.get_by_role("progressbar")
    expect(bar).to_have_attribute("aria-valuenow", re.compile(r"^\d\d(\.\d+)?$"))
    # Any question to the page lets playwright tell what happened meanwhile.
    [second] = eventually(lambda: page.page.evaluate("1") and held, what="the second step is asked for")
    second.continue_()
    expect(found).to_have_attribute("data-search", "finished")
    expect(bar).to_have_attribute("aria-valuenow", "100")
    parts = {"found": page.text("messages:search.found_other", shown="5")}
    parts["done"] = page.text("messages:search.done_other", shown=f"{messages:,}")
    expect(found).to_contain_text(page.text("messages:search.sums", **parts))
    expect(page.messages).to_have_count(5)
    place = page.messages.first.get_attribute("data-row") or ""
    expect(page.open_message(place).get_by_role("row", name="region")).to_contain_text("eu")


def test_a_message_is_seen_as_it_is_sent_and_traced(console: System, new_visit: Callable[..., Visit]) -> None:
    subject, group = "parcel.delivered", "billing"
    with producer(console) as sending, consumer(console, subject, group) as reading:
        sending.send(subject, {"place": "before"})
        receive_and_ack(reading, 1)
        page = SubjectPage(new_visit(user="olga")).open(subject, tab="tail")
        expect(page.page.get_by_role("tabpanel").locator("[data-live=live]")).to_be_visible()
        expect(page.page.get_by_role("tabpanel").locator("[data-unreachable]")).to_have_count(0)
        expect(page.messages).to_have_count(0)
        receipt = sending.send(subject, {"place": "Basel"})
        expect(page.messages).to_have_count(1)
        expect(page.messages).to_contain_text(receipt.message_id)
        receive_and_ack(reading, 1)
        wait_until_caught_up(console, subject, group)
        place = page.messages.get_attribute("data-row") or ""
        _expect_trace(page, place, group)


def _expect_trace(page: SubjectPage, place: str, group: str) -> None:
    """From the open list of messages to one's trace: stored, pulled by the group's only consumer, acked."""
    page.open_message(place).get_by_role("link", name=page.text("messages:one.trace")).click()
    expect(page.heading).to_have_text(page.text("trace:of", place=place.replace(":", " · ")))
    stored = page.page.get_by_role("list", name=page.text("trace:section.beginning"))
    expect(stored.locator("[data-step=stored]")).to_be_visible()
    happened = page.page.get_by_role("list", name=page.text("trace:steps_of", group=group)).locator("[data-step]")
    expect(happened).to_have_text([_step(page, "pulled", f"{group}-1"), _step(page, "acked")])
    expect(page.page.locator(f'[data-group="{group}"] [data-state]')).to_have_attribute("data-state", "acked")


def _step(page: SubjectPage, kind: str, consumer_id: str = "") -> re.Pattern[str]:
    """What a step says: what it is, when it was, and who did it."""
    return re.compile(rf"{re.escape(page.text(f'trace:step.{kind}'))}.*\d\d:\d\d:\d\d.*{consumer_id}", re.DOTALL)
