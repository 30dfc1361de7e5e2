"""Demo data on the Analytics page: its range is named, and an administrator can have it replaced."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from tests.served.e2e.pages import Inside
from tests.support.console.browser import Visit
from tests.support.servers.system import System

PUBLISH = """
from datetime import UTC, datetime
import django
django.setup()
from console.analytics import services
from console.analytics.models import DEMO_JOB, AnalyticsRun
from console.analytics.steps import Step
if {is_there}:
    run = services.start_run(DEMO_JOB, from_at=datetime(2026, 11, 8, tzinfo=UTC), to_at=datetime(2026, 11, 22, tzinfo=UTC))
    services.publish(run, "lag", [], step=Step.HOUR)
    services.finish_run(run, watermark_at=run.to_at)
else:
    AnalyticsRun.objects.filter(job=DEMO_JOB).delete()
"""


@pytest.fixture
def demo_data(console: System) -> Iterator[None]:
    console.python("-c", PUBLISH.format(is_there=True))
    try:
        yield
    finally:
        console.python("-c", PUBLISH.format(is_there=False))


@pytest.mark.usefixtures("demo_data")
def test_demo_data_is_named_and_can_be_replaced(new_visit: Callable[..., Visit]) -> None:
    inside = Inside(new_visit(user="ada"))
    inside.visit.open("/analytics")
    inside.settles()
    notice = inside.page.locator("[data-demo-notice]")
    expect(notice).to_contain_text("2026-11-08")
    expect(notice).to_contain_text("2026-11-22")
    expect(notice).to_contain_text(inside.text("analytics:demo.kept"))
    inside.visit.axe_clean()
    notice.get_by_role("button").click()
    dialog = inside.page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name=inside.text("analytics:demo.replace"))).to_be_enabled()
    inside.visit.axe_clean()
    inside.page.set_viewport_size({"width": 390, "height": 844})
    inside.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    # The menu slides out of a narrower window.
    inside.page.wait_for_function("() => document.scrollingElement.scrollWidth <= innerWidth")
