"""The background job that runs the analytics jobs: what it says of each end, and that nothing is left behind."""

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection

from api.serializers.broker_groups import JobRow
from console import checks
from console.analytics import process
from console.jobs import analytics, jobs
from console.jobs.analytics import analyse
from console.jobs.job import Context, JobFailed
from console.models import BackgroundJob
from metaserver.services.changes import Actor
from spark_analytics.jobs.runner import Report
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)
NICENESS_MAX = 19


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A process that is quick to start stands for the jobs."""
    monkeypatch.setattr(process, "MODULE", "tests.support.console.fake_jobs")
    monkeypatch.setattr(analytics, "memory_available_bytes", lambda: None)
    return monkeypatch


def context(seconds: float = 60.0) -> Context:

    return Context(Actor("tests"), time.monotonic() + seconds)


def test_the_last_line_is_the_result_and_the_loop_is_known() -> None:
    assert jobs.run("analytics").text == "all --scheduled --memory 1g --master local[2]"
    row = BackgroundJob.objects.get(name="analytics")
    assert (row.error, row.result) == ("", "all --scheduled --memory 1g --master local[2]")
    assert not jobs.run("analytics").ran, "its turn comes again later"
    assert "analytics" in jobs.schedule()


def test_the_last_line_of_a_scheduled_run_has_the_parts_of_the_result(fake: pytest.MonkeyPatch) -> None:
    found = Report(jobs=4, missing={"g2": "gone"}).result()
    fake.setenv("FAKE_JOBS", "report")
    fake.setenv("FAKE_JOBS_REPORT", json.dumps(asdict(found)))
    assert jobs.run("analytics").text == "4 jobs, 0 rows read, 0 rows written, without g2"
    parts = [
        {"code": "analytics.jobs", "values": {"count": 4}},
        {"code": "analytics.rows_read", "values": {"count": 0}},
        {"code": "analytics.rows_written", "values": {"count": 0}},
        {"code": "analytics.missing", "values": {"groups": "g2"}},
    ]
    assert BackgroundJob.objects.get(name="analytics").result_parts == parts


@pytest.mark.parametrize(
    ("what", "problem"), [("fail", "analytics: no luck"), ("unavailable", "can't be run: analytics: no luck")]
)
def test_a_failure_is_the_loops_failure(fake: pytest.MonkeyPatch, what: str, problem: str) -> None:
    fake.setenv("FAKE_JOBS", what)
    assert problem in jobs.run("analytics").text
    assert problem in BackgroundJob.objects.get(name="analytics").error


@pytest.mark.parametrize(
    ("cause", "text", "part"),
    [
        (
            "Python worker failed to connect back.",
            "Spark's Python process did not start in time: the machine is busy.",
            {"code": "analytics.python_worker", "values": {}},
        ),
        (
            "a new one",
            "Caused by: org.apache.spark.SparkException: a new one",
            {"code": "analytics.line", "values": {"line": "Caused by: org.apache.spark.SparkException: a new one"}},
        ),
    ],
)
def test_a_stack_trace_is_a_sentence_and_details(
    fake: pytest.MonkeyPatch, cause: str, text: str, part: dict[str, Any]
) -> None:
    fake.setenv("FAKE_JOBS", "stack")
    fake.setenv("FAKE_JOBS_CAUSE", cause)
    assert jobs.run("analytics").text == text
    row = BackgroundJob.objects.get(name="analytics")
    assert (row.error, row.error_parts) == (text, [part])
    assert row.error_details.splitlines()[-1] == "... 9 more"
    assert f"SparkException: {cause}" in row.error_details
    (shown,) = [one for one in jobs.states() if one.job.name == "analytics"]
    assert JobRow(shown).data["error_details"] == row.error_details
    BackgroundJob.objects.update(started_at=None)
    fake.setenv("FAKE_JOBS", "ok")
    jobs.run("analytics")
    row.refresh_from_db()
    assert (row.error, row.error_parts, row.error_details) == ("", [], "")


def test_somebody_who_runs_them_by_hand_is_no_failure(fake: pytest.MonkeyPatch) -> None:
    fake.setenv("FAKE_JOBS", "busy")
    assert analyse(context()).text.startswith("not run: analytics: no luck")


def test_nothing_is_started_where_memory_is_short_or_spark_is_not_there(fake: pytest.MonkeyPatch) -> None:
    fake.setattr(analytics, "memory_available_bytes", lambda: 100 << 20)
    assert analyse(context()).text == "not run: 100 MiB of memory available, 2048 MiB required"
    fake.setattr(analytics, "find_spec", lambda name: None)
    assert "PySpark is not installed" in analyse(context()).text


def test_one_that_hangs_is_stopped_when_its_time_is_over_with_all_it_started(
    fake: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake.setenv("FAKE_JOBS", "hang")
    fake.setenv("FAKE_JOBS_PID", str(tmp_path / "pid"))
    fake.setattr(process, "STOP_GRACE_SECONDS", 0.2)
    fake.setattr(analytics, "RESERVE_SECONDS", 57.0)
    with pytest.raises(JobFailed, match="stopped after"):
        analyse(context())
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_brokers_come_first_whatever_the_kernel_goes_by(fake: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake.setattr(process, "_is_stopping", threading.Event())
    fake.setenv("FAKE_JOBS", "wait")
    fake.setenv("FAKE_JOBS_PID", str(tmp_path / "pid"))
    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(process.run, [], seconds=60.0)
        pid = int(eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(), what="it runs"))
        niceness, session = os.getpriority(os.PRIO_PROCESS, pid), Path(f"/proc/{pid}/autogroup")
        of_session = session.read_text() if session.exists() else ""
        process.stop()
        assert calling.result().was_stopped
    assert niceness == min(NICENESS_MAX, os.getpriority(os.PRIO_PROCESS, 0) + process.NICENESS)
    # A kernel that goes by processes alone has nothing to say of sessions.
    assert not of_session or of_session.strip().endswith(f"nice {process.NICENESS}")


@pytest.mark.parametrize(("what", "is_before"), [("wait", False), ("wait", True), ("hang", False)])
def test_one_whose_worker_ends_is_told_to_end_and_that_is_no_failure(
    fake: pytest.MonkeyPatch, tmp_path: Path, what: str, is_before: bool
) -> None:
    fake.setattr(process, "_is_stopping", threading.Event())
    fake.setattr(process, "STOPPING_GRACE_SECONDS", 0.2)
    fake.setenv("FAKE_JOBS", what)
    fake.setenv("FAKE_JOBS_PID", str(tmp_path / "pid"))
    if is_before:
        process.stop()

    def tell() -> None:
        eventually((tmp_path / "pid").exists, what="it runs")
        process.stop()

    with ThreadPoolExecutor(1) as pool:
        telling = pool.submit(lambda: None if is_before else tell())
        assert analyse(context()).text.startswith("stopped with its worker; the remaining jobs run again")
        telling.result()


def test_its_turn_is_kept_while_they_run_and_soon_over_when_nobody_keeps_it(
    fake: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake.setattr(process, "_is_stopping", threading.Event())
    fake.setattr(process, "LOOK_SECONDS", 0.05)
    fake.setitem(jobs.JOBS, "analytics", replace(jobs.JOBS["analytics"], hold_seconds=0.5))
    fake.setenv("FAKE_JOBS", "wait")

    def call() -> str:
        try:
            return jobs.run("analytics").text
        finally:
            connection.close()

    def held_until() -> datetime | None:
        try:
            return BackgroundJob.objects.filter(name="analytics").values_list("held_until", flat=True).first()
        except OperationalError:
            # SQLite in memory, as tests have it, refuses a read beside another thread's write instead of waiting.
            return None

    assert analytics.HOLD_SECONDS < analytics.LIMIT_SECONDS / 10
    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(call)
        try:
            first = eventually(held_until, what="it runs")
            kept = eventually(lambda: (until := held_until()) and until > first and until, what="the turn is kept")
            assert kept - first < timedelta(seconds=30), "not for the whole limit"
        finally:
            process.stop()
        assert calling.result().startswith("stopped with its worker")


@pytest.mark.parametrize("arguments", [["lag"], ["all", "lag"], []])
def test_the_command_passes_its_arguments_to_the_jobs(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    call_command("analytics", *arguments)
    assert capfd.readouterr().out == f"lag: 12 rows\n{' '.join(arguments)}\n"


def test_the_command_says_how_the_jobs_ended(fake: pytest.MonkeyPatch) -> None:
    fake.setenv("FAKE_JOBS", "busy")
    with pytest.raises(CommandError, match="exit code 4") as found:
        call_command("analytics")
    assert found.value.returncode == 4


def test_memory_is_read_where_the_system_says_it(tmp_path: Path) -> None:
    path = tmp_path / "meminfo"
    assert process.memory_available_bytes(path) is None
    path.write_text("MemTotal: 100 kB\nMemAvailable:    2048 kB\n")
    assert process.memory_available_bytes(path) == 2 << 20
    path.write_text("MemTotal: 100 kB\n")
    assert process.memory_available_bytes(path) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("ANALYTICS_EVERY_SECONDS", 30), ("ANALYTICS_LAKE_DAYS", {"index": 1}), ("ANALYTICS_WATERMARK_SECONDS", -1)],
)
def test_settings_that_can_not_be_are_told(settings: Any, name: str, value: Any) -> None:
    assert checks.analytics(None) == []
    setattr(settings, name, value)
    assert [found.id for found in checks.analytics(None)] == ["console.E008"]
