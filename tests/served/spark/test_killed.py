"""kill -9 in the middle of a run: tables are as they were, and the next run completes them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from console.analytics.process import environment
from spark_analytics.lake import Lake
from tests.served.spark.lake_of_day import fill
from tests.served.spark.sessions import attach_environment, quick_environment
from tests.support.analytics.simulated_day import simulate
from tests.support.servers.processes import PROJECT

KILLED = """
import os, signal, sys
import django
django.setup()
from console.analytics import services
from spark_analytics.jobs.__main__ import main
from tests.served.spark.sessions import attach

attach()
insert, published = services._insert, []
def killed(table, common, rows):
    insert(table, common, rows)
    published.append(table.name)
    if len(published) == 2:
        print(f"killed with {len(rows)} rows", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
services._insert = killed
main(["failures", "--lake", sys.argv[1]])
"""
TOLD = """
import django, json
django.setup()
from console.analytics.models import AnalyticsRun, TableState
from console.analytics.models.summaries import Failure
columns = [field.name for field in Failure._meta.fields if field.name not in ("id", "run")]
print(json.dumps({
    "failures": list(Failure.objects.order_by(*columns).values_list(*columns)),
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

    assert "killed with" in database.python("-c", KILLED, str(lake), code=-9, **attach_environment(spark))
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
