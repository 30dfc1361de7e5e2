"""Which forecasts held, once they came due."""

import pytest

from spark_analytics.transforms.scores import DRAIN_DUE_MS, Case, disk_case, drain_case
from spark_analytics.transforms.windows import DAY_MS, HOUR_MS, MINUTE_MS

T = 100 * DAY_MS
HOUR_S, DAY_S = 3_600.0, 86_400.0


@pytest.mark.parametrize(
    ("low", "high", "drained_after_minutes", "due_after_ms", "is_held"),
    [
        (HOUR_S, 2 * HOUR_S, 90, 2 * HOUR_MS, True),
        (HOUR_S, 2 * HOUR_S, 59, 2 * HOUR_MS, True),
        (HOUR_S, 2 * HOUR_S, 58, 2 * HOUR_MS, False),
        (HOUR_S, 2 * HOUR_S, 120, 2 * HOUR_MS, False),
        (HOUR_S, 2 * HOUR_S, None, 2 * HOUR_MS, False),
        (HOUR_S, None, None, DRAIN_DUE_MS, True),
        (HOUR_S, None, 30, DRAIN_DUE_MS, False),
        (HOUR_S, None, 300, DRAIN_DUE_MS, True),
        (None, None, None, DRAIN_DUE_MS, True),
        (None, None, 300, DRAIN_DUE_MS, False),
        (HOUR_S, 3 * DAY_S, 300, DRAIN_DUE_MS, True),
        (2 * DAY_S, 3 * DAY_S, 300, DRAIN_DUE_MS, False),
        (30.0, 50.0, 0, 50_000, True),
    ],
)
def test_a_drain_forecast_holds_when_the_lag_is_drained_inside_of_its_interval(
    low: float | None, high: float | None, drained_after_minutes: int | None, due_after_ms: int, is_held: bool
) -> None:
    drained = None if drained_after_minutes is None else T + drained_after_minutes * MINUTE_MS
    assert drain_case(T, low, high, drained) == Case(T + due_after_ms, is_held)


def test_a_drain_forecast_for_later_than_a_day_is_left_open_when_nothing_contradicts_it() -> None:
    assert drain_case(T, HOUR_S, 3 * DAY_S, None) is None


@pytest.mark.parametrize(
    ("low", "high", "grown", "is_held"),
    [
        # 1,000,000 bytes are free; speeds from 1 to 3 bytes a second, 2 in the middle.
        (1_000_000 / 3, 1_000_000.0, 2 * 86_400, True),
        (1_000_000 / 3, 1_000_000.0, 4 * 86_400, False),
        (1_000_000 / 3, 1_000_000.0, 0, False),
        # The late case never: the slowest speed is as far below the growth as the fastest is above it.
        (1_000_000 / 5, None, -86_400, True),
        (1_000_000 / 5, None, -2 * 86_400, False),
        (None, None, -10 * 86_400, True),
        (None, None, 86_400, False),
    ],
)
def test_a_disk_forecast_holds_when_the_disk_fills_as_fast_as_its_interval_says(
    low: float | None, high: float | None, grown: int, is_held: bool
) -> None:
    assert disk_case(T, 1_000_000, 2.0, low, high, grown) == Case(T + DAY_MS, is_held)


def test_a_disk_that_is_full_is_no_case() -> None:
    assert disk_case(T, 0, 2.0, 0.0, 0.0, 5) is None


def test_a_case_counts_in_the_hour_that_it_comes_due_in() -> None:
    assert Case(T, True).hour_ms == T - HOUR_MS
    assert Case(T + 1, True).hour_ms == T
