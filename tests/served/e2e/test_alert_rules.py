"""An alert rule is tried before it is made: what it would do now, and that nobody would hear of it."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.served.e2e.pages import Inside
from tests.served.e2e.preview_dialog import PreviewDialog
from tests.support.console.browser import DESKTOP, PHONE, Look, Visit
from tests.support.servers.system import System
from tests.support.waiting import ASK_SECONDS, eventually

SUBJECT, GROUP = "ledger.booked", "archive"
MESSAGES = 6


@pytest.fixture(scope="module")
def lagging(console: System) -> str:
    """A consumer group that is behind by MESSAGES, as the collector has it too."""
    lines = "".join(f'{{"n": "{number}"}}\n' for number in range(MESSAGES + 1)).encode()
    assert console.qmq("produce", SUBJECT, "--file", "-", stdin=lines).returncode == 0
    assert console.qmq("consume", SUBJECT, GROUP, "--from", "earliest", "--count", "1").returncode == 0
    query = f"/alert-rules/preview/?kind=lag&threshold=5&target={SUBJECT}/{GROUP}"
    eventually(
        lambda: (found := console.ask("GET", query).body)["above"] == 1 and found["past"]["spans"],
        what="the collector knows the lag, and the history has it", every_s=ASK_SECONDS,
    )  # fmt: skip
    return f"{SUBJECT}/{GROUP}"


@pytest.mark.parametrize("look", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_rule_says_what_it_would_do_before_it_is_made(
    new_visit: Callable[..., Visit], lagging: str, look: Look
) -> None:
    visit = new_visit(look, user="olga")
    visit.open("/alerts?tab=rules")
    page, dialog = Inside(visit), PreviewDialog(visit)
    name = f"Archive behind {look.width}"
    page.button("alerts:rule.create").click()
    form = dialog.dialog
    form.get_by_label(page.text("alerts:column.name")).first.fill(name)
    form.get_by_label(page.text("alerts:column.target")).fill(SUBJECT)
    threshold = form.get_by_label(page.text("alerts:rule.threshold", unit=page.text("alerts:unit.lag")))
    threshold.fill("100")
    expect(form.locator("[data-warning=nobody]")).to_be_visible()
    previewed = dialog.preview()
    expect(previewed.locator("[data-fires-now=false]")).to_be_visible()

    threshold.fill("5")
    previewed = dialog.preview()
    expect(previewed.locator("[data-fires-now=true]")).to_contain_text("1")
    expect(previewed.locator("[data-rule-preview] li").first).to_contain_text(f"{lagging} {MESSAGES}")
    expect(previewed.locator("[data-fired-before]")).to_be_visible()
    expect(previewed.locator("[data-warning=nobody]")).to_be_visible()
    visit.axe_clean()
    dialog.done(page.text("alerts:rule.created", name=name))
    line = page.page.locator("[data-row]").filter(has_text=name)
    expect(line).to_contain_text(page.text("alerts:filter.nobody"))
