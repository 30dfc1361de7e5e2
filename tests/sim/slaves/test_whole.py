"""Whole systems whose broker groups have slaves, under faults: each schedule is decided by its seed, and every promise holds."""

import os
from collections import Counter

import pytest

from tests.sim.slaves.meetings import INGREDIENTS
from tests.sim.slaves.whole import run_whole
from tests.support.promises import PromiseBroken

SCHEDULES = int(os.environ.get("QMQ_SIM_WHOLE", "500" if os.environ.get("QMQ_SIM") == "full" else "20"))
"""Seeds of `make test`: always the same. `make sim-slaves KIND=whole` tries others."""
CHUNK = 10
"""Schedules of a test, so that they are spread over the processes of the tests."""


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, SCHEDULES + 1, CHUNK))
def test_every_promise_holds_while_masters_change(first: int) -> None:
    reports = [run_whole(seed) for seed in range(first, min(first + CHUNK, SCHEDULES + 1))]
    if broken := [report for report in reports if report.broken]:
        raise PromiseBroken("\n\n".join(map(str, broken[:3])))
    if len(reports) == CHUNK:
        counts = sum((Counter(report.counts) for report in reports), Counter())
        missing = [name for name in INGREDIENTS if not counts[f"met: {name}"]]
        assert not missing, f"no change of master met {missing} in seeds {first} to {reports[-1].seed}"


def test_a_seed_gives_the_same_schedule_again() -> None:
    assert run_whole(1).digest == run_whole(1).digest
