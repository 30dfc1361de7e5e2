"""Which tests share a worker, and in which order groups start."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.runner.groups import ORDER, SHARED, group_of, rank
from tests.support.servers.processes import PROJECT

TEST = """
import os, pytest
from pathlib import Path
@pytest.mark.parametrize("number", range(3))
def test_it(number):
    with open("ran", "a") as file:
        print(Path(__file__).stem, os.environ["PYTEST_XDIST_WORKER"], file=file)
    __import__("logging").getLogger().warning("a lone surrogate: \\ud800")
"""


def test_folders_that_share_processes_are_one_group_and_other_files_are_their_own() -> None:
    assert group_of("tests/served/e2e/test_links.py::test_a[b::c]") == "browser"
    assert group_of("tests/served/e2e/test_reset.py::test_b") == "browser"
    assert group_of("tests/unit/qmq/test_a.py::test_a") == "tests/unit/qmq/test_a.py"
    assert group_of("tests/served/e2elike/test_a.py::test_a") == "tests/served/e2elike/test_a.py"


def test_long_groups_rank_before_short_ones() -> None:
    names = ["spark", "browser", "tests/faults/test_delay_node_killed.py", "tests/served/api/test_lag.py"]
    names += ["tests/sim/broker/test_policy.py", "tests/unit/qmq/test_codec.py"]
    backwards = names[::-1]
    assert sorted(backwards, key=rank) == names


@pytest.mark.parametrize("place", [*ORDER, *(path for paths in SHARED.values() for path in paths)])
def test_each_place_exists(place: str) -> None:
    assert (PROJECT / place).exists()


def ran(folder: Path, workers: int) -> list[list[str]]:
    """(file, worker) of each test, in the order of running."""
    log = folder / "ran"
    log.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "xdist", "-p", "tests.support.runner.groups", "-n", str(workers)],
        cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(PROJECT)},
    )  # fmt: skip
    assert "15 passed" in done.stdout, done.stdout + done.stderr
    return [line.split() for line in log.read_text().splitlines()]


def test_a_group_runs_whole_on_one_worker_in_the_order_of_ranks(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for place in ("unit/test_c", "unit/test_d", "served/e2e/test_a", "served/e2e/test_b", "sim/test_e"):
        path = tmp_path / f"tests/{place}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TEST)
    assert [file for file, _ in ran(tmp_path, 1)[::3]] == ["test_a", "test_b", "test_e", "test_c", "test_d"]
    on_two = ran(tmp_path, 2)
    assert len({worker for file, worker in on_two if file in ("test_a", "test_b")}) == 1
    assert len({worker for _, worker in on_two}) == 2
