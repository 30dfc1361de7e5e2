"""On a standalone cluster of two workers that have nothing of ours: what they need is sent to them, by the commands of
docs/how-to/spark-cluster.md."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from qmq.sync import Producer
from spark_analytics.java import java_home
from spark_analytics.lake import Lake
from spark_analytics.lake.ingestion import HOUR_MS
from tests.served.spark.lake_of_day import fill
from tests.support.analytics.simulated_day import simulate
from tests.support.analytics.spark_cluster import SPARK_HOME, cluster
from tests.support.servers.processes import PROJECT
from tests.support.servers.shared import NewSystems
from tests.support.waiting import eventually
from tests.support.whole import in_whole_spark_runs

PAGE = (PROJECT / "docs/how-to/spark-cluster.md").read_text()
_CODE = re.compile(r"^```text\n(.*?)^```", re.S | re.M)
SECRET = "a node secret that is for tests only"


def blocks_of(title: str) -> list[str]:
    """The blocks of code below a heading of the page."""
    return _CODE.findall(PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0])


@dataclass(frozen=True, slots=True)
class Operator:
    """Does what the page says, with the places of a test instead of the page's."""

    folder: Path
    places: Mapping[str, str]

    def as_here(self, text: str) -> str:
        """A block with the places of here; each of them is on the page."""
        for place, here in self.places.items():
            text = text.replace(place, here)
        return text

    def write(self, path: str, text: str) -> None:
        """Write a file that the page names."""
        target = Path(self.as_here(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(self.as_here(text))

    def run(self, script: str) -> str:
        """Run a block in a new shell that has nothing of this process's settings; what it printed."""
        done = subprocess.run(
            ["bash", "-eu", "-c", self.as_here(script)],
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
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
def test_executors_elsewhere_read_nodes_and_compute_as_the_page_says(
    spark: SparkSession, new_system: NewSystems, tmp_path: Path
) -> None:
    secret = tmp_path / "node_token"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    system = new_system()
    for process in system.processes:
        process.set_environment(QMQ_NODE_TOKEN_FILE=str(secret))
    system.start()
    with Producer(system.meta_url) as producer:
        for number in range(200):
            producer.send_soon("orders", {"order": number})
        producer.flush()
    live, simulated = tmp_path / "shared/qmq", tmp_path / "simulated"
    fill(Lake(spark, str(simulated)), simulate(seed=5, scale=0.05))
    with cluster(tmp_path) as found:
        places = {
            "/etc/qmq": str(tmp_path / "etc/qmq"),
            "/opt/qmq/bin": str(Path(sys.executable).parent),
            "/opt/spark-python/bin/python": found.environment["PYSPARK_PYTHON"],
            "/usr/lib/jvm/java-21": str(java_home() or os.environ.get("JAVA_HOME", "")),
            "/shared/qmq": str(live),
            "/var/lib/qmq": str(tmp_path),
            "spark://spark1:7077": found.url,
            "qmq3": "127.0.0.1",
            "spark.executor.memory                    4g": "spark.executor.memory 512m",
        }
        assert [place for place in places if place not in PAGE] == []
        operator = Operator(tmp_path, places)
        operator.write(
            "/etc/qmq/environment",
            f"QMQ_DATA_DIR=/var/lib/qmq\nQMQ_META={system.meta_url}\nQMQ_NODE_TOKEN_FILE={secret}\n",
        )
        environment, defaults = blocks_of("Configure")
        operator.write("/etc/qmq/spark/environment", environment)
        operator.write("/etc/qmq/spark/spark-defaults.conf", defaults)
        settings, path, migrate = *blocks_of("Run once")[0].splitlines()[:2], "qmq-console migrate --verbosity 0"
        operator.run("\n".join((settings, path, migrate)))
        # The command sends the package by itself ...
        command, script = blocks_of("Run once")
        assert "200 rows of 2 broker groups" in operator.run(command)
        # ... spark-submit is told of it.
        operator.write("/etc/qmq/spark/analytics.sh", script)
        (entry,) = blocks_of("Schedule")
        minute, *_, user, scheduled = entry.strip().split(None, 6)
        assert (minute, user) == ("*/10", "qmq")
        said = operator.run(f"{scheduled} lag --lake {simulated}")
        assert "lag: " in said
        assert "1 job, " in said
        eventually(lambda: len(found.state()["completedapps"]) == 2, what="the master lists both as completed")
        state = found.state()
        assert state["aliveworkers"] == 2
        finished = [(app["name"], app["state"], app["memoryperexecutor"]) for app in state["completedapps"]]
        assert finished == [("pyqmq analytics", "FINISHED", 512)] * 2
    lake = Lake(spark, str(live))
    assert sum(item.rows for item in lake.snapshot("index").files.values()) == 200
    # Which only the driver can read: the executors have no node secret.
    nodes = lake.read("nodes", 0, lake.now_ms() + HOUR_MS)
    assert {row.disk_total_bytes is not None for row in nodes.collect()} == {True}
