"""A whole system as `manage.py up` starts it, in which Celery runs the jobs on Spark by itself."""

import os
import re
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from console.analytics.process import NICENESS
from qmq.sync import Consumer, Producer
from tests.support.servers.up import Up
from tests.support.waiting import eventually
from tests.support.whole import in_whole_spark_runs

T = TypeVar("T")
EVERY_SECONDS = 60
"""The least that is allowed."""
CALL_SECONDS = 600.0
"""Until a call of the jobs is over: beat gives its first word after an interval, and the jobs leave the cores to others."""
MINUTES_SECONDS = 120.0 + EVERY_SECONDS + CALL_SECONDS
"""Until minutes are complete: rows may be two minutes late (WATERMARK_SECONDS), and a call has to come after that."""
SENT = 200
ACKED = 150
LOOK_SECONDS = 1.0
NICENESS_MAX = 19
OTHERS = ("heartbeats", "moves", "rebalance", "alerts", "notifications")
"""Jobs that run every few seconds: none of them may wait for the jobs."""


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    # What the tests' own environment says of places is not for this system; it starts a Redis of its own.
    found = Up(tmp_path, QMQ_ANALYTICS_EVERY_SECONDS=str(EVERY_SECONDS))
    for name in ("QMQ_REDIS_URL", "QMQ_DATABASE_URL", "QMQ_META"):
        found.environment.pop(name, None)
    try:
        found.start()
        yield found
    finally:
        found.stop()


class Watched:
    """What the API says of jobs and runs; other jobs that are late, and jobs that fail, end the test at once."""

    def __init__(self, up: Up) -> None:
        self._up = up
        self._token = up.token("read")

    def get(self, path: str, **query: str) -> Any:
        return self._up.get(f"{path}?{urllib.parse.urlencode(query)}", self._token)

    def job(self) -> Any:
        rows = {row["name"]: row for row in self.get("/jobs/")["results"]}
        late = [name for name in OTHERS if rows[name]["is_late"]]
        assert not late, f"late: {late}\n{self._up.text()}"
        assert not rows["analytics"]["error"], f"{rows['analytics']['error']}\n{self._up.text()}"
        return rows["analytics"]

    def runs(self, job: str) -> list[Any]:
        """The runs of a job that have succeeded, the newest first; none may have failed."""
        self.job()
        found = [run for run in self.get("/analytics/runs/", limit="500")["results"] if run["job"] == job]
        assert not [run for run in found if run["state"] == "failed"], found
        return [run for run in found if run["state"] == "succeeded"]


def seen(look: Callable[[], T], within_s: float, what: str) -> T:
    """What the API says once it is there."""
    return eventually(look, what=what, every_s=LOOK_SECONDS)


@in_whole_spark_runs
@pytest.mark.timeout(1800)
def test_what_was_sent_comes_to_the_pages_with_nobody_asking(up: Up, tmp_path: Path) -> None:
    with Consumer(up.meta, "orders", "billing", start="earliest") as consumer:
        with Producer(up.meta) as producer:
            for number in range(SENT):
                producer.send_soon("orders", {"order": number})
            producer.flush()
        acked = 0
        while acked < ACKED:
            for delivery in consumer.pull(min(50, ACKED - acked), timeout=10):
                delivery.ack()
                acked += 1
    watched = Watched(up)
    running = seen(lambda: (row := watched.job())["is_running"] and row, CALL_SECONDS, "the jobs run")
    worker = int(running["holder"].split(":")[1])
    (jobs,) = eventually(Path(f"/proc/{worker}/task/{worker}/children").read_text, what="the jobs' process").split()
    # It is made nice before it becomes the jobs.
    eventually(lambda: is_nicer(int(jobs), worker), what="brokers come first")
    # All runs are from this job: nothing else runs analytics here.
    first = seen(lambda: watched.runs("ingest"), CALL_SECONDS, "the first call has read the nodes")[-1]
    assert int(first["rows_read"]) >= SENT

    def minutes(table: str, column: str, **filters: str) -> list[int]:
        watched.job()
        rows = watched.get(f"/analytics/tables/{table}/", step="minute", limit="500", subject="orders", **filters)
        return [int(row[column]) for row in rows["results"] if row[column] is not None]

    seen(lambda: sum(minutes("subject_rates", "sent_messages")) == SENT, MINUTES_SECONDS, "what was sent")
    # Tables of the same call are published one after the other.
    seen(
        lambda: sum(minutes("group_rates", "acked_messages", group="billing")) == ACKED, CALL_SECONDS, "what was acked"
    )
    seen(lambda: SENT - ACKED in minutes("lag", "lag_messages_last", group="billing"), CALL_SECONDS, "what is left")
    assert watched.runs("lag")
    (archive,) = seen(
        lambda: [*(tmp_path / "data" / "cache").glob("*.jsa")], CALL_SECONDS, "what Java has learned is kept"
    )
    seen(lambda: watched.job()["is_running"] and is_mapped(archive), CALL_SECONDS, "the next call's Java uses it")
    seen(lambda: len(watched.runs("ingest")) >= 2, CALL_SECONDS, "the job's turn came again")
    job = seen(
        lambda: (row := watched.job())["succeeded_at"] and not row["is_late"] and row, CALL_SECONDS, "it has succeeded"
    )
    assert re.match(r"\d+ jobs, [\d,]+ rows read, [\d,]+ rows written, up to ", job["result"]), job
    assert [part["code"] for part in job["result_parts"]][:3] == [
        "analytics.jobs",
        "analytics.rows_read",
        "analytics.rows_written",
    ]
    assert int(job["runs"]) >= 2
    assert (job["failures"], job["queue"]) == ("0", "analytics")

    assert [line for line in up.text().splitlines() if line.startswith("analytics ")] == [], (
        "what goes well is not told"
    )
    # Whether or not the jobs run at this moment: a stop neither waits for them nor leaves anything.
    assert up.stop() == 0
    assert "is killed" not in up.text()
    left = [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path).encode() in read(path)]
    assert left == []


def is_nicer(pid: int, than: int) -> bool:
    """Whether one process leaves others more of the cores than another one does, by as much as the jobs shall or as there is."""
    return os.getpriority(os.PRIO_PROCESS, pid) >= min(NICENESS_MAX, os.getpriority(os.PRIO_PROCESS, than) + NICENESS)


def is_mapped(file: Path) -> bool:
    """Whether a process has it in its memory."""
    return any(str(file).encode() in read(path) for path in Path("/proc").glob("[0-9]*/maps"))


def read(path: Path) -> bytes:
    """A file's bytes; none when it is gone."""
    try:
        return path.read_bytes()
    except OSError:
        return b""
