"""Which step a chart is drawn from."""

import itertools

import pytest

from console.analytics.steps import DAY_MS, POINTS_MAX, Step, points, step_for, widened

NOW = 1_800_000_000_000 - 1_800_000_000_000 % DAY_MS
KEEP = {Step.MINUTE: 7, Step.TEN_MINUTES: 30, Step.HOUR: 400, Step.DAY: 1000}
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("hours", "expected"),
    [(1, Step.MINUTE), (16, Step.MINUTE), (17, Step.TEN_MINUTES), (24, Step.TEN_MINUTES), (6 * 24, Step.TEN_MINUTES),
     (7 * 24, Step.HOUR), (41 * 24, Step.HOUR), (42 * 24, Step.DAY), (90 * 24, Step.DAY)],
)  # fmt: skip
def test_the_finest_step_that_has_few_enough_points(hours: int, expected: Step) -> None:
    begin = NOW - hours * HOUR
    assert step_for(begin, NOW, NOW, tuple(Step), KEEP) is expected
    assert points(begin, NOW, expected) <= POINTS_MAX


def test_a_step_that_is_forgotten_by_then_is_not_taken() -> None:
    hour_of = {days: (NOW - days * DAY_MS, NOW - days * DAY_MS + HOUR) for days in (6, 8, 31, 401, 2000)}
    found = {days: step_for(*hour_of[days], NOW, tuple(Step), KEEP) for days in hour_of}
    assert found == {6: Step.MINUTE, 8: Step.TEN_MINUTES, 31: Step.HOUR, 401: Step.DAY, 2000: Step.DAY}


def test_the_limit_holds_exactly_and_none_is_said_when_even_days_are_too_many() -> None:
    end = NOW
    assert step_for(end - POINTS_MAX * 60_000, end, NOW, tuple(Step), KEEP) is Step.MINUTE
    assert step_for(end - (POINTS_MAX + 1) * 60_000, end, NOW, tuple(Step), KEEP) is Step.TEN_MINUTES
    assert step_for(0, end, NOW, tuple(Step), KEEP) is None
    assert step_for(end - 90 * DAY_MS, end, NOW, (Step.HOUR, Step.DAY), KEEP) is Step.DAY


def test_points_are_steps_that_begin_in_the_range() -> None:
    assert points(0, 60_000, Step.MINUTE) == 1
    assert points(1, 60_000, Step.MINUTE) == 0
    assert points(59_999, 60_001, Step.MINUTE) == 1


def test_a_range_is_widened_to_whole_steps() -> None:
    assert widened(61_000, 119_000, Step.MINUTE) == (60_000, 120_000)
    assert widened(60_000, 120_000, Step.MINUTE) == (60_000, 120_000)
    assert widened(60_000, 120_000, Step.DAY) == (0, DAY_MS)
    finer = [step.ms for step in Step]
    assert all(coarse % fine == 0 for fine, coarse in itertools.pairwise(finer))
