"""Runs that compute again what late rows changed, cut off between the transactions of their publications."""

from collections import defaultdict
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from console.analytics import queries, services
from console.analytics import rows as publication_rows
from console.analytics.models import AnalyticsRun, RunState, TableState
from console.analytics.rows import Window
from console.analytics.steps import Step
from console.analytics.tables import TABLES
from qmq.protocol.values import moment
from spark_analytics.jobs import publishing
from spark_analytics.lake import Lake
from tests.served.spark.nodes_of_day import Late, NodesOfDay
from tests.served.spark.published import gold, published
from tests.support.analytics.simulated_day import DAY_MS, FIRST_MS, HOUR_MS, Day, Message, Record
from tests.support.whole import is_whole_spark_run

pytestmark = pytest.mark.django_db(transaction=True)

SUBJECTS = ("audit", "orders", "payments", "stock")
HOURS = 3
MINUTE_MS = Step.MINUTE.ms
LATE_MS = FIRST_MS + HOUR_MS + 10 * MINUTE_MS
"""In the second hour, in a minute that has messages in time."""
LATE_MAX = 59
COMPLETE_MS = FIRST_MS + HOURS * HOUR_MS + 200_000
"""When the first three hours, and no minute with messages behind them, are complete."""
OF_DAY = Window(FIRST_MS, FIRST_MS + DAY_MS)
STEPS = (Step.MINUTE, Step.TEN_MINUTES, Step.HOUR)
PUBLISHED_AT_ONCE = 3
"""Rows of a transaction: a moment has four."""
CUT_EVERY = 3 if is_whole_spark_run else 9
"""Of some forty transactions, so many apart, runs are cut off."""
JOBS = ("ingest", "state", "rates")


class Killed(BaseException):
    """The process ends here."""


def made_day() -> Day:
    """A message of each subject in each hour, and one more in the second hour for each run that reads late rows."""
    in_time = [FIRST_MS + hour * HOUR_MS + 10 * MINUTE_MS for hour in range(HOURS)]
    stored = sorted([*in_time, *(LATE_MS + number * 1_000 for number in range(1, LATE_MAX + 1))])
    record = Record()
    for subject in SUBJECTS:
        for sequence, at_ms in enumerate(stored):
            message = Message("broker-1", subject, sequence, at_ms, 100, f"{subject}{sequence}", frozenset())
            record.messages.append(message)
    return Day(FIRST_MS, record, [])


def sent() -> dict[Step, dict[int, set[int]]]:
    """What readers see: step -> the moments that have rows -> the different numbers of messages, of all four subjects."""
    found: dict[Step, dict[int, set[int]]] = defaultdict(dict)
    for step in STEPS:
        of_moments: dict[int, dict[str, int]] = defaultdict(dict)
        for row in queries.rows(TABLES["subject_rates"], step, OF_DAY, {}):
            assert row.subject not in of_moments[row.at_ms], "each row once"
            of_moments[row.at_ms][row.subject] = row.sent_messages
        for at_ms, numbers in of_moments.items():
            assert numbers.keys() == set(SUBJECTS), "a part of a moment"
            found[step][at_ms] = set(numbers.values())
    return dict(found)


def expected(late: int) -> dict[Step, dict[int, set[int]]]:
    return {
        step: {
            at_ms - at_ms % step.ms: {1 + late * (at_ms == LATE_MS)}
            for at_ms in (FIRST_MS + hour * HOUR_MS + 10 * MINUTE_MS for hour in range(HOURS))
        }
        for step in STEPS
    }


def test_each_moment_is_as_it_was_or_new_or_not_seen_and_the_next_run_completes_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between transactions of the run that computes late rows again: each kill has late rows of its own."""
    for module in (publishing, publication_rows, services):
        monkeypatch.setattr(module, "PUBLISH_ROWS_MAX", PUBLISHED_AT_ONCE)
    lake = Lake(spark, str(tmp_path / "lake"))
    runs = (COMPLETE_MS + 10 * number for number in count(1))
    late = [
        Late("broker-1", LATE_MS + n * 1_000, LATE_MS + n * 1_000 + 1, until_ms=COMPLETE_MS + 1_000 * n)
        for n in range(1, LATE_MAX + 1)
    ]
    nodes = NodesOfDay(made_day(), late)
    nodes.install(monkeypatch)
    nodes.run(lake, JOBS, next(runs))
    assert sent() == expected(0)

    claim, claims, cut_at = services._claim, count(), -1

    def claim_or_die(run: AnalyticsRun) -> AnalyticsRun:
        if run.job == "rates" and next(claims) == cut_at:
            raise Killed
        return claim(run)

    monkeypatch.setattr(services, "_claim", claim_or_die)
    assert nodes.run(lake, JOBS, COMPLETE_MS + 1_000).late_rows == len(SUBJECTS)
    assert sent() == expected(1)
    transactions = next(claims)
    states_of_moments: set[str] = set()
    for done, transaction in enumerate(range(0, transactions, CUT_EVERY), 1):
        before, after = expected(done), expected(done + 1)
        claims, cut_at = count(), transaction
        with monkeypatch.context() as patched, pytest.raises(Killed):
            patched.setattr(services, "fail_run", lambda *_: None)  # it is gone
            nodes.run(lake, JOBS, COMPLETE_MS + 1_000 * (done + 1))
        assert AnalyticsRun.objects.get(job="rates", state=RunState.RUNNING)
        seen = sent()
        state = TableState.objects.get(table="subject_rates")
        for step in STEPS:
            for at_ms, old in before[step].items():
                found, new = seen.get(step, {}).get(at_ms), after[step][at_ms]
                assert found in (None, old, new), (step, at_ms)
                if found is None:
                    assert state.complete_until is not None
                    assert state.complete_until <= moment(at_ms), "it does not count as complete"
                if old != new:
                    states_of_moments.add("gone" if found is None else "old" if found == old else "new")
        assert {row["sent_messages"] for row in at(gold(lake, "subject_rates", OF_DAY), LATE_MS)} in (
            {done + 1},
            {done + 2},
        )

        cut_at = -1
        nodes.run(lake, JOBS, COMPLETE_MS + 1_000 * (done + 1) + 10)
        assert sent() == after
        assert gold(lake, "subject_rates", OF_DAY) == published("subject_rates")["subject_rates"]
        assert not AnalyticsRun.objects.filter(state=RunState.RUNNING)
        assert TableState.objects.get(table="subject_rates").unfinished is None
        assert not lake.snapshot("index").late
        messages = len(SUBJECTS) * (HOURS + done + 1)
        for table in ("index", "stored_seconds"):
            assert lake.read(table, FIRST_MS, FIRST_MS + DAY_MS).count() == messages, table
    assert states_of_moments == {"gone", "old", "new"}


def at(rows: list[dict[str, Any]], at_ms: int) -> list[dict[str, Any]]:
    return [row for row in rows if row["at_ms"] <= at_ms < row["at_ms"] + row["step_seconds"] * 1000]
