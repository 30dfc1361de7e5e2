"""Broker groups with slaves under faults: each schedule is decided by its seed, and the rules of replication hold."""

import os

import pytest

from tests.sim.slaves.schedule import RETENTION_SEEDS, STEPS_MIN, has_retention, run_schedule
from tests.support.promises import PromiseBroken

SCHEDULES = int(os.environ.get("QMQ_SIM_SCHEDULES", "10000" if os.environ.get("QMQ_SIM") == "full" else "1000"))
"""Seeds of `make test`: always the same. `make sim-slaves` tries others."""
CHUNK = RETENTION_SEEDS
"""Schedules of a test, so that they are spread over the processes of the tests."""
FEW = 1
"""Chunks that run on other Python versions, too."""


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=pytest.mark.slow if first > FEW * CHUNK else ())
        for first in range(1, SCHEDULES + 1, CHUNK)
    ],
)
def test_the_rules_of_replication_hold_under_faults(first: int) -> None:
    reports = [run_schedule(seed) for seed in range(first, min(first + CHUNK, SCHEDULES + 1))]
    if broken := [report for report in reports if report.broken]:
        raise PromiseBroken("\n\n".join(map(str, broken[:3])))
    assert min(report.counts["steps"] for report in reports) >= STEPS_MIN
    copying = [report for report in reports if has_retention(report.seed)]
    interrupted = [report for report in copying if any(name.startswith("interrupted") for name in report.counts)]
    assert len(interrupted) >= len(copying) // 5, "few of the slaves that copied met a fault in the midst of that"


def test_a_seed_gives_the_same_schedule_again() -> None:
    assert run_schedule(3).digest == run_schedule(3).digest
