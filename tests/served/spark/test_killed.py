"""kill -9 in the middle of a run: tables are as they were, and the next run completes them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from console.analytics.process import environment
from console.analytics.tables import TABLES
from spark_analytics.lake import Lake
from spark_analytics.transforms.windows import HOUR_MS, LONG_STEPS
from tests.served.spark.lake_of_day import fill
from tests.served.spark.sessions import attach_environment, quick_environment
from tests.support.analytics import naive
from tests.support.analytics.frames import differences
from tests.support.analytics.simulated_day import simulate
from tests.support.servers.processes import PROJECT

KILLED = """
import os, signal, sys
import django
django.setup()
from console.analytics import rows as publication_rows, services
from spark_analytics.jobs import publishing
from spark_analytics.jobs.__main__ import main
from tests.served.spark.sessions import attach

attach()
lake, kill, most = sys.argv[1:]
if most:
    for module in (publishing, publication_rows, services):
        module.PUBLISH_ROWS_MAX = int(most)
insert, published = services._insert, []
def killed(table, common, rows):
    insert(table, common, rows)
    moment = (common[1], rows[0][0])
    is_part = len(set(published)) > 3 and moment in published
    if kill == "second publication" and published or kill == "second part of a moment" and is_part:
        print(f"killed with {len(rows)} rows", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    published.append(moment)
services._insert = killed
main(["failures", "--lake", lake])
"""
TOLD = """
import django, json
django.setup()
from console.analytics import queries
from console.analytics.models import AnalyticsRun, TableState
from console.analytics.models.summaries import Failure
from console.analytics.rows import WHOLE_MAX, Window
from console.analytics.steps import Step
from console.analytics.tables import TABLES
hours = queries.rows(TABLES["failures"], Step.HOUR, Window(0, WHOLE_MAX), {})
columns = [field.name for field in Failure._meta.fields if field.name not in ("id", "run")]
print(json.dumps({
    "failures": list(Failure.objects.order_by(*columns).values_list(*columns)),
    "seen": list(hours.order_by(*columns).values_list(*columns)),
    "columns": columns,
    "runs": list(AnalyticsRun.objects.order_by("pk").values_list("state", "error", "rows_written")),
    "states": list(TableState.objects.values_list("table", "watermark_at__year")),
}))
"""


class Database:
    """Python processes on a database of their own."""

    def __init__(self, url: str, folder: Path) -> None:
        self._environment = (
            environment()
            | quick_environment(folder)
            | {
                "QMQ_DATABASE_URL": url,
                "QMQ_DATA_DIR": str(folder),
                "DJANGO_SETTINGS_MODULE": "console.settings",
            }
        )

    def python(self, *arguments: str, code: int = 0, **values: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], env=self._environment | values, cwd=PROJECT, capture_output=True, text=True,
            timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.python("-c", TOLD))
        return found


@pytest.fixture
def database(tmp_path: Path, database_url: str) -> Database:
    found = Database(database_url, tmp_path)
    found.python("manage.py", "migrate", "--verbosity", "0")
    return found


@pytest.mark.slow
def test_a_run_that_is_killed_leaves_whole_publications_and_the_next_completes_them(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    fill(Lake(spark, str(lake)), simulate(seed=5, scale=0.05))

    kill = ("second publication", "")
    assert "killed with" in database.python("-c", KILLED, str(lake), *kill, code=-9, **attach_environment(spark))
    left = database.told()
    assert {row[0] for row in left["failures"]} == {3600}, "hours were published, days were not"
    assert left["runs"] == [["running", "", len(left["failures"])]]
    assert left["states"] == [["failures", None]], "no time is recorded up to which rows are complete"

    said = database.python("manage.py", "analytics", "failures", "--lake", str(lake))
    assert said.splitlines()[-1].startswith("1 job, ")
    whole = database.told()
    assert {row[0] for row in whole["failures"]} == {3600, 86400}
    assert [row for row in whole["failures"] if row[0] == 3600] == left["failures"]
    (first, second) = whole["runs"]
    assert first[0] == "failed"
    assert "it did not finish; run 2 replaced it" in first[1]
    assert second == ["succeeded", "", len(whole["failures"])]
    assert whole["states"] == [["failures", 2026]]


@pytest.mark.slow
def test_a_moment_that_was_killed_between_its_transactions_is_not_seen_until_the_next_run_completes_it(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    day, lake = simulate(seed=5, scale=0.05), tmp_path / "lake"
    fill(Lake(spark, str(lake)), day)

    def keyed(rows: list[list[Any]], columns: list[str]) -> naive.Rows:
        named = [dict(zip(columns, row, strict=True)) for row in rows]
        found = {
            (
                row.pop("step_seconds") * 1000,
                row.pop("at_ms"),
                *(row.pop(name) for name in TABLES["failures"].model.key),
            ): row
            for row in named
        }
        assert len(found) == len(rows), "each row once"
        return found

    kill = ("second part of a moment", "2")
    assert "killed with" in database.python("-c", KILLED, str(lake), *kill, code=-9, **attach_environment(spark))
    left, truth = database.told(), naive.failures(day, LONG_STEPS)
    written, seen = (keyed(left[name], left["columns"]) for name in ("failures", "seen"))
    last_ms = max(at_ms for _, at_ms, *_ in written)
    part = {key for key in written if key[1] == last_ms}
    assert 0 < len(part) < len([key for key in truth if key[:2] == (HOUR_MS, last_ms)]), "a part of a moment is written"
    whole = {key: row for key, row in truth.items() if key[0] == HOUR_MS and key[1] < last_ms}
    assert whole
    assert not differences(whole, seen), "moments before it are whole, and it is not seen"

    database.python("manage.py", "analytics", "failures", "--lake", str(lake))
    found = database.told()
    assert not differences(truth, keyed(found["failures"], found["columns"]))
    assert [run[0] for run in found["runs"]] == ["failed", "succeeded"]
    assert found["states"] == [["failures", 2026]]
