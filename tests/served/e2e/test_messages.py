"""Messages of a subject: browsed, searched, tailed as they come, and traced to who handled them."""

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.served.e2e.clients import consumer, producer, receive_and_ack, wait_until_caught_up
from tests.served.e2e.looks import LOOKS, MOSTLY_TWO, name_of
from tests.served.e2e.pages import is_in_sight
from tests.served.e2e.subject_pages import SubjectPage
from tests.support.console.browser import Look, Visit
from tests.support.drivers.in_process import now_ms
from tests.support.servers.system import System
from tests.support.waiting import eventually


@pytest.mark.parametrize("look", LOOKS)
def test_the_newest_message_is_seen_first_opened_and_left_for_the_next(
    console: System, new_visit: Callable[..., Visit], look: Look, request: pytest.FixtureRequest
) -> None:
    subject = f"parcel.scanned.{name_of(request)}"
    said = {"parcel": 17, "place": {"city": "北京", "gates": [1, 2]}}
    with producer(console) as sending:
        for number in range(20):
            sending.send(subject, {"data": f"number {number}", "region": "eu"})
        # The order of messages stored in the same millisecond is that of their broker groups.
        sent_ms = now_ms()
        eventually(lambda: now_ms() > sent_ms + 1)
        newest = sending.send(subject, json.dumps(said), tags=["express"])
    page = SubjectPage(new_visit(look, user="olga"), look.locale[:2]).open(subject)
    expect(page.messages).to_have_count(21)
    first = page.messages.first
    expect(first).to_contain_text('"parcel": 17, "place": {"city": "北京"')
    expect(page.messages.nth(1)).to_contain_text("region=eu")
    assert is_in_sight(first)
    if look.width > 600:
        assert is_in_sight(page.messages.nth(14)), "fifteen messages on the first screen"
    first.locator(".message-line").click()
    message = page.message
    expect(message).to_contain_text(newest.message_id)
    tree = message.locator("[data-body=json]")
    expect(
        tree.get_by_role("button", name=page.text("message:body.copy_path", path="body.place.gates[1]"))
    ).to_be_visible()
    tree.get_by_role("button", name=page.text("message:body.fold", path="body.place"), exact=True).click()
    expect(tree.get_by_role("button", name=page.text("message:body.unfold", path="body.place"))).to_be_visible()
    expect(tree).not_to_contain_text("gates:")
    message.get_by_role("radiogroup", name=page.text("message:body.format")).get_by_text(
        page.text("message:body.hex"), exact=True
    ).click()
    begin = " ".join(f"{byte:02x}" for byte in json.dumps(said).encode()[:8])
    expect(message.locator("[data-body=hex]")).to_contain_text(begin)
    page.page.get_by_role("button", name=page.text("messages:one.next"), exact=True).click()
    expect(page.message.locator("[data-body]")).to_have_text(re.compile(r"^number 1\d$"))
    page.page.keyboard.press("k")
    expect(page.message.locator("[data-body=json]")).to_be_visible()
    assert "message=" in page.page.url
    page.close_message()
    expect(page.messages).to_have_count(21)


def test_an_edited_copy_says_where_it_comes_from(console: System, new_visit: Callable[..., Visit]) -> None:
    subject, other = "parcel.lost", "parcel.found"
    with producer(console) as sending:
        sending.send(other, {"data": "first"})
        sending.send(subject, {"data": '{"place": "Basle"}', "region": "eu"})
    page = SubjectPage(new_visit(user="ada")).open(subject)
    page.messages.first.locator(".message-line").click()
    origin = page.message.get_attribute("data-message") or ""
    page.button("messages:one.edit").click()
    dialog = page.page.get_by_role("dialog", name=page.text("messages:send.title_copy", place=origin))
    dialog.get_by_label(page.text("messages:send.body"), exact=True).fill('{"place": "Basel"}')
    dialog.locator("[data-field=to_subject]").fill(other)
    dialog.locator("[data-action=preview]").click()
    expect(dialog.locator("[data-preview]")).to_contain_text(other)
    dialog.locator("[data-action=apply]").click()
    receipt = page.page.locator("[data-receipt]")
    expect(receipt).to_be_visible()
    copy_id = receipt.get_attribute("data-receipt") or ""
    page.open(other)
    expect(page.messages).to_have_count(2)
    page.messages.first.locator(".message-line").click()
    expect(page.message).to_contain_text(copy_id)
    expect(page.message.get_by_role("row", name="qmq_console_copy_of")).to_contain_text(
        f"{subject}/{origin.replace(':', '/')}"
    )


@pytest.mark.parametrize("look", LOOKS[:2])
def test_a_message_is_found_by_its_id_alone(console: System, new_visit: Callable[..., Visit], look: Look) -> None:
    subject = "parcel.weighed.twice"
    with producer(console) as sending:
        sent = sending.send(subject, {"data": "here"})
    page = SubjectPage(new_visit(look, user="vera"), look.locale[:2]).open(subject)
    page.page.keyboard.press("Control+k")
    page.page.get_by_role("combobox", name=page.text("jump.placeholder")).fill(sent.message_id)
    page.page.get_by_role("option", name=page.text("jump.trace", id=sent.message_id)).click()
    page.page.get_by_role("main").get_by_role("link", name=re.compile(r" · \d+$")).click()
    expect(page.heading).to_contain_text(page.text("trace:of", place="").strip())
    assert f"/trace/{subject}/" in page.page.url


@pytest.mark.parametrize("look", MOSTLY_TWO)
def test_a_search_finds_the_newest_matches_first_and_says_what_it_looked_at(
    console: System, new_visit: Callable[..., Visit], look: Look, request: pytest.FixtureRequest
) -> None:
    subject, messages = f"parcel.weighed.{name_of(request)}", 1_001
    with producer(console) as sending:
        for number in range(messages):
            sending.send_soon(subject, {"region": "eu" if number % 250 == 0 else "us", "number": str(number)})
        sending.flush()
    page = SubjectPage(new_visit(look, user="olga"), look.locale[:2]).open(subject)
    found = page.search("region=eu")
    expect(found).to_have_attribute("data-search", "finished")
    expect(found.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "100")
    parts = {"found": page.text("messages:search.found_other", shown="5")}
    parts["done"] = page.text("messages:search.done_other", shown=f"{messages:,}")
    expect(found).to_contain_text(page.text("messages:search.sums", **parts))
    expect(page.messages).to_have_count(5)
    place = page.messages.first.get_attribute("data-row") or ""
    expect(page.open_message(place).get_by_role("row", name="region")).to_contain_text("eu")
    page.close_message()
    found = page.search("region=mars")
    expect(found).to_have_attribute("data-search", "finished")
    left = (" and " if page.language == "en" else "和").join(
        page.text(f"messages:search.part.{part}") for part in ("body", "tags")
    )
    expect(found).to_contain_text(page.text("messages:search.not_searched", parts=left))


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
