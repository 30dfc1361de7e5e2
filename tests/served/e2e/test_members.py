"""A broker group of two members: the page shows both, an operator switches over, and the roles change on the open page."""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.served.e2e.looks import MOSTLY_ONE
from tests.served.e2e.preview_dialog import PreviewDialog
from tests.served.e2e.visits import Visits
from tests.support.console.browser import PHONE, Look, Visit
from tests.support.servers.shared import NewSystems
from tests.support.servers.system import Person, System
from tests.support.waiting import ASK_SECONDS, eventually

ROLES_MS = 30_000
"""Until the nodes have reported their new roles, on a busy machine."""


@pytest.fixture
def replicated(new_system: NewSystems) -> System:
    """A broker group of two members with its console; both are in sync."""
    system = new_system(groups=1, copies=2, console=True, people=(Person("ada", "admin"),))
    system.start()

    def roles() -> list[str]:
        return sorted(state["role"] for state in system.group("g1")["member_states"])

    eventually(lambda: roles() == ["in_sync", "master"], what="a master and a slave in sync", every_s=ASK_SECONDS)
    return system


@pytest.fixture
def visit_of_it(browser: Browser, replicated: System) -> Iterator[Callable[..., Visit]]:
    with closing(Visits(browser, replicated.url)) as visits:
        yield visits
        assert [line for one in visits.made for line in one.problems()] == []


def _role(dialog: PreviewDialog, node: str) -> Locator:
    found: Locator = dialog.row(node).locator("[data-role]")
    return found


@pytest.mark.parametrize("look", MOSTLY_ONE)
def test_roles_change_on_the_open_page(visit_of_it: Callable[..., Visit], replicated: System, look: Look) -> None:
    states = replicated.group("g1")["member_states"]
    master = next(state["node_id"] for state in states if state["is_master"])
    (slave,) = [state["node_id"] for state in states if state["node_id"] != master]
    visit = visit_of_it(look, user="ada")
    visit.open("/brokers/g1")
    page = PreviewDialog(visit, look.locale[:2])
    both = page.text("brokers:copies.in_sync", count="2", all="2")
    expect(page.page.locator("[data-copies]")).to_have_text(both)
    expect(_role(page, master)).to_have_attribute("data-role", "master")
    expect(_role(page, slave)).to_have_attribute("data-role", "in_sync")
    expect(page.cell(slave, "lag")).to_contain_text("0 B")
    visit.axe_clean()
    visit.page.evaluate("window.isTheSamePage = true")

    page.button("brokers:switch_over.open").click()
    page.dialog.get_by_label(page.text("brokers:switch_over.to")).select_option(slave)
    expect(page.preview()).to_contain_text(slave)
    visit.axe_clean()
    page.done(page.text("brokers:switch_over.done", name="g1"))

    expect(_role(page, slave)).to_have_attribute("data-role", "master", timeout=ROLES_MS)
    expect(_role(page, master)).to_have_attribute("data-role", "in_sync", timeout=ROLES_MS)
    node = page.page.locator(f'[data-node="{master}"] [data-verdict]')
    expect(node).to_have_attribute("data-verdict", "standby", timeout=ROLES_MS)
    history = page.page.get_by_role("region", name=page.text("brokers:history.title"), exact=True)
    expect(history.get_by_text(page.text("brokers:history.action.resign"), exact=True).first).to_be_visible()
    assert visit.page.evaluate("window.isTheSamePage") is True

    phone = visit_of_it(PHONE, user="ada")
    phone.open("/brokers/g1")
    page = PreviewDialog(phone)
    expect(_role(page, slave)).to_have_attribute("data-role", "master")
    page.settles()
    page.fits_its_width()
    phone.axe_clean()


def test_what_if_a_node_stops_and_a_rehearsal_that_is_undone(
    visit_of_it: Callable[..., Visit], replicated: System
) -> None:
    states = replicated.group("g1")["member_states"]
    master = next(state["node_id"] for state in states if state["is_master"])
    (slave,) = [state["node_id"] for state in states if state["node_id"] != master]
    visit = visit_of_it(user="ada")
    visit.open("/brokers/g1")
    page = PreviewDialog(visit)
    # Two copies are required, and one would be left.
    expect(page.cell(master, "stop")).to_contain_text(page.text("brokers:stop.may_not"))
    expect(page.cell(master, "stop")).to_contain_text(page.text("brokers:stop.takes_over", node=slave))
    page.cell(master, "stop").get_by_role("link").click()
    expect(page.dialog.get_by_role("alert")).to_contain_text("g1")
    expect(page.dialog).to_contain_text(page.text("rehearsals:stop.rejected"))
    visit.axe_clean()

    page.dialog.get_by_role("link", name=page.text("rehearsals:stop.rehearse"), exact=True).click()
    expect(page.dialog.get_by_label(page.text("rehearsals:what"))).to_have_value(f"node:{master}")
    result = page.dialog.locator('[data-row="g1"] [data-cell=result]')
    expect(result).to_have_text(page.text("rehearsals:planned"))
    visit.axe_clean()
    page.apply.click()
    expect(result).to_have_text(page.text("rehearsals:switched"), timeout=ROLES_MS)

    # Whoever opens the page next sees what is left, and switches back.
    phone = visit_of_it(PHONE, user="ada")
    phone.open("/brokers")
    page = PreviewDialog(phone)
    left = page.page.locator("[data-rehearsed]")
    expect(left).to_contain_text(f"g1 → {slave}", timeout=ROLES_MS)
    page.settles()
    page.fits_its_width()
    left.get_by_role("button", name=page.text("brokers:rehearse.switch_back"), exact=True).click()
    expect(page.apply).to_be_enabled(timeout=ROLES_MS)
    phone.axe_clean()
    page.apply.click()
    result = page.dialog.locator('[data-row="g1"] [data-outcome]')
    expect(result).to_have_attribute("data-outcome", "done", timeout=ROLES_MS)
    page.dialog.get_by_role("button", name=page.text("action.close"), exact=True).last.click()
    expect(left).to_have_count(0, timeout=ROLES_MS)
    assert replicated.group("g1")["master"] == master
