"""What operators do most, each from the first screen to its end without documentation. Tasks with more to them have modules of
their own.
"""

from collections.abc import Callable
from contextlib import closing

import pytest
from playwright.sync_api import Browser, expect

from tests.served.e2e.clients import producer
from tests.served.e2e.looks import MOSTLY_ONE, MOSTLY_TWO, name_of
from tests.served.e2e.pages import Inside
from tests.served.e2e.preview_dialog import PreviewDialog
from tests.served.e2e.subject_pages import SubjectPage
from tests.served.e2e.visits import Visits
from tests.support.console.browser import Look, Visit
from tests.support.servers.shared import NewSystems
from tests.support.servers.system import WHOLE, Person, System
from tests.support.waiting import ASK_SECONDS, eventually

DRAINED_MS = 60_000
"""Two runs of the job that moves subjects, on a busy machine."""


@pytest.mark.parametrize("look", MOSTLY_TWO)
def test_messages_are_seen_as_they_arrive(
    console: System, new_visit: Callable[..., Visit], look: Look, request: pytest.FixtureRequest
) -> None:
    subject = f"tail.watched.{name_of(request)}"
    with producer(console) as sending:
        sending.send(subject, {"data": "before the tail"})
        page = SubjectPage(new_visit(look, user="olga"), look.locale[:2]).open(subject, tab="tail")
        expect(page.page.get_by_role("tabpanel").locator("[data-live=live]")).to_be_visible()
        sending.send(subject, {"data": "number 1", "region": "eu"})
        expect(page.messages).to_have_count(1)
        expect(page.messages.first).to_contain_text("number 1")
        page.button("messages:tail.pause").click()
        sending.send(subject, {"data": "number 2", "region": "us"})
        expect(page.page.get_by_text(page.text("messages:tail.waiting", shown="1"), exact=True)).to_be_visible()
        expect(page.messages).to_have_count(1)
        page.button("messages:tail.resume").click()
        expect(page.messages).to_have_count(2)
    expect(page.messages.first).to_contain_text("number 2")
    page.fits_its_width()
    page.visit.axe_clean()


@pytest.mark.parametrize("look", MOSTLY_TWO)
def test_who_changed_what_is_found(
    console: System, new_visit: Callable[..., Visit], look: Look, request: pytest.FixtureRequest
) -> None:
    subject = f"audit.looked.up.{name_of(request)}"
    console.post("/subjects/", {"name": subject, "description": "the first one"})
    assert console.ask("PATCH", f"/subjects/{subject}/", {"description": "the second one"}).status == 200
    inside = Inside(new_visit(look, user="ada"), look.locale[:2])
    inside.visit.open(f"/audit?search={subject}")
    inside.settles()
    rows = inside.page.locator("[data-row]")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("subject.update")
    rows.first.get_by_role("button").first.click()
    entry = inside.page.get_by_role("dialog")
    expect(entry.locator('[data-row="description"]')).to_contain_text("the first one")
    expect(entry.locator('[data-row="description"]')).to_contain_text("the second one")
    expect(entry).to_contain_text("admin")
    inside.fits_its_width()
    inside.visit.axe_clean()


@pytest.mark.parametrize("look", MOSTLY_TWO)
def test_an_action_is_done_from_anywhere_by_its_words(
    console: System, new_visit: Callable[..., Visit], look: Look, request: pytest.FixtureRequest
) -> None:
    subject = f"jump.to.{name_of(request)}"
    console.post("/subjects/", {"name": subject})
    inside = Inside(new_visit(look, user="ada"), look.locale[:2])
    inside.visit.open("/jobs")
    inside.settles()
    inside.page.get_by_role("button", name=inside.text("jump.open")).first.click()
    box = inside.page.get_by_role("combobox", name=inside.text("jump.placeholder"))
    expect(box).to_be_focused()
    word = inside.text("jump.word.send").split(",")[0]
    box.fill(f"{word} {subject}")
    option = inside.page.get_by_role("option", name=inside.text("jump.verb.send", name=subject))
    expect(option).to_have_attribute("aria-selected", "true")
    inside.page.keyboard.press("Enter")
    expect(inside.heading).to_have_text(subject)
    dialog = PreviewDialog(inside.visit, inside.language)
    dialog.dialog.get_by_label(inside.text("messages:send.body"), exact=True).fill("sent by its words")
    dialog.done(inside.text("messages:send.done"))
    expect(inside.page.locator("[data-row]").first).to_contain_text("sent by its words")


@pytest.mark.parametrize("look", MOSTLY_TWO)
def test_a_colleague_gets_an_account_and_a_script_a_token(
    new_visit: Callable[..., Visit], look: Look, request: pytest.FixtureRequest
) -> None:
    inside = Inside(new_visit(look, user="ada"), look.locale[:2])
    name = f"nora.{name_of(request)}"
    inside.visit.open("/users")
    inside.settles()
    inside.button("users:create.title").click()
    dialog = PreviewDialog(inside.visit, inside.language)
    dialog.dialog.get_by_label(inside.text("users:column.username")).fill(name)
    dialog.dialog.get_by_label(inside.text("users:field.role"), exact=True).select_option("operator")
    dialog.apply.click()
    made = inside.page.get_by_role("dialog", name=inside.text("users:create.password_title", name=name))
    password = made.locator("[data-secret]").inner_text().strip().split()[-1]
    made.locator("[data-action=kept]").click()
    expect(inside.page.get_by_role("dialog")).to_have_count(0)

    theirs = Inside(new_visit(look), look.locale[:2])
    theirs.visit.sign_in(name, password)
    theirs.visit.open("/tokens")
    theirs.settles()
    theirs.button("tokens:create.title").click()
    dialog = PreviewDialog(theirs.visit, theirs.language)
    dialog.dialog.get_by_label(theirs.text("tokens:column.name"), exact=True).fill("deploys")
    dialog.apply.click()
    expect(theirs.page.get_by_role("dialog", name=theirs.text("tokens:create.made"))).to_contain_text("qmq_")


@pytest.mark.parametrize("look", MOSTLY_ONE)
def test_a_broker_group_is_drained(browser: Browser, new_system: NewSystems, look: Look) -> None:
    system = new_system(**{**WHOLE, "groups": 2, "delays": 0}, people=(Person("ada", "admin"),))
    system.start()
    with producer(system) as sending:
        sending.send("moved.away", {"data": "no group reads it"})
    eventually(lambda: system.group("g2")["subjects"] == 1, what="the subject is on both groups", every_s=ASK_SECONDS)
    with closing(Visits(browser, system.url)) as visits:
        visit = visits(look, user="ada")
        inside, dialog = Inside(visit, look.locale[:2]), PreviewDialog(visit, look.locale[:2])
        visit.open("/brokers/g2")
        inside.settles()
        inside.page.locator("[data-do=drain]").click()
        expect(dialog.dialog).to_contain_text(inside.text("brokers:action_means.drain"))
        dialog.confirm.fill("g2")
        dialog.done(inside.text("brokers:action.drain.done", name="g2"))
        expect(inside.page.get_by_text(inside.text("brokers:drain.closed"))).to_be_visible()
        expect(inside.page.get_by_text(inside.text("brokers:drain.moved"))).to_be_visible(timeout=DRAINED_MS)
        visit.axe_clean()
        inside.fits_its_width()
        assert visit.problems() == []
    assert system.group("g2")["subjects"] == 0
