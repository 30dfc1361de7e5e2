"""On a standalone cluster of two workers that have nothing of ours: what they need is sent to them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from qmq.sync import Producer
from spark_analytics.java import java_home
from spark_analytics.jobs import __main__ as jobs
from spark_analytics.jobs.package import NAME
from spark_analytics.lake import Lake
from tests.served.spark.lake_of_day import fill
from tests.support.analytics.simulated_day import simulate
from tests.support.analytics.spark_cluster import SPARK_HOME, Cluster, cluster
from tests.support.servers.processes import PROJECT
from tests.support.servers.system import System
from tests.support.waiting import eventually
from tests.support.whole import in_whole_spark_runs


def run(found: Cluster, folder: Path, system: System, *arguments: str) -> str:
    """A process with the cluster's environment and a database of its own; what it printed."""
    environment = found.environment | {
        "QMQ_DATA_DIR": str(folder),
        "QMQ_META": system.meta_url,
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "PYTHONPATH": str(PROJECT),
    }
    done = subprocess.run(
        arguments, env=environment, cwd=folder, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


PRINT_SETTINGS = """
import json, sys
from pathlib import Path
from spark_analytics.jobs.__main__ import _given_master, _session
spark = _session(_given_master(), "700m", Path(sys.argv[1]), None)
names = ("shuffle.partitions", "session.timeZone", "streaming.minBatchesToRetain", "execution.arrow.pyspark.enabled")
found = {name: spark.conf.get(f"spark.sql.{name}") for name in names}
given = ("spark.master", "spark.app.name", "spark.local.dir")
print(json.dumps(found | {name: spark.sparkContext.getConf().get(name) for name in given}))
spark.stop()
"""


@pytest.mark.parametrize("is_named", [False, True])
def test_what_spark_submit_was_given_wins_except_what_results_depend_on(tmp_path: Path, is_named: bool) -> None:
    script = tmp_path / "settings.py"
    script.write_text(PRINT_SETTINGS)
    given = {
        "spark.sql.shuffle.partitions": "5",
        "spark.local.dir": str(tmp_path / "given"),
        "spark.sql.session.timeZone": "Asia/Tokyo",
    }
    options = [part for name, value in given.items() for part in ("--conf", f"{name}={value}")] + ["--name", "of ours"]
    command = [str(SPARK_HOME / "bin/spark-submit"), "--master", "local[1]", *(options if is_named else [])]
    done = subprocess.run(
        [*command, str(script), str(tmp_path)],
        env=os.environ
        | {"PYTHONPATH": str(PROJECT), "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(java_home() or "")},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "shuffle.partitions": "5" if is_named else "8",
        "session.timeZone": "UTC",
        "streaming.minBatchesToRetain": "10",
        "execution.arrow.pyspark.enabled": "true",
        "spark.master": "local[1]",
        "spark.app.name": "of ours" if is_named else "pyqmq analytics",
        "spark.local.dir": str(tmp_path / ("given" if is_named else "spark")),
    }


@in_whole_spark_runs
def test_executors_elsewhere_read_nodes_and_compute(spark: SparkSession, system: System, tmp_path: Path) -> None:
    with Producer(system.meta_url) as producer:
        for number in range(200):
            producer.send_soon("orders", {"order": number})
        producer.flush()
    manage = [sys.executable, str(PROJECT / "manage.py")]
    live, simulated = tmp_path / "live", tmp_path / "simulated"
    fill(Lake(spark, str(simulated)), simulate(seed=5, scale=0.05))
    with cluster(tmp_path) as found:
        run(found, tmp_path, system, *manage, "migrate", "--verbosity", "0")
        # The command sends the package by itself ...
        said = run(found, tmp_path, system, *manage, "analytics", "ingest", "--lake", str(live), "--master", found.url)
        assert "200 rows of 2 broker groups" in said
        # ... spark-submit is told of it.
        zipped = run(found, tmp_path, system, *manage, "analytics", "--package", str(tmp_path / "package")).strip()
        assert zipped == str(tmp_path / "package" / NAME)
        submit = [
            str(SPARK_HOME / "bin/spark-submit"), "--master", found.url, "--executor-memory", "512m",
            "--conf", "spark.driver.host=127.0.0.1", "--py-files", zipped,
        ]  # fmt: skip
        said = run(found, tmp_path, system, *submit, str(jobs.__file__), "lag", "--lake", str(simulated))
        assert "lag: " in said
        assert "1 job, " in said
        eventually(lambda: len(found.state()["completedapps"]) == 2, what="the master lists both as completed")
        state = found.state()
        assert state["aliveworkers"] == 2
        finished = [(app["name"], app["state"], app["cores"]) for app in state["completedapps"]]
        assert [name for name, _, _ in finished] == ["pyqmq analytics"] * 2
        assert {ended for _, ended, _ in finished} == {"FINISHED"}
    rows = Lake(spark, str(live)).snapshot("index").files.values()
    assert sum(item.rows for item in rows) == 200
