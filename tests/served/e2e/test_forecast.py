"""When a backlog will be worked off: analytics' forecast, as a band that continues the measured lag."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from tests.served.e2e.looks import MOSTLY_TWO
from tests.served.e2e.pages import Inside
from tests.support.console.browser import Look, Visit
from tests.support.servers.system import System

SUBJECT, GROUP = "harbour.unloaded", "cranes"
HOURS = 20
LAG = 3_600
PUBLISH = f"""
from datetime import timedelta
import django
django.setup()
from django.utils import timezone
from console.analytics import services
from console.analytics.steps import Step
from console.analytics.tables import TABLES
now = timezone.now().replace(minute=0, second=0, microsecond=0)

def publish(table, step, rows):
    unknown = {{column.name: None for column in TABLES[table].columns}}
    run = services.start_run(table, from_at=now - timedelta(days=1), to_at=now)
    services.publish(run, table, [
        {{
            **unknown, **row, "at_ms": int((now - timedelta(seconds=n * step.seconds)).timestamp() * 1000),
            "subject": "{SUBJECT}", "group": "{GROUP}",
        }}
        for n, row in enumerate(rows, start=1)
    ], step=step)
    services.finish_run(run, watermark_at=now)

publish("lag", Step.TEN_MINUTES, [
    {{"lag_messages_last": {LAG} + 10 * n, "lag_messages_max": {LAG} + 10 * n, "time_lag_seconds_max": 900.0}}
    for n in range(6 * {HOURS})
])
publish("drain_forecasts", Step.HOUR, [{{
    "outlook": "expected", "method": "replay of the last 14 days", "interval_ratio": 0.8,
    "case_class": "falling_below_2_hours", "lag_messages_last": {LAG} + 60 * n,
    "drain_seconds_low": 7200.0, "drain_seconds_mid": 10800.0, "drain_seconds_high": 18000.0,
}} for n in range({HOURS})])
"""
FORGET = """
import django
django.setup()
from console.analytics.models import AnalyticsRun
AnalyticsRun.objects.filter(job__in=["lag", "drain_forecasts"]).delete()
"""


@pytest.fixture(scope="module")
def forecast(console: System) -> Iterator[None]:
    """A day of a consumer group's lag, and what is expected to follow."""
    console.python("-c", FORGET)
    console.python("-c", PUBLISH)
    yield
    console.python("-c", FORGET)


@pytest.mark.usefixtures("forecast")
@pytest.mark.parametrize("look", MOSTLY_TWO)
def test_a_lag_is_drawn_with_the_time_when_it_will_be_gone(new_visit: Callable[..., Visit], look: Look) -> None:
    inside = Inside(new_visit(look, user="vera"), look.locale[:2])
    inside.visit.open("/analytics")
    inside.settles()
    inside.page.get_by_role("tab", name=inside.text("analytics:tab.forecast"), exact=True).click()
    drain = inside.page.locator("[data-part=drain]")
    expect(drain.locator("[data-drawn]")).to_contain_text(f"{SUBJECT} · {GROUP}")
    expect(drain.get_by_text(inside.text("analytics:projection.expected"), exact=True).first).to_be_visible()
    row = drain.locator(f'[data-row^="{SUBJECT} {GROUP}"]')
    expect(row.locator("[data-cell=lag_messages_last]")).to_have_text(f"{LAG:,}")
    expect(row.locator("[data-cell=drain_seconds_mid]")).to_contain_text("3")
    inside.fits_its_width()
    inside.visit.axe_clean()
    row.get_by_role("link", name=SUBJECT, exact=True).click()
    expect(drain.locator("[data-drawn]")).to_contain_text(inside.text("analytics:drawn.chosen"))
    inside.settles()
    inside.fits_its_width()
