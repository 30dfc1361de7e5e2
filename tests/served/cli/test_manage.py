"""Management commands: which system they act on, and what they print when its database is not there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from console.manage import take_data_dir
from tests.support.servers.processes import PROJECT

ARGUMENTS = {
    "analytics": (),
    "create_admin": (),
    "import_datasources": ("mysql://qmq@127.0.0.1:1/qmq",),
    "make_token": ("admin", "--name", "laptop"),
    "reset_password": ("admin",),
    "showmigrations": ("--plan",),
    "unlock_user": ("admin",),
}
NO_DATABASE_NEEDED = {
    "collect": "reads nodes, and publishes on Redis",
    "demo": "talks to a running console first; tests/served/demo",
    "up": "creates the database",
}


RUNS_EACH = """
import json, os, sys, tempfile
folder, commands = sys.argv[1], json.loads(sys.argv[2])
os.environ.update(QMQ_DATA_DIR=folder, DJANGO_SETTINGS_MODULE="console.settings")
import django
django.setup()
import console.urls  # which most commands check
from console.manage import main
found = {}
for command, arguments in commands.items():
    with tempfile.TemporaryFile("w+") as error:
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(error.fileno(), 2)
            sys.argv = ["manage.py", command, *arguments, "--data-dir", folder]
            main()
            sys.exit()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        error.seek(0)
        found[command] = (code, error.read())
print(json.dumps(found))
"""


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


def each_command(folder: Path) -> "dict[str, subprocess.CompletedProcess[str]]":
    """Run every command of ARGUMENTS on a data folder, as manage.py does it, in forks of one process that has loaded Django."""
    base = {name: value for name, value in os.environ.items() if not name.startswith("QMQ_")}
    done = subprocess.run(
        [sys.executable, "-c", RUNS_EACH, str(folder), json.dumps(ARGUMENTS)],
        cwd=PROJECT, env=base, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return {
        command: subprocess.CompletedProcess(command, code, "", error)
        for command, (code, error) in json.loads(done.stdout).items()
    }


@pytest.mark.parametrize("is_there", [False, True])
def test_a_missing_database_is_one_line_that_says_what_to_do(tmp_path: Path, is_there: bool) -> None:
    if is_there:
        (tmp_path / "meta").mkdir()
    found = each_command(tmp_path)
    assert found.keys() == ARGUMENTS.keys()
    for command, done in found.items():
        if command == "showmigrations" and is_there:
            assert done.returncode == 0, "an empty database has no migrations: that is what it lists"
            continue
        assert done.returncode != 0, command
        (line,) = done.stderr.strip().splitlines()
        assert str(tmp_path / "meta/meta.sqlite3") in line
        assert "contains no PyQMQ tables" in line if is_there else "does not exist" in line
        assert "--data-dir" in line
        assert "make up" in line


def test_with_traceback_the_whole_error_is_shown(tmp_path: Path) -> None:
    done = manage("reset_password", "admin", "--traceback", "--data-dir", str(tmp_path))
    assert "Traceback" in done.stderr


def test_a_token_is_made_in_the_system_of_the_data_folder(tmp_path: Path) -> None:
    (tmp_path / "meta").mkdir()
    assert manage("migrate", "--verbosity", "0", f"--data-dir={tmp_path}").returncode == 0
    elsewhere = manage("make_token", "admin", "--name", "laptop", "--data-dir", str(tmp_path))
    assert elsewhere.stderr.strip() == "CommandError: Active user 'admin' not found."


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
    with pytest.raises(SystemExit, match="--data-dir requires a folder"):
        take_data_dir(["manage.py", "make_token", "--data-dir"])
