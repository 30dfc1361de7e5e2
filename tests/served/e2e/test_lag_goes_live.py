"""From a new subject to its consumer group's lag, which moves on the screen by itself."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.served.e2e.clients import consumer, group_stats, producer, receive, receive_and_ack
from tests.served.e2e.group_pages import GroupPage, GroupsPage
from tests.served.e2e.looks import MOSTLY_TWO, name_of
from tests.served.e2e.subject_pages import SubjectPage, SubjectsPage
from tests.support.console.browser import Look, Visit
from tests.support.servers.system import System
from tests.support.waiting import eventually

GROUP = "ledger"
FIRST, MORE = 3, 4


@pytest.mark.parametrize("look", MOSTLY_TWO)
def test_a_subject_is_made_and_its_groups_lag_is_seen_live(
    console: System, new_visit: Callable[..., Visit], look: Look, request: pytest.FixtureRequest
) -> None:
    subject, language = f"payment.made.{name_of(request)}", look.locale[:2]
    row = f"{subject}/{GROUP}"
    visit = new_visit(look, user="olga")
    SubjectsPage(visit, language).open().create(subject, owner="orders")
    page = SubjectPage(visit, language)
    page.go_to("messages:tab.messages")
    message_id = page.send('{"total": 12.5}')
    with consumer(console, subject, GROUP) as first:
        [delivery] = receive_and_ack(first, 1)
    assert (delivery.message_id, delivery.body) == (message_id, '{"total": 12.5}')

    group = GroupPage(visit, language).open(subject, GROUP)
    expect(group.number("lag")).to_have_text("0")
    beside = new_visit(look, user="vera")
    groups = GroupsPage(beside, language).open(subject)
    expect(groups.cell(row, "lag")).to_have_text("0")
    loads: list[str] = []
    for page_shown in (visit.page, beside.page):
        page_shown.on("load", lambda loaded: loads.append(loaded.url))

    def lag_is(number: int) -> None:
        expect(group.number("lag")).to_have_text(str(number))
        expect(groups.cell(row, "lag")).to_have_text(str(number))

    with producer(console) as sending:
        for number in range(FIRST):
            sending.send(subject, {"number": str(number)})
        lag_is(FIRST)
        for number in range(MORE):
            sending.send(subject, {"number": str(FIRST + number)})
        lag_is(FIRST + MORE)
    expect(group.number("consumers_online")).to_have_text("0")
    with consumer(console, subject, GROUP) as again:
        held = receive(again, FIRST + MORE)
        assert {one.properties["number"] for one in held} == {str(number) for number in range(FIRST + MORE)}
        for one in held[:FIRST]:
            one.ack()
        lag_is(MORE)
        expect(group.number("in_flight")).to_have_text(str(MORE))
        for one in held[FIRST:]:
            one.ack()
        lag_is(0)
        expect(groups.cell(row, "consumers_online")).to_have_text("1")
        expect(group.state).to_have_attribute("data-state", "caught_up")
    assert loads == []


@pytest.mark.parametrize("look", MOSTLY_TWO)
def test_a_paused_group_gets_nothing_until_it_is_resumed(
    console: System, new_visit: Callable[..., Visit], look: Look, request: pytest.FixtureRequest
) -> None:
    subject = f"payment.refunded.{name_of(request)}"
    with producer(console) as sending, consumer(console, subject, GROUP) as reading:
        sending.send(subject, {"number": "1"})
        receive_and_ack(reading, 1)
        group = GroupPage(new_visit(look, user="olga"), look.locale[:2]).open(subject, GROUP)
        expect(group.number("lag")).to_have_text("0")
        group.set_paused(GROUP, to=True)
        expect(group.state).to_have_attribute("data-state", "paused")
        # The page says so as soon as one broker holds to it.
        eventually(lambda: _is_paused_everywhere(console, subject), what="every broker holds to the pause")
        sending.send(subject, {"number": "2"})
        expect(group.number("backlog")).to_have_text("1")
        assert reading.pull(1, timeout=0.0) == []
        group.set_paused(GROUP, to=False)
        [delivery] = receive_and_ack(reading, 1)
        assert delivery.properties["number"] == "2"
        expect(group.state).to_have_attribute("data-state", "caught_up")
        expect(group.number("lag")).to_have_text("0")


def _is_paused_everywhere(console: System, subject: str) -> bool:
    found = group_stats(console, subject, GROUP)
    return found.keys() == console.brokers.keys() and all(stats["paused"] for stats in found.values())
