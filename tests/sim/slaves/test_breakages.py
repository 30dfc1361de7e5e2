"""The checks of schedules with slaves notice what they are for: each deliberate breakage of the product is found."""

import os
from dataclasses import replace

import pytest

from tests.sim.slaves.breakages import BREAKAGES, SEEDS_MAX, SlavesBreakage
from tests.sim.slaves.copy_breakages import COPY_BREAKAGES
from tests.sim.slaves.delay_breakages import DELAY_BREAKAGES
from tests.sim.slaves.whole_breakages import WHOLE_BREAKAGES
from tests.sim.swarm.runs import Mix, Report

pytestmark = pytest.mark.slow
ALL = (*BREAKAGES, *COPY_BREAKAGES, *DELAY_BREAKAGES, *WHOLE_BREAKAGES)
SEEDS = SEEDS_MAX if os.environ.get("QMQ_SIM") == "full" else 300
"""Tried after the seed that found a breakage before. That one no longer does if the product or the simulation has changed."""


@pytest.mark.parametrize("breakage", ALL, ids=lambda breakage: breakage.name.replace(" ", "-"))
def test_a_breakage_is_noticed(breakage: SlavesBreakage) -> None:
    report = breakage.find(SEEDS)
    assert breakage.is_noticed(report), (
        f"'{breakage.caught_by}' notices '{breakage.name}' neither with seed {breakage.seed} nor with seeds 1 to {SEEDS}. "
        f"Search {SEEDS_MAX} seeds with QMQ_SIM=full and state the one that finds it, or change the mix; "
        f"the last seed found {sorted({broken.check for broken in report.broken})}"
    )
    assert "make sim-slaves " in str(report)
    assert f" SEED={report.seed}" in str(report)


@pytest.mark.parametrize("breakage", ALL, ids=lambda breakage: breakage.name.replace(" ", "-"))
def test_a_breakage_fits_the_code(breakage: SlavesBreakage) -> None:
    with breakage.applied():
        pass


def test_the_search_begins_with_the_seed_that_found_it_and_tries_each_other_seed_once() -> None:
    tried: list[int] = []

    def run(seed: int, mix: Mix) -> Report:
        tried.append(seed)
        return Report(seed, mix, [], "", [], [], 0.0, 0.0)

    breakage = replace(BREAKAGES[0], seed=3, run=run)
    assert not breakage.is_noticed(breakage.find(seeds=4))
    assert tried == [3, 1, 2, 4]
