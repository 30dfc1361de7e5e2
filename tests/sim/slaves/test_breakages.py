"""The checks of schedules with slaves notice what they are for: each deliberate breakage of the product is found."""

import os
from datetime import UTC, datetime

import pytest

from tests.sim.slaves.breakages import BREAKAGES, SlavesBreakage
from tests.sim.slaves.copy_breakages import COPY_BREAKAGES
from tests.sim.slaves.whole_breakages import WHOLE_BREAKAGES

pytestmark = pytest.mark.slow
EVERY = os.environ.get("QMQ_SIM") == "full"
ALL = (*BREAKAGES, *COPY_BREAKAGES, *WHOLE_BREAKAGES)
SHARE = 4
"""`make test` runs every fourth breakage, others each day; `make test-all` runs all."""


def chosen() -> list[SlavesBreakage]:
    if EVERY:
        return list(ALL)
    day = datetime.now(UTC).toordinal()
    return [breakage for number, breakage in enumerate(ALL) if number % SHARE == day % SHARE]


@pytest.mark.parametrize("breakage", chosen(), ids=lambda breakage: breakage.name.replace(" ", "-"))
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
