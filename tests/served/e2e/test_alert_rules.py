"""An alert rule is tried before it is made: what it would do now, and that no one would be notified; then it fires."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.served.e2e.looks import MOSTLY_TWO, name_of
from tests.served.e2e.pages import Inside
from tests.served.e2e.preview_dialog import PreviewDialog
from tests.support.console.browser import Look, Visit
from tests.support.servers.system import System
from tests.support.waiting import ASK_SECONDS, eventually

SUBJECT, GROUP = "ledger.booked", "archive"
MESSAGES = 6
FIRES_MS = 30_000
"""Two evaluations of the rules, on a busy machine."""


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


@pytest.mark.parametrize("look", MOSTLY_TWO)
def test_a_rule_says_what_it_would_do_before_it_is_made_and_then_fires(
    new_visit: Callable[..., Visit], lagging: str, look: Look, request: pytest.FixtureRequest
) -> None:
    visit = new_visit(look, user="olga")
    visit.open("/alerts?tab=rules")
    language = look.locale[:2]
    page, dialog = Inside(visit, language), PreviewDialog(visit, language)
    name = f"Archive behind {name_of(request)}"
    page.button("alert_pages:rule.create").click()
    form = dialog.dialog
    form.get_by_label(page.text("alerts:column.name")).first.fill(name)
    form.get_by_label(page.text("alerts:column.target")).fill(SUBJECT)
    threshold = form.get_by_label(page.text("alert_pages:rule.threshold", unit=page.text("alerts:unit.lag")))
    threshold.fill("100")
    form.get_by_label(page.text("alert_pages:rule.for_seconds")).first.fill("0")
    expect(form.locator("[data-warning=not_notified]")).to_be_visible()
    previewed = dialog.preview()
    expect(previewed.locator("[data-fires-now=false]")).to_be_visible()

    threshold.fill("5")
    previewed = dialog.preview()
    expect(previewed.locator("[data-fires-now=true]")).to_contain_text("1")
    expect(previewed.locator("[data-rule-preview] li").first).to_contain_text(f"{lagging} {MESSAGES}")
    expect(previewed.locator("[data-fired-before]")).to_be_visible()
    expect(previewed.locator("[data-warning=not_notified]")).to_be_visible()
    visit.axe_clean()
    dialog.done(page.text("alert_pages:rule.created", name=name))
    line = page.page.locator("[data-row]").filter(has_text=name)
    expect(line).to_contain_text(page.text("alerts:filter.not_notified"))
    page.page.get_by_role("tab", name=page.text("alerts:tab.alerts"), exact=True).click()
    fired = page.page.locator("[data-row]").filter(has_text=name).filter(has_text=lagging)
    expect(fired).to_contain_text(page.text("alerts:state.firing"), timeout=FIRES_MS)
    page.fits_its_width()
    visit.axe_clean()
