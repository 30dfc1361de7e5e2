"""Whole systems under faults: each run is decided by its seed, and every promise is checked at its end."""

import os
import subprocess
import sys

import pytest

from tests.sim.regressions import REGRESSIONS
from tests.sim.swarm import run_seed
from tests.support.promises import PromiseBroken

RUNS = int(os.environ.get("QMQ_SIM_RUNS", "50"))
"""Seeds of `make test`: always the same, so that no change fails on a run that was not there before. `make sim` tries others."""


def holds(seed: int) -> None:
    report = run_seed(seed)
    if report.broken:
        raise PromiseBroken(str(report))


@pytest.mark.parametrize("seed", range(1, RUNS + 1))
def test_every_promise_holds_under_faults(seed: int) -> None:
    holds(seed)


@pytest.mark.parametrize("seed", REGRESSIONS, ids=str)
def test_what_a_run_found_once_is_not_back(seed: int) -> None:
    holds(seed)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_seed_gives_the_same_run_in_other_processes(seed: int) -> None:
    digests = {run_seed(seed).digest}
    for hash_seed in ("0", "9"):
        code = f"from tests.sim.swarm import run_seed; print(run_seed({seed}).digest)"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            text=True,
        )
        digests.add(done.stdout.split()[-1])
    assert len(digests) == 1
    assert digests != {run_seed(seed + 1).digest}
