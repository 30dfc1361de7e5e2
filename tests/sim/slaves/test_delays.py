"""Delay groups alone under faults: each schedule is decided by its seed, and what is promised of delayed messages holds."""

import os
from collections import Counter
from dataclasses import replace

import pytest

from tests.sim.slaves.delay_storm import FAULTS
from tests.sim.slaves.delays import STEPS_MIN, mix_of, run_delays
from tests.support.promises import PromiseBroken

SCHEDULES = int(os.environ.get("QMQ_SIM_DELAYS", "10000" if os.environ.get("QMQ_SIM") == "full" else "500"))
"""Seeds of `make test`: always the same. `make sim-slaves KIND=delays` tries others."""
CHUNK = 25
"""Schedules of a test, so that they are spread over the processes of the tests."""
FEW = 1
"""Chunks that run on other Python versions, too."""
MET = ("delivered", "done", "too_late", "unchanged", "cancelled together")
"""What happens in each chunk."""


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=pytest.mark.slow if first > FEW * CHUNK else ())
        for first in range(1, SCHEDULES + 1, CHUNK)
    ],
)
def test_what_is_promised_of_delayed_messages_holds_under_faults(first: int) -> None:
    reports = [run_delays(seed) for seed in range(first, min(first + CHUNK, SCHEDULES + 1))]
    if broken := [report for report in reports if report.broken]:
        raise PromiseBroken("\n\n".join(map(str, broken[:3])))
    assert min(report.counts["steps"] for report in reports) >= STEPS_MIN
    if len(reports) == CHUNK:
        counts = sum((Counter(report.counts) for report in reports), Counter())
        missing = [name for name in MET if not counts[name]]
        assert not missing, f"seeds {first} to {reports[-1].seed} met no {missing}"


def test_switch_overs_repeat_nothing() -> None:
    for seed in range(1, CHUNK + 1):
        mix = replace(mix_of(seed), faults=("switch_over", "broker_failover"), fault_seconds=0.7)
        report = run_delays(seed, replace(mix, copies=max(2, mix.copies), has_copies=False))
        assert not report.broken, report


def test_the_schedules_of_ci_have_each_fault_with_each_number_of_members() -> None:
    mixes = [mix_of(seed) for seed in range(1, 501)]
    for copies in (1, 2, 3):
        found = {fault for mix in mixes if mix.copies == copies for fault in mix.faults}
        assert found >= set(FAULTS), copies
    assert sum(mix.has_copies for mix in mixes) >= 25
    assert sum(mix.hour_ends > 0 for mix in mixes) >= 100


def test_a_seed_gives_the_same_schedule_again() -> None:
    assert run_delays(3).digest == run_delays(3).digest
