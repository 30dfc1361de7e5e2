"""Stories of a group that lags: why, in a sentence with the button that helps; a new group; a skipped backlog, and its undo."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.served.e2e.clients import consumer, producer, receive_and_ack, wait_until_caught_up
from tests.served.e2e.group_pages import GroupPage, GroupsPage
from tests.served.e2e.looks import LOOKS, MOSTLY_TWO, name_of
from tests.support.console.browser import Look, Visit
from tests.support.servers.system import System

GROUP = "printer"
READ, UNREAD = 2, 5


@pytest.mark.parametrize("look", LOOKS)
def test_a_backlog_is_explained_skipped_and_restored(
    console: System, new_visit: Callable[..., Visit], look: Look, request: pytest.FixtureRequest
) -> None:
    subject = f"label.printed.{name_of(request)}"
    with producer(console) as sending:
        for number in range(READ):
            sending.send(subject, {"number": str(number)})
        with consumer(console, subject, GROUP) as reading:
            receive_and_ack(reading, READ)
        wait_until_caught_up(console, subject, GROUP)
        ids = {sending.send(subject, {"number": str(READ + number)}).message_id for number in range(UNREAD)}
    group = GroupPage(new_visit(look, user="ada"), look.locale[:2]).open(subject, GROUP)
    finding = group.finding("no_consumers")
    expect(finding).to_contain_text(group.text("groups:diagnosis.no_consumers"))
    expect(finding).to_contain_text(group.text("groups:diagnosis.waiting_other", number=str(UNREAD)))
    expect(group.number("lag")).to_have_text(str(UNREAD))
    group.fits_its_width()
    group.visit.axe_clean()

    group.button("groups:help.start").click()
    expect(group.page.get_by_role("dialog")).to_contain_text(f"qmq consume {subject} {GROUP}")
    group.page.keyboard.press("Escape")

    assert group.text("groups:preview.skipped_other", number=str(UNREAD)) in group.change("skip", GROUP)
    expect(group.number("lag")).to_have_text("0")
    assert group.text("groups:preview.repeated_other", number=str(UNREAD)) in group.change("undo", GROUP)
    expect(group.number("lag")).to_have_text(str(UNREAD))
    with consumer(console, subject, GROUP) as reading:
        assert {one.message_id for one in receive_and_ack(reading, UNREAD)} == ids
        expect(group.finding("keeping_up")).to_be_visible()


@pytest.mark.parametrize("look", MOSTLY_TWO)
def test_a_group_is_created_and_starts_where_it_was_told(
    console: System, new_visit: Callable[..., Visit], look: Look, request: pytest.FixtureRequest
) -> None:
    subject = f"label.ordered.{name_of(request)}"
    with producer(console) as sending:
        ids = {sending.send(subject, {"number": str(number)}).message_id for number in range(UNREAD)}
    groups = GroupsPage(new_visit(look, user="ada"), look.locale[:2]).open(subject)
    groups.create(subject, GROUP, "earliest")
    group = GroupPage(groups.visit, groups.language)
    expect(group.number("lag")).to_have_text(str(UNREAD))
    expect(group.finding("no_consumers")).to_be_visible()
    # Its own start is ignored: the group is there already.
    with consumer(console, subject, GROUP) as reading:
        assert {one.message_id for one in receive_and_ack(reading, UNREAD)} == ids


def test_a_consumer_that_holds_messages_is_named_and_can_be_paused(
    console: System, new_visit: Callable[..., Visit]
) -> None:
    subject = "label.pulled"
    with producer(console) as sending:
        sending.send(subject, {"number": "1"})
    with consumer(console, subject, GROUP) as reading:
        [delivery] = reading.pull(1, timeout=10)
        group = GroupPage(new_visit(user="ada")).open(subject, GROUP)
        row = group.row(f"{GROUP}-1")
        expect(row.locator("[data-cell=in_flight]")).to_have_text("1")
        expect(row.locator("[data-cell=unacked] [data-measured]")).to_be_visible()
        delivery.ack()
        expect(row.locator("[data-cell=in_flight]")).to_have_text("0")


def test_the_first_screen_answers_why_it_lags(console: System, new_visit: Callable[..., Visit]) -> None:
    subject = "label.queued"
    with producer(console) as sending:
        for number in range(UNREAD):
            sending.send(subject, {"number": str(number)})
    with consumer(console, subject, GROUP) as reading:
        receive_and_ack(reading, READ)
        group = GroupPage(new_visit(user="ada")).open(subject, GROUP)
        group.settles()
        for part in ("[data-diagnosis]", '[data-tile="Lag"]', ".chart-frame >> nth=0", f'[data-row="{GROUP}-1"]'):
            box = group.page.locator(part).bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= group.page.viewport_size["height"], part
