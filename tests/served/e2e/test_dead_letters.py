"""A message that nobody can handle ends as a dead letter, is looked into and replayed."""

import contextlib
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from qmq.sync import Consumer
from tests.served.e2e.clients import consumer, producer, receive
from tests.served.e2e.dead_letter_pages import LetterCountsPage
from tests.served.e2e.looks import MOSTLY_TWO, name_of
from tests.support.console.browser import Look, Visit
from tests.support.servers.system import System

GROUP = "mailing"
ATTEMPTS = 2
POISON = "no such street"


@pytest.mark.parametrize("look", MOSTLY_TWO)
def test_a_dead_letter_is_compared_and_replayed(
    console: System, new_visit: Callable[..., Visit], look: Look, request: pytest.FixtureRequest
) -> None:
    subject = f"address.changed.{name_of(request)}"
    with producer(console) as sending, consumer(console, subject, GROUP, attempts_max=ATTEMPTS) as reading:
        receipt = sending.send(subject, POISON)
        for attempt in range(1, ATTEMPTS + 1):
            assert _fail(reading) == attempt

        counts = LetterCountsPage(new_visit(look, user="olga"), look.locale[:2]).open()
        expect(counts.cell(f"{subject} {GROUP}", "open")).to_have_text("1")
        page = counts.go_to(subject, GROUP)
        expect(page.letters).to_have_count(1)
        place = page.letters.get_attribute("data-row") or ""
        expect(page.cell(place, "state")).to_have_text(page.text("dead_letters:state.open"))
        expect(page.cell(place, "message_id")).to_have_text(receipt.message_id)
        failed = page.text("dead_letters:why.failed_of", attempts=str(ATTEMPTS), max=str(ATTEMPTS))
        expect(page.cell(place, "attempts")).to_have_text(failed)
        expect(page.cell(place, "cause")).to_have_text("ValueError")

        page.open_letter(place)
        number = [page.text("dead_letters:attempts.number", number=str(attempt + 1)) for attempt in range(ATTEMPTS)]
        expect(page.attempts.locator("[data-attempt]")).to_have_text(
            [*number, page.text("dead_letters:attempts.letter")]
        )
        for what, says in (("consumer", f"^{GROUP}-1$"), ("pulled", r"\d\d:\d\d:\d\d"), ("ended", r"\d\d:\d\d:\d\d")):
            row = page.attempts.get_by_role("row", name=page.text(f"dead_letters:attempts.{what}"))
            expect(row.get_by_role("cell")).to_have_text([*[re.compile(says)] * ATTEMPTS, ""])
        expect(page.letter.locator("[data-cause]")).to_have_text(
            page.text("dead_letters:cause.of_other", cause="ValueError", failed=str(ATTEMPTS), count=str(ATTEMPTS))
        )
        expect(page.letter.locator("[data-body]")).to_have_text(POISON)

        page.replay_open_letter()
        [copy] = receive(reading, 1)
        assert (copy.body, copy.attempt) == (POISON, 1)
        copy.ack()
        page.close_letter()
        expect(page.cell(place, "state")).to_have_text(page.text("dead_letters:state.replayed"))
        counts.open()
        expect(counts.cell(f"{subject} {GROUP}", "open")).to_have_text("0")
        expect(counts.cell(f"{subject} {GROUP}", "replayed")).to_have_text("1")


def _fail(reading: Consumer) -> int:
    """Get the next message and fail to handle it; which attempt that was."""
    [delivery] = receive(reading, 1)
    with contextlib.suppress(ValueError), delivery:
        raise ValueError(delivery.body)
    return delivery.attempt


def test_dead_letters_of_a_cause_are_found_and_one_is_repaired(
    console: System, new_visit: Callable[..., Visit]
) -> None:
    subject, group, other = "address.imported", "cleaning", "address.repaired"
    with producer(console) as sending, consumer(console, subject, group, attempts_max=1) as reading:
        for error in (ValueError, KeyError, ValueError):
            sending.send(subject, f"raises {error.__name__}")
            [delivery] = receive(reading, 1)
            with contextlib.suppress(error), delivery:
                raise error(delivery.body)
        sending.send(other, "makes the subject")

        counts = LetterCountsPage(new_visit(user="olga")).open()
        expect(counts.page.locator("[data-causes-chart]")).to_contain_text("KeyError (1)")
        page = counts.go_to(subject, group)
        expect(page.letters).to_have_count(3)
        page.page.get_by_role("button", name="KeyError (1)", exact=True).click()
        expect(page.letters).to_have_count(1)
        place = page.letters.get_attribute("data-row") or ""
        page.open_letter(place)
        page.repair_open_letter("data", "mended", to=other)
        page.close_letter()
        expect(page.cell(place, "state")).to_have_text(page.text("dead_letters:state.replayed"))
    with consumer(console, other, "mended") as mended:
        bodies = {delivery.body for delivery in receive(mended, 2)}
        assert bodies == {"makes the subject", "mended"}
