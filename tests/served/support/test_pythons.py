"""Which interpreters `make test-pythons` finds, and what it installs for them."""

import re
from pathlib import Path

import pytest

from tests.support.runner.pythons import LOCK, TESTS, find, packages, pins
from tests.support.servers.processes import PROJECT


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a Python: a folder that is on PATH, and one of pyenv's."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    return tmp_path


def test_an_interpreter_on_the_path_comes_first(machine: Path) -> None:
    put(machine / "pyenv/versions/3.12.9/bin/python", "echo 3.12.9")
    on_path = put(machine / "bin/python3.12", "echo 3.12.4")
    assert find("3.12") == on_path
    assert find("3.13") is None


def test_one_on_the_path_that_does_not_run_is_passed_over_for_pyenvs_newest(machine: Path) -> None:
    put(machine / "bin/python3.12", "echo 'pyenv: python3.12: command not found' >&2; exit 127")
    put(machine / "pyenv/versions/3.12.9/bin/python", "echo 3.12.9")
    newest = put(machine / "pyenv/versions/3.12.10/bin/python", "echo 3.12.10")
    put(machine / "pyenv/versions/3.12.11/bin/python", "echo no ensurepip >&2; exit 1")
    put(machine / "pyenv/versions/3.12-dev/bin/python", "echo 3.12.99")
    assert find("3.12") == newest


def test_one_of_another_version_is_none(machine: Path) -> None:
    put(machine / "bin/python3.12", "echo 3.1.2")
    assert find("3.12") is None


def test_the_packages_are_pinned_with_hashes_and_hold_no_spark() -> None:
    names = packages("3.12")
    assert {"aiohttp", "numpy", "django", "pytest", "asgiref", "uvloop"} <= names
    assert not {"pyspark", "playwright", "mypy"} & names
    entries = [line for line in pins(LOCK.read_text(), names).splitlines() if not line.startswith(" ")]
    assert {re.split(r"[=;\[ ]", entry)[0].lower() for entry in entries} >= {"aiohttp", "django", "pytest"}
    assert all("==" in entry for entry in entries)
    text = pins(
        "A-b==1 \\\n    --hash=sha256:aa\nc==2 ; python_version < '3.12' \\\n    --hash=sha256:cc\n", {"a-b", "d"}
    )
    assert text == "A-b==1 \\\n    --hash=sha256:aa\n"


def test_what_is_run_is_there() -> None:
    assert [path for path in TESTS if not (PROJECT / path).exists()] == []
