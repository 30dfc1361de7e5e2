"""What is different in CI: a missing program fails its tests, and generated examples do not change from run to run."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.servers.processes import PROJECT

PRINTS_EXAMPLES = """
import hypothesis, hypothesis.strategies as st
import tests.conftest

@hypothesis.settings(database=None, max_examples=50)
@hypothesis.given(st.integers())
def show(value):
    print(value)

show()
"""


def environment(**values: str) -> dict[str, str]:
    """This process's environment with only these of the variables that decide; CI systems set others that hypothesis reads."""
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "QMQ_TEST_DATABASES")}
    return {**kept, **values}


def examples(**values: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PRINTS_EXAMPLES],
        cwd=PROJECT, env=environment(**values), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.count("\n") >= 40
    return done.stdout


def test_examples_are_the_same_in_each_run_of_ci_and_random_elsewhere() -> None:
    assert examples(CI="true") == examples(CI="true")
    assert examples() != examples()


def conformance(bin_folder: Path, **values: str) -> "subprocess.CompletedProcess[str]":
    """The tests of the Java client on a machine without Maven and Java."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/served/conformance", "-k", "newest or 1.1.43", "-x"],
        cwd=PROJECT, env=environment(PATH=str(bin_folder), **values), capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_without_maven_and_java_the_tests_of_the_java_client_fail_in_ci_and_are_skipped_elsewhere(
    tmp_path: Path,
) -> None:
    skipped = conformance(tmp_path)
    assert skipped.returncode == 0, skipped.stdout
    assert "mvn and java not on PATH" in skipped.stdout
    failed = conformance(tmp_path, CI="true")
    assert failed.returncode == 1, failed.stdout
    assert "mvn and java not on PATH: the Java client can't be built and run (CI is set" in failed.stdout
