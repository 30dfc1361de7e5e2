"""Waiting in tests: the limit of a test is the deadline, and times are figures."""

import time

import pytest

from tests.support import waiting
from tests.support.waiting import LIMIT_SHARE, FigureAboveLimit, eventually, eventually_async, figure, limited_to, timed


def test_the_first_true_value_is_returned() -> None:
    values = iter([0, "", "found", "later"])
    assert eventually(lambda: next(values), every_s=0) == "found"


async def test_a_condition_that_stays_false_fails_with_its_name_at_the_limit() -> None:
    with limited_to(0.05):
        with pytest.raises(AssertionError, match="the moon is green"):
            eventually(lambda: False, what="the moon is green")
        with pytest.raises(AssertionError, match="the sea is red"):
            await eventually_async(lambda: False, what="the sea is red")


@pytest.mark.timeout(5_000)
def test_the_limit_of_this_test_is_its_deadline() -> None:
    assert waiting._ends_at is not None
    assert 4_000 < waiting._ends_at - time.monotonic() <= 5_000 * LIMIT_SHARE


def test_a_figure_above_its_limit_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    figure("failover", 2.0, 2)
    with pytest.warns(FigureAboveLimit, match=r"failover: 6\.5 s, the limit is 2 s"):
        figure("failover", 6.5, 2)
    with timed("nothing", 10):
        pass
    assert capsys.readouterr().out == (
        "figure: failover: 2.0 s of 2\nfigure: failover: 6.5 s of 2\nfigure: nothing: 0.0 s of 10\n"
    )
