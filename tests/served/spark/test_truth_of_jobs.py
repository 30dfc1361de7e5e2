"""What the jobs publish of a day on which much goes wrong, in runs at moments of it: at its end every row is the truth."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from pyspark.sql import SparkSession

from console.analytics.models import AnalyticsRun, RunState
from console.analytics.rows import Window
from console.analytics.tables import TABLES
from console.jobs.summaries import TABLE as FILLED_BY_CONSOLE
from metaserver.services.changes import Actor
from metaserver.services.subjects import create_subject
from metaserver.services.teams import create_team
from spark_analytics.forecasts.anomalies import LOOKBACK_HOURS
from spark_analytics.jobs.catalog import JOBS
from spark_analytics.lake import Lake
from spark_analytics.lake.tables import TABLES as TABLES_OF_LAKE
from spark_analytics.local_rows import local_table
from spark_analytics.transforms.windows import LONG_STEPS, SHORT_STEPS
from tests.served.spark.conftest import TEST_SECONDS_MAX
from tests.served.spark.nodes_of_day import Late, NodesOfDay
from tests.served.spark.published import assert_same, gold, published
from tests.support.analytics import naive
from tests.support.analytics.simulated_day import (
    DAY_MS,
    HOUR_MS,
    Day,
    Mishaps,
    Span,
    consumer_key,
    gone_consumers,
    simulate,
)
from tests.support.analytics.truth import assert_true, assert_true_latencies
from tests.support.whole import is_whole_spark_run

pytestmark = pytest.mark.django_db(transaction=True)

BERLIN = ZoneInfo("Europe/Berlin")
FIRST_MS = int(datetime(2026, 10, 25, tzinfo=UTC).timestamp() * 1000)
"""Clocks of Berlin go back an hour on this day."""
SEED, SCALE = 3, 0.2 if is_whole_spark_run else 0.05
ALL = tuple(JOBS)
OWNERS = {"orders": "shop", "payments": "money"}
RELATIVE = 1e-9
"""How far apart sums of fractions may be, which are made in another order."""


def hours(number: float) -> int:
    return int(number * HOUR_MS)


MISHAPS = Mishaps(
    emptied=Span("broker-1", hours(19), hours(19.33)),
    noticed_ms=hours(21),
    unreachable=(Span("broker-2", hours(8.2), hours(11.2)),),
)
LATE = Late("broker-1", FIRST_MS + hours(11.05), FIRST_MS + hours(11.3), until_ms=FIRST_MS + hours(20))
"""Rows that arrive after their hour is published, while no broker group is missing."""
DAY_END = hours(24) + 130_000
"""The first moment at which the whole day is complete."""
RUNS = ((6.0, ()), (9.5, ALL), (12.0, ALL), (19.0, ()), (21.0, ALL), (DAY_END / HOUR_MS, ALL))
RUNS_IN_WHOLE = (
    *((hour, ALL) for hour in (3.4, 6.0, 9.5, 10.7, 12.0, 15.3, 19.0, 21.0, 22.6)),
    (DAY_END / HOUR_MS, ALL),
)


def is_missing(hour: float) -> bool:
    [span] = MISHAPS.unreachable
    return span.from_ms <= hours(hour) < span.to_ms


@pytest.fixture
def day() -> Day:
    return simulate(SEED, SCALE, first_ms=FIRST_MS, mishaps=MISHAPS)


@pytest.fixture
def earlier() -> dict[str, dict[int, float]]:
    """Messages sent to subjects in each hour of the weeks before, more by day than by night by the clocks of Berlin."""
    random = np.random.default_rng(SEED)
    begin = FIRST_MS - LOOKBACK_HOURS * HOUR_MS
    local = [datetime.fromtimestamp(at / 1000, BERLIN).hour for at in range(begin, FIRST_MS, HOUR_MS)]
    found = {}
    for subject, messages in (("orders", 3_000), ("payments", 1_500)):
        mean = [messages * SCALE * (1.4 if 8 <= hour < 20 else 0.2) for hour in local]
        counts = random.poisson(mean).tolist()
        found[subject] = {begin + number * HOUR_MS: float(n) for number, n in enumerate(counts)}
    return found


def add_earlier(lake: Lake, earlier: dict[str, dict[int, float]]) -> None:
    schema = TABLES_OF_LAKE["gold_subject_rates"].schema
    names, rows = schema.names, []
    for subject, counts in earlier.items():
        for at_ms, count in counts.items():
            row: dict[str, Any] = dict.fromkeys(names)
            row |= {"at": datetime.fromtimestamp(at_ms / 1000, UTC), "step_ms": HOUR_MS, "subject": subject}
            row["sent_messages_per_second_mean"] = count / 3600
            rows.append(list(row.values()))
    lake.append("gold_subject_rates", local_table(rows, schema))


def found_in(table: str) -> naive.Rows:
    """The rows of a summary table, as the naive computation has them."""
    key = TABLES[table].model.key
    found = {}
    for row in published(table)[table]:
        place = (row.pop("step_seconds") * 1000, row.pop("at_ms"), *(row.pop(name) for name in key))
        assert place not in found
        found[place] = row
    return found


@pytest.mark.timeout(1800 if is_whole_spark_run else TEST_SECONDS_MAX)
def test_a_day_on_which_much_goes_wrong_is_published_as_it_was(
    spark: SparkSession,
    day: Day,
    earlier: dict[str, dict[int, float]],
    tmp_path: Path,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings.ANALYTICS_ZONE = BERLIN
    for subject, team in OWNERS.items():
        create_team(team, actor=Actor("tests"))
        create_subject(subject, {"owner": team}, actor=Actor("tests"))
    at_once = published_at_once(spark, day, earlier, tmp_path / "at_once", monkeypatch) if is_whole_spark_run else {}
    lake = Lake(spark, str(tmp_path / "lake"))
    add_earlier(lake, earlier)
    nodes = NodesOfDay(day, [LATE])
    nodes.install(monkeypatch)
    late = {}
    for hour, jobs in RUNS_IN_WHOLE if is_whole_spark_run else RUNS:
        missing = {"broker-2"} if is_missing(hour) else set()
        report = nodes.run(lake, ["ingest", *jobs], FIRST_MS + hours(hour), missing)
        late[hour] = report.late_rows
        assert set(report.missing) == missing
        partial = AnalyticsRun.objects.filter(state=RunState.SUCCEEDED, job__in=("lag", "ingest")).latest("pk")
        assert partial.missing == sorted(missing)
    assert not nodes.unread
    assert late[12.0] > 0, "rows came from the broker group that was missing"
    assert late[21.0] > 0, "rows came late from one that was not"
    assert_is_the_truth(day, earlier)
    in_database = published()
    assert_same(at_once, in_database)
    for table in sorted(TABLES.keys() - {FILLED_BY_CONSOLE, "delayed_load"}):
        of_day = Window(FIRST_MS, FIRST_MS + DAY_MS)
        assert_same({table: gold(lake, table, of_day)}, {table: in_database[table]})


def published_at_once(
    spark: SparkSession, day: Day, earlier: dict[str, dict[int, float]], folder: Path, patch: pytest.MonkeyPatch
) -> dict[str, list[dict[str, Any]]]:
    """What one run behind the day publishes, of tables that no naive computation has; test_forecasting.py has their truth."""
    lake = Lake(spark, str(folder))
    add_earlier(lake, earlier)
    nodes = NodesOfDay(day)
    with patch.context() as patched:
        nodes.install(patched)
        nodes.run(lake, ["ingest", *ALL], FIRST_MS + DAY_END)
    found = published("drain_forecasts", "disk_forecasts", "forecast_scores")
    assert all(found.values())
    AnalyticsRun.objects.all().delete()
    return found


def assert_is_the_truth(day: Day, earlier: dict[str, dict[int, float]]) -> None:
    gone = gone_consumers(day)

    def name_of(name: str) -> str:
        return f"{consumer_key(name) % (1 << 64):016x}" if name in gone else name

    sent = naive.subject_rates(day, SHORT_STEPS)
    expected = {
        "lag": naive.lag(day, SHORT_STEPS),
        "subject_rates": sent,
        "group_rates": naive.group_rates(day, SHORT_STEPS),
        "group_skew": naive.group_skew(day, LONG_STEPS, name_of),
        "consumer_shares": naive.consumer_shares(day, LONG_STEPS, name_of),
        "failures": naive.failures(day, LONG_STEPS),
        "delayed_load": naive.delayed_load(day, LONG_STEPS),
        "team_capacity": naive.team_capacity(day, OWNERS, LONG_STEPS, is_by_hour=True),
        "anomalies": true_anomalies(sent, earlier),
    }
    assert_true_latencies(naive.latencies(day, SHORT_STEPS), found_in("latencies"), RELATIVE)
    for table, rows in expected.items():
        assert_true(rows, found_in(table), RELATIVE)


def true_anomalies(sent: naive.Rows, earlier: dict[str, dict[int, float]]) -> naive.Rows:
    found: naive.Rows = {}
    of_day = range(FIRST_MS, FIRST_MS + DAY_MS, HOUR_MS)
    for subject, before in earlier.items():
        counts = {at_ms: sent.get((HOUR_MS, at_ms, subject), {"sent_messages": 0})["sent_messages"] for at_ms in of_day}
        rows = {}
        for at_ms, (expected, low, high, score, is_flagged) in naive.anomalies(before | counts, of_day, BERLIN).items():
            rows[at_ms] = {
                "value": counts[at_ms] / 3600,
                "about_messages": round(abs(counts[at_ms] - expected)),
                "expected": expected / 3600,
                "expected_low": low / 3600,
                "expected_high": high / 3600,
                "score": score,
                "is_flagged": is_flagged,
            }
        series = (subject, "", "sent_messages_per_second")
        found |= {(HOUR_MS, at_ms, *series): row for at_ms, row in rows.items()}
        flagged = [row for row in rows.values() if row["is_flagged"]]
        found[(DAY_MS, FIRST_MS, *series)] = max(flagged or rows.values(), key=lambda row: abs(row["score"]))
    assert {row["is_flagged"] for row in found.values()} == {True, False}
    return found
