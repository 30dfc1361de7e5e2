"""The checks of the simulation notice what they are for: each deliberate breakage of the product fails its check."""

import os
from collections import Counter
from datetime import UTC, datetime

import pytest

from tests.sim.swarm.breakages import BREAKAGES, Breakage

pytestmark = pytest.mark.slow
EVERY = os.environ.get("QMQ_SIM") == "full"
SHARE = 4
"""`make test` runs every fourth breakage, others each day; `make test-all` runs all."""


def chosen() -> list[Breakage]:
    if EVERY:
        return list(BREAKAGES)
    day = datetime.now(UTC).toordinal()
    return [breakage for number, breakage in enumerate(BREAKAGES) if number % SHARE == day % SHARE]


@pytest.mark.parametrize("breakage", chosen(), ids=lambda breakage: breakage.name.replace(" ", "-"))
def test_a_breakage_is_noticed(breakage: Breakage) -> None:
    report = breakage.run()
    found = {broken.check for broken in report.broken}
    assert breakage.is_noticed(report), (
        f"{breakage.caught_by} had to notice it in the runs {breakage.seeds}; found last: {found}"
    )
    assert f"make sim SEED={report.seed}" in str(report)


def test_each_check_notices_a_breakage_that_no_other_notices() -> None:
    alone = Counter(breakage.caught_by for breakage in BREAKAGES if breakage.is_alone)
    assert not {breakage.caught_by for breakage in BREAKAGES} - alone.keys()


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.name.replace(" ", "-"))
def test_a_breakage_fits_the_code(breakage: Breakage) -> None:
    with breakage.applied():
        pass
