from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from spark_analytics.forecasts import anomalies
from spark_analytics.forecasts.anomalies import (
    DAY_HOURS,
    ERRORS_MIN,
    HOUR_MS,
    LOOKBACK_HOURS,
    WEEK_HOURS,
    judged,
    local_hours,
)

UTC_ZONE = ZoneInfo("UTC")
BERLIN = ZoneInfo("Europe/Berlin")


def ms(*when: int) -> int:
    return int(datetime(*when, tzinfo=UTC).timestamp() * 1000)


MONDAY_MS = ms(2026, 1, 5)


def noisy(hours: int, mean: float = 1000.0, series: int = 1, seed: int = 1):
    return np.random.default_rng(seed).poisson(mean, (series, hours)).astype(np.float64)


def test_local_hours_leave_one_out_where_clocks_go_forward_and_repeat_one_where_they_go_back():
    # 29 March and 25 October 2026, 01:00 UTC.
    forward = local_hours(ms(2026, 3, 28, 22), 6, BERLIN) % 24
    back = local_hours(ms(2026, 10, 24, 22), 6, BERLIN) % 24

    assert forward.tolist() == [23, 0, 1, 3, 4, 5]
    assert back.tolist() == [0, 1, 2, 2, 3, 4]


def test_in_a_zone_of_half_hours_an_hour_is_the_local_one_in_which_it_begins():
    assert (local_hours(ms(2026, 3, 1), 3, ZoneInfo("Asia/Kolkata")) % 24).tolist() == [5, 6, 7]


@pytest.mark.parametrize("factor", [0.0, 3.0])
def test_the_second_of_two_outer_hours_in_one_direction_is_flagged(factor):
    values = noisy(10 * WEEK_HOURS)
    values[0, -4:-1] *= factor

    found = judged(values, MONDAY_MS, UTC_ZONE, 6)

    assert found.is_flagged[0].tolist() == [False, False, False, True, True, False]
    assert np.sign(found.score[0, 2:5]).tolist() == [1.0 if factor else -1.0] * 3
    assert np.abs(found.score[0, 2:5]).min() > 1
    assert found.expected == pytest.approx(1000, rel=0.1)
    assert (found.low < found.expected).all()
    assert (found.expected < found.high).all()


def test_an_outer_hour_alone_or_two_in_opposite_directions_are_not_flagged():
    values = noisy(10 * WEEK_HOURS)
    values[0, -9] = 0
    values[0, -5], values[0, -4] = 0, 9_000

    assert not judged(values, MONDAY_MS, UTC_ZONE, 12).is_flagged.any()


def test_the_hour_before_the_window_counts():
    values = noisy(10 * WEEK_HOURS)
    values[0, -2:] = 0

    assert judged(values, MONDAY_MS, UTC_ZONE, 1).is_flagged.tolist() == [[True]]


def test_a_window_at_once_and_hour_by_hour_are_judged_the_same_and_older_hours_do_not_matter():
    values = noisy(LOOKBACK_HOURS + 48, mean=20, series=60)
    values[:, -20:-15] = 0

    whole = judged(values, MONDAY_MS, BERLIN, 24)
    for hour in range(24):
        end = values.shape[1] - 23 + hour
        begin = end - LOOKBACK_HOURS - 1
        one = judged(values[:, begin:end], MONDAY_MS + begin * HOUR_MS, BERLIN, 1)
        for name in ("expected", "low", "high", "score", "is_flagged"):
            np.testing.assert_array_equal(getattr(one, name)[:, 0], getattr(whole, name)[:, hour])
    assert whole.is_flagged.any()


def test_eight_weeks_before_the_oldest_error_count_also_where_clocks_go_back():
    window_ms, older = ms(2026, 12, 8), 100
    values = noisy(older + LOOKBACK_HOURS + 1)
    # The hour whose error is the oldest, and what it was 8 weeks before, with the hour that clocks repeat: without the last of them
    # its median, and so its error, would be far off.
    oldest = older + LOOKBACK_HOURS - 4 * WEEK_HOURS
    weeks_before = [oldest - week * WEEK_HOURS - (week > 2) for week in range(1, 9)]
    values[0, weeks_before] = np.repeat([10.0, 100_000.0], 4)
    first_ms = window_ms - (values.shape[1] - 1) * HOUR_MS

    more = judged(values, first_ms, BERLIN, 1)
    enough = judged(values[:, older:], first_ms + older * HOUR_MS, BERLIN, 1)
    fewer = judged(values[:, older + 2 :], first_ms + (older + 2) * HOUR_MS, BERLIN, 1)

    assert enough.high == more.high
    assert fewer.high > more.high


def shop(first_ms: int, hours: int):
    """1,000 an hour from 8 to 20 by the clocks of Berlin, else 10."""
    of_day = local_hours(first_ms, hours, BERLIN) % 24
    return np.where((of_day >= 8) & (of_day < 20), 1000.0, 10.0)[None, :]


@pytest.mark.parametrize("day", [(2026, 3, 29), (2026, 10, 25)])
def test_where_clocks_change_the_hours_of_the_day_stay_what_they_are(day):
    first_ms = ms(*day) - 10 * WEEK_HOURS * HOUR_MS
    values = shop(first_ms, 10 * WEEK_HOURS + 3 * DAY_HOURS) * noisy(10 * WEEK_HOURS + 3 * DAY_HOURS) / 1000

    local = judged(values, first_ms, BERLIN, 3 * DAY_HOURS)
    utc = judged(values, first_ms, UTC_ZONE, 3 * DAY_HOURS)

    assert not local.is_flagged.any()
    assert local.expected[0] == pytest.approx(shop(first_ms, values.shape[1])[0, -3 * DAY_HOURS :], rel=0.2)
    # By UTC the hours after eight in the morning and in the evening differ, one hour each day.
    assert not np.allclose(utc.expected, local.expected, rtol=0.5)


def test_a_weekend_is_expected_after_four_weeks_and_half_of_it_after_two():
    hours = 6 * WEEK_HOURS
    is_weekend = (np.arange(hours) // DAY_HOURS % 7 >= 5)[None, :]
    values = np.where(is_weekend, 100.0, 1000.0)

    def expected_on_saturday(weeks: int) -> float:
        end = weeks * WEEK_HOURS + 5 * DAY_HOURS + 1
        return float(judged(values[:, :end], MONDAY_MS, UTC_ZONE, 1).expected[0, 0])

    assert expected_on_saturday(4) == pytest.approx(100)
    assert expected_on_saturday(2) == pytest.approx(np.sqrt(101 * 1001) - 1)
    assert expected_on_saturday(0) == pytest.approx(1000)


def test_nothing_is_expected_from_fewer_than_three_values():
    found = judged(noisy(2 * DAY_HOURS + 1), MONDAY_MS, UTC_ZONE, 1)
    assert np.isnan(found.expected).all()

    found = judged(noisy(3 * DAY_HOURS + 1), MONDAY_MS, UTC_ZONE, 1)
    assert np.isfinite(found.expected).all()


def test_with_fewer_than_a_week_of_errors_an_hour_is_not_judged():
    hours = 3 * DAY_HOURS + ERRORS_MIN
    values = noisy(hours + 2)
    values[0, -2:] = 0

    found = judged(values, MONDAY_MS, UTC_ZONE, 3)

    assert np.isnan(found.low[0]).tolist() == [True, False, False]
    assert np.isnan(found.score[0]).tolist() == [True, False, False]
    assert found.is_flagged[0].tolist() == [False, False, True]


def test_hours_that_were_not_measured_are_not_judged():
    values = noisy(10 * WEEK_HOURS)
    values[0, -30:] = 0
    values[0, -3] = np.nan

    found = judged(values, MONDAY_MS, UTC_ZONE, 3)

    assert np.isnan(found.score[0]).tolist() == [True, False, False]
    assert not found.is_flagged[0, :2].any()


def test_a_series_of_the_same_value_is_not_flagged():
    found = judged(np.zeros((1, 10 * WEEK_HOURS)), MONDAY_MS, UTC_ZONE, 24)

    assert not found.is_flagged.any()
    assert (found.score == 0).all()
    assert (found.low == 0).all()


def test_the_lower_end_is_never_negative():
    found = judged(noisy(10 * WEEK_HOURS, mean=1), MONDAY_MS, UTC_ZONE, 24)

    assert found.low.min() == 0
    assert found.high.min() > 0


def test_many_series_are_judged_in_parts(monkeypatch):
    values = noisy(9 * WEEK_HOURS, series=5)
    whole = judged(values, MONDAY_MS, UTC_ZONE, 24)
    monkeypatch.setattr(anomalies, "SERIES_AT_ONCE", 2)

    np.testing.assert_array_equal(judged(values, MONDAY_MS, UTC_ZONE, 24).score, whole.score)


def test_no_series_give_no_rows():
    assert judged(np.empty((0, 500)), MONDAY_MS, UTC_ZONE, 24).is_flagged.shape == (0, 24)


def test_values_that_cannot_be_judged_are_named():
    with pytest.raises(ValueError, match=r"the value -1\.0 is negative"):
        judged(np.full((1, 500), -1.0), MONDAY_MS, UTC_ZONE, 1)
    with pytest.raises(ValueError, match="values of 5 hours for a window of 6"):
        judged(np.zeros((1, 5)), MONDAY_MS, UTC_ZONE, 6)
