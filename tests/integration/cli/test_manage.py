"""Management commands: which system they act on, and what they print when its database is not there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from console.manage import take_data_dir
from tests.support.processes import PROJECT

ARGUMENTS = {
    "analytics": (),
    "make_token": ("admin", "--name", "laptop"),
    "reset_password": ("admin",),
    "showmigrations": ("--plan",),
    "unlock_user": ("admin",),
}
NO_DATABASE_NEEDED = {
    "collect": "reads nodes, and publishes on Redis",
    "demo": "talks to a running console first; tests/integration/demo",
    "up": "creates the database",
}


def manage(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run manage.py without a database of this test run."""
    base = {name: value for name, value in os.environ.items() if not name.startswith("QMQ_")}
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=PROJECT, env={**base, **environment}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_every_command_of_ours_is_tried_without_a_database() -> None:
    ours = {path.stem for path in (PROJECT / "console/management/commands").glob("[a-z]*.py")}
    assert ours <= {*ARGUMENTS, *NO_DATABASE_NEEDED}


@pytest.mark.parametrize("command", ARGUMENTS)
@pytest.mark.parametrize("is_there", [False, True])
def test_a_missing_database_is_one_line_that_says_what_to_do(tmp_path: Path, command: str, is_there: bool) -> None:
    if is_there:
        (tmp_path / "meta").mkdir()
    done = manage(command, *ARGUMENTS[command], "--data-dir", str(tmp_path))
    if command == "showmigrations" and is_there:
        assert done.returncode == 0, "an empty database has no migrations: that is what it lists"
        return
    assert done.returncode != 0
    (line,) = done.stderr.strip().splitlines()
    assert str(tmp_path / "meta/meta.sqlite3") in line
    assert "has no tables of ours" in line if is_there else "does not exist" in line
    assert "--data-dir" in line
    assert "make up" in line


def test_with_traceback_the_whole_error_is_shown(tmp_path: Path) -> None:
    done = manage("reset_password", "admin", "--traceback", "--data-dir", str(tmp_path))
    assert "Traceback" in done.stderr


def test_a_token_is_made_in_the_system_of_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "meta").mkdir()
    assert manage("migrate", "--verbosity", "0", f"--data-dir={tmp_path}").returncode == 0
    elsewhere = manage("make_token", "admin", "--name", "laptop", "--data-dir", str(tmp_path))
    assert elsewhere.stderr.strip() == "CommandError: there is no active user 'admin'"


@pytest.mark.parametrize("arguments", [["--data-dir", "there/x"], ["--data-dir=there/x"]])
def test_the_data_folder_is_taken_wherever_it_stands(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QMQ_DATA_DIR", "before")
    assert take_data_dir(["manage.py", "make_token", *arguments, "--name", "x"]) == [
        "manage.py",
        "make_token",
        "--name",
        "x",
    ]
    assert os.environ["QMQ_DATA_DIR"] == os.path.abspath("there/x")


def test_a_data_folder_without_a_value_is_refused() -> None:
    with pytest.raises(SystemExit, match="--data-dir: the folder is missing"):
        take_data_dir(["manage.py", "make_token", "--data-dir"])
