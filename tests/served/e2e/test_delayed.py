"""Delayed messages are moved, cancelled and delivered by hand; what became of them is asked of the brokers."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from tests.served.e2e.delayed_page import DelayedPage
from tests.served.e2e.looks import MOSTLY_TWO, name_of
from tests.support.console.browser import DESKTOP, Look, Visit
from tests.support.servers.processes import Command
from tests.support.servers.system import System
from tests.support.waiting import ASK_SECONDS, eventually

IN_UTC = replace(DESKTOP, timezone="UTC")
MOVED_SECONDS = 8
"""Until the new due time: longer than the change takes on the page."""
READ_SECONDS = 90.0


def _send(console: System, subject: str, *names: str, delay: str) -> None:
    lines = "".join(f'{{"name": "{name}"}}\n' for name in names).encode()
    sent = console.qmq("produce", subject, "--file", "-", "--delay", delay, stdin=lines)
    assert sent.returncode == 0, sent.stderr
    eventually(
        lambda: console.ask("GET", f"/subjects/{subject}/").status == 200,
        what="the metaserver has stored the subject",
        every_s=ASK_SECONDS,
    )


def _reader(console: System, subject: str, count: int) -> Command:
    """A consumer that ends by itself, after so many messages or for want of them."""
    return console.qmq_soon(
        "consume", subject, "reader", "--from", "earliest", "--count", str(count), "--timeout", str(READ_SECONDS)
    )


def _names(output: str) -> list[str]:
    return [json.loads(line)["properties"]["name"] for line in output.splitlines()]


@pytest.mark.parametrize("look", MOSTLY_TWO)
def test_a_message_is_moved_and_a_cancelled_one_can_not_be_delivered_any_more(
    new_visit: Callable[..., Visit], console: System, look: Look, request: pytest.FixtureRequest
) -> None:
    subject = f"reminders.{name_of(request)}"
    _send(console, subject, "kept", "moved", "early", delay="1h")
    page = DelayedPage(new_visit(replace(look, timezone="UTC"), user="olga"), look.locale[:2]).open(subject)
    reader = _reader(console, subject, 2)
    for name in ("kept", "moved", "early"):
        expect(page.row(name)).to_contain_text(page.text("delayed:state.pending"))
    expect(page.counted(3)).to_have_count(1)

    page.look_at("early")
    page.begin("deliver")
    expect(page.previewed).to_contain_text(page.text("delayed:change.deliver.what"))
    page.go_on("deliver")
    page.leave()
    eventually(lambda: _names(reader.output()) == ["early"], what="the early one comes at once")

    _send(console, subject, "doomed", delay="1h")
    page.refresh()
    doomed = page.message_id("doomed")
    page.look_at("doomed")
    page.begin("cancel")
    expect(page.previewed).to_contain_text(page.text("delayed:change.cancel.what"))
    page.go_on("cancel")
    expect(page.drawer.locator("[data-copy=cancelled]")).to_be_visible()
    page.leave()
    late = console.ask("POST", "/delayed-messages/deliver/", {"message_id": doomed, "subject": subject})
    assert (late.status, late.body["code"]) == (409, "delayed.too_late")

    page.look_at("moved")
    page.begin("reschedule")
    moved_to = datetime.now(UTC) + timedelta(seconds=MOVED_SECONDS)
    page.give_due_time(moved_to)
    expect(page.previewed).to_contain_text(page.text("delayed:column.due_at"))
    page.go_on("reschedule")
    page.leave()

    code, output = reader.finish(READ_SECONDS)
    assert (code, _names(output)) == (0, ["early", "moved"])
    assert datetime.now(UTC) >= moved_to.replace(microsecond=0)
    page.refresh()
    expect(page.row("kept")).to_contain_text(page.text("delayed:state.pending"))
    expect(page.counted(1)).to_have_count(1)


def test_what_is_delivered_already_is_too_late_to_cancel(new_visit: Callable[..., Visit], console: System) -> None:
    subject = "reminders-late"
    _send(console, subject, "gone", delay="1h")
    visit = new_visit(IN_UTC, user="olga")
    page = DelayedPage(visit).open(subject)
    message_id = page.message_id("gone")
    page.look_at("gone")
    expect(page.drawer.locator("[data-copy=pending]")).to_be_visible()
    console.post("/delayed-messages/deliver/", {"message_id": message_id, "subject": subject})
    code, output = _reader(console, subject, 1).finish(READ_SECONDS)
    assert (code, _names(output)) == (0, ["gone"])

    visit.expects(409, "/api/v1/delayed-messages/cancel/")
    page.begin("cancel")
    shown = rf"Too late: message {re.escape(message_id)} is already (moved|delivered)\. Nothing was changed\."
    expect(page.dialog.get_by_role("alert")).to_contain_text(re.compile(shown))
    expect(page.drawer.locator("[data-copy=delivered]")).to_be_visible()
