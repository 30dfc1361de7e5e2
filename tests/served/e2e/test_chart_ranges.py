"""Stories of charts: days of a group from analytics, the threshold of a rule, two times compared; days of a broker group."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from tests.served.e2e.clients import consumer, producer, receive_and_ack, wait_until_caught_up
from tests.served.e2e.group_pages import GroupPage
from tests.served.e2e.looks import EN_DESKTOP, ZH_PHONE, name_of
from tests.served.e2e.pages import Inside, incident_report
from tests.support.console.browser import Look, Visit
from tests.support.servers.system import System
from tests.support.waiting import ASK_SECONDS, eventually

GROUP = "carrier"
DAYS, AHEAD = timedelta(days=5), timedelta(minutes=3)
PUBLISH = """
from datetime import timedelta
import django
django.setup()
from django.utils import timezone
from console.analytics import services
from console.analytics.steps import Step
from console.analytics.tables import TABLES
now = timezone.now().replace(minute=0, second=0, microsecond=0)
unknown = {{column.name: None for column in TABLES["lag"].columns}}
run = services.start_run("lag", from_at=now - timedelta(days=8), to_at=now)
services.publish(run, "lag", [
    {{"at_ms": int((now - timedelta(minutes=10 * n)).timestamp() * 1000), **unknown, "subject": {subject!r}, "group": {group!r},
      "lag_messages_max": 40 + n % 90, "lag_messages_mean": 30.0, "time_lag_seconds_max": 5.0, "time_lag_seconds_mean": 4.0}}
    for n in range(1, 1100)
], step=Step.TEN_MINUTES)
services.finish_run(run, watermark_at=now)
"""
STORE = """
import math, time
import django
django.setup()
from console.jobs.summaries import store
from tests.support.console.histories import HOUR_MS, POINTS, history, point
now = int(time.time()) // 3600 * HOUR_MS
for hour in range(80, 0, -1):
    day = 1.2 - math.cos((hour + 3) / 12 * math.pi)
    busy = point(
        send_rate=2000 * day, send_bytes_rate=1.8e6 * day, pull_rate=4100 * day, connections=40 + hour % 7,
        disk_used_bytes=4e10 - 2e7 * hour,
    )
    # For half a day nothing was measured.
    store(history(now - hour * HOUR_MS, {"g1": [] if 60 < hour < 72 else [busy] * 6 * POINTS}))
"""
FORGET = """
import django
django.setup()
from console.analytics.models import AnalyticsRun
AnalyticsRun.objects.filter(job__in=("lag", "summaries")).delete()
"""


@pytest.fixture
def without_runs(console: System) -> Iterator[None]:
    """No analytics before the test, and none of its own afterwards."""
    console.python("-c", FORGET)
    yield
    console.python("-c", FORGET)


@pytest.mark.usefixtures("without_runs")
@pytest.mark.parametrize("look", [EN_DESKTOP, ZH_PHONE])
def test_days_of_a_group_are_shown_and_compared(
    console: System, new_visit: Callable[..., Visit], look: Look, request: pytest.FixtureRequest
) -> None:
    name = name_of(request)
    subject = f"parcel.sent.{name}"
    with producer(console) as sending, consumer(console, subject, GROUP) as reading:
        sending.send(subject, {"number": "1"})
        receive_and_ack(reading, 1)
    wait_until_caught_up(console, subject, GROUP)
    rule = {
        "name": f"Parcels wait {name}",
        "kind": "lag",
        "target": f"{subject}/*",
        "threshold": 100,
        "severity": "warning",
    }
    console.post("/alert-rules/", rule)
    page = GroupPage(new_visit(look, user="ada"), look.locale[:2]).open(subject, GROUP)
    ranges = page.page.get_by_label(page.text("common:range.label"))
    ranges.select_option("7d")
    note = page.page.locator("[data-note=never]")
    expect(note).to_contain_text(page.text("ranges:by.analytics.never"))

    console.python("-c", PUBLISH.format(subject=subject, group=GROUP))
    history = f"/history/?subject={subject}&group={GROUP}"
    eventually(
        lambda: any(value is not None for value in console.get(history)["fields"]["lag"]),
        what="the last hour has measurements, which begin at a border", every_s=ASK_SECONDS,
    )  # fmt: skip
    page.page.reload()
    expect(ranges).to_have_value("7d")
    expect(page.page.locator("[data-note=source]")).to_be_visible()
    expect(page.page.locator(".chart-border").first).to_be_attached()
    threshold = page.page.locator(".chart-threshold[data-place=left]")
    expect(threshold).to_contain_text(f"Parcels wait {name} (100)")
    page.fits_its_width()
    page.visit.axe_clean()

    page.button("groups:compare").click()
    table = page.page.get_by_role("region", name=page.text("ranges:compare.differences"))
    row = table.locator("[data-row=lag_mean]")
    expect(row).to_contain_text("30")
    page.page.get_by_label(page.text("ranges:compare.label")).select_option("day")
    expect(row).to_contain_text("0%")
    assert "range=7d&compare=day" in page.page.url
    # Hints stand outside of the page's regions.
    page.page.mouse.move(0, 0)
    expect(page.page.get_by_role("tooltip")).to_have_count(0)
    page.fits_its_width()
    page.visit.axe_clean()

    console.post(f"/consumer-groups/{subject}/{GROUP}/reset/", {"to": "earliest"})
    now = datetime.now(UTC)
    # An end that is ahead means now.
    begin, end = (at.isoformat(timespec="seconds").replace("+00:00", "Z") for at in (now - DAYS, now + AHEAD))
    page.visit.open(f"/events?since={begin}&until={end}&subject={subject}")
    expect(page.page.locator("[data-event]").first).to_be_visible()
    report = new_visit(look, user="vera").page
    report.set_content(incident_report(page))
    chart = report.locator("figure", has=report.get_by_text(f"{subject}/{GROUP}", exact=True))
    # It begins days ago, and says where measurements begin.
    expect(chart).to_contain_text(f"{now - DAYS:%Y-%m-%d %H:%M} UTC")
    expect(chart).to_contain_text(page.text("events:report.border"))
    expect(chart.locator("polyline")).not_to_have_count(0)


@pytest.mark.usefixtures("without_runs")
@pytest.mark.parametrize("look", [EN_DESKTOP, ZH_PHONE])
def test_days_of_a_broker_group_are_shown_and_its_gap_is_explained(
    console: System, new_visit: Callable[..., Visit], look: Look
) -> None:
    console.python("-c", STORE)
    eventually(
        lambda: console.get("/history/?broker_group=g1")["reason"] is None,
        what="the last hour has measurements, which begin at a border", every_s=ASK_SECONDS,
    )  # fmt: skip
    page = Inside(new_visit(look, user="ada"), look.locale[:2])
    page.visit.open("/brokers/g1?range=7d")
    charts = page.page.get_by_role("region", name=page.text("brokers:history_title"))
    expect(charts.locator("[data-note=source]")).to_be_visible()
    expect(charts.locator("[data-note=gaps]")).to_have_text(page.text("ranges:gaps"))
    expect(charts.locator(".chart-border").first).to_be_attached()
    rates = " · ".join(page.text(f"brokers:number.{field}") for field in ("send_rate", "pull_rate", "send_bytes_rate"))
    expect(charts.get_by_role("slider", name=f"g1: {rates}")).to_be_visible()
    charts.get_by_role("button", name=f"{page.text('common:chart.as_table')}: g1: {rates}").click()
    expect(charts.get_by_role("region", name=f"g1: {rates}").get_by_role("row").nth(40)).to_contain_text("MiB")
    page.fits_its_width()
    page.visit.axe_clean()
