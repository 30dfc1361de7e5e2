"""The checks of schedules with slaves notice what they are for: each deliberate breakage of the product is found."""

from dataclasses import replace

import pytest

from tests.sim.slaves.breakages import BREAKAGES, SlavesBreakage
from tests.sim.slaves.copy_breakages import COPY_BREAKAGES
from tests.sim.slaves.whole_breakages import WHOLE_BREAKAGES
from tests.sim.swarm.runs import Mix, Report

pytestmark = pytest.mark.slow
ALL = (*BREAKAGES, *COPY_BREAKAGES, *WHOLE_BREAKAGES)


@pytest.mark.parametrize("breakage", ALL, ids=lambda breakage: breakage.name.replace(" ", "-"))
def test_a_breakage_is_noticed(breakage: SlavesBreakage) -> None:
    report = breakage.find()
    found = {broken.check for broken in report.broken}
    assert breakage.is_noticed(report), f"{breakage.caught_by} had to notice it; the last seed found {found}"
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
