"""Progress is set back in the browser, with a preview that says the truth; the consumer gets everything again."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.served.e2e.clients import consumer, producer, receive_and_ack
from tests.served.e2e.group_pages import GroupPage
from tests.served.e2e.looks import MOSTLY_TWO, name_of
from tests.support.console.browser import Look, Visit
from tests.support.servers.system import System

GROUP = "archive"
READ, UNREAD = 6, 3


@pytest.mark.parametrize("look", MOSTLY_TWO)
def test_reset_to_earliest(
    console: System, new_visit: Callable[..., Visit], look: Look, request: pytest.FixtureRequest
) -> None:
    subject = f"invoice.written.{name_of(request)}"
    with producer(console) as sending:
        ids = {sending.send(subject, {"number": str(number)}).message_id for number in range(READ)}
        with consumer(console, subject, GROUP) as reading:
            assert {one.message_id for one in receive_and_ack(reading, READ)} == ids
        ids |= {sending.send(subject, {"number": str(READ + number)}).message_id for number in range(UNREAD)}
    logs = dict(_logs(console, subject))
    assert sum(log["end_sequence"] - log["begin_sequence"] for log, _ in logs.values()) == READ + UNREAD

    group = GroupPage(new_visit(look, user="olga"), look.locale[:2]).open(subject, GROUP)
    expect(group.number("lag")).to_have_text(str(UNREAD))
    to_latest = group.begin_reset("latest").previewed
    expect(_said(to_latest, "skipped")).to_have_text(group.text("groups:preview.skipped_other", number=str(UNREAD)))
    expect(_said(to_latest, "repeated")).to_have_count(0)
    for name, (log, group_there) in logs.items():
        begin, end = group_there["next_sequence"], log["end_sequence"]
        expect(_numbers(to_latest, name)).to_have_text([str(begin), str(end), str(end - begin), "0"])

    dialog = group.preview_reset("earliest")
    expect(_said(dialog.previewed, "repeated")).to_have_text(
        group.text("groups:preview.repeated_other", number=str(READ))
    )
    expect(_said(dialog.previewed, "skipped")).to_have_count(0)
    for name, (log, group_there) in logs.items():
        begin, oldest = group_there["next_sequence"], log["begin_sequence"]
        expect(_numbers(dialog.previewed, name)).to_have_text([str(begin), str(oldest), "0", str(begin - oldest)])
    expect(dialog.apply).to_be_disabled()
    dialog.confirm.fill(GROUP[:-1])
    expect(dialog.apply).to_be_disabled()
    dialog.confirm.fill(GROUP)
    dialog.done(group.text("groups:reset.done", group=GROUP))
    expect(group.number("lag")).to_have_text(str(READ + UNREAD))
    with consumer(console, subject, GROUP) as reading:
        assert {one.message_id for one in receive_and_ack(reading, READ + UNREAD)} == ids
        expect(group.number("lag")).to_have_text("0")


def _logs(console: System, name: str) -> Iterator[tuple[str, tuple[dict[str, Any], dict[str, Any]]]]:
    """Of each broker that holds the subject, what it says of it and of the group."""
    for broker_group in console.brokers:
        for subject in console.admin(broker_group, f"/stats?subject={name}")["subjects"]:
            [group] = [one for one in subject["groups"] if one["group"] == GROUP]
            yield broker_group, (subject, group)


def _said(preview: Locator, what: str) -> Locator:
    return preview.locator(f"[data-says={what}]")


def _numbers(preview: Locator, broker_group: str) -> Locator:
    """From, to, skipped and repeated of one broker group."""
    return preview.get_by_role("row", name=broker_group).get_by_role("cell")
