import numpy as np
import pytest

from spark_analytics.forecasts import conformal, disk
from spark_analytics.forecasts.disk import CASE_MS, DAY_MS, RULE, Forecasts

NAN = np.nan


@pytest.mark.parametrize(
    ("used", "growth"),
    [
        ([130.0, 100.0, 60.0, 50.0], 20.0),
        ([130.0, 100.0, NAN, 50.0], 30.0),
        ([130.0, NAN, 60.0, 50.0], 10.0),
        ([NAN, 100.0, NAN, 50.0], NAN),
        ([90.0, 100.0, 60.0, 60.0], -5.0),
    ],
)
def test_the_growth_of_the_next_day_is_the_mean_of_yesterdays_and_last_weeks(used, growth):
    assert disk.growth(np.array([used])) == pytest.approx([growth], nan_ok=True)


def test_the_time_until_full_is_free_space_over_growth():
    free = np.array([100.0, 100, 100, 100, 0, 100])
    growth = np.array([50.0, 0, -5, NAN, NAN, np.inf])

    found = disk.full_seconds(free, growth)

    assert found == pytest.approx([172_800, np.inf, np.inf, NAN, 0, 0], nan_ok=True)


def learned(count: int, errors=None) -> conformal.Calibration:
    state = conformal.extended(conformal.empty(RULE), [("broker-1", "node-1"), ("broker-1", "node-2")])
    made = Forecasts(np.full(count, NAN), np.full(count, 1000.0), np.full(count, NAN))
    truth = 1000.0 + (np.arange(count) if errors is None else errors)
    made_ms = np.arange(1, count + 1) * CASE_MS
    return conformal.learned(RULE, state, disk.cases(np.zeros(count, dtype=np.int64), made, truth, made_ms))


def test_with_fewer_than_48_cases_the_growth_is_there_and_the_interval_unknown():
    found = disk.forecasts(learned(47), np.array([0]), np.array([500.0]))

    assert found.mid_bytes.tolist() == [500]
    assert np.isnan(found.low_bytes).all()
    assert np.isfinite(disk.forecasts(learned(48), np.array([0]), np.array([500.0])).low_bytes).all()


def test_the_interval_is_the_growth_and_the_errors_of_14_days():
    state = learned(156, np.append(np.full(100, 1e6), np.arange(56)))

    found = disk.forecasts(state, np.array([0]), np.array([500.0]))

    # 56 errors: ranks 5 and 52 of 57.
    assert (found.low_bytes[0], found.high_bytes[0]) == (504, 551)


def test_disks_learn_nothing_from_each_other():
    assert np.isnan(disk.forecasts(learned(100), np.array([1]), np.array([500.0])).high_bytes).all()


def test_levels_adapt_by_one_hundredth():
    made = Forecasts(np.array([0.0]), np.array([10.0]), np.array([20.0]))
    cases = disk.cases(np.array([0]), made, np.array([25.0]), np.array([0]))

    assert conformal.learned(RULE, learned(0), cases).levels[0] == pytest.approx([0.101, 0.091])


def test_forecasts_of_every_sixth_hour_are_cases_if_there_is_a_truth():
    made = Forecasts(np.full(4, 0.0), np.array([10.0, 10.0, NAN, 10.0]), np.full(4, 20.0))
    truth, made_ms = np.array([15.0, 15.0, 15.0, NAN]), np.array([CASE_MS, CASE_MS // 6, CASE_MS, CASE_MS])

    found = disk.cases(np.arange(4), made, truth, made_ms)

    assert found.series.tolist() == [0]
    assert found.scores.tolist() == [5]
    assert found.due_ms.tolist() == [CASE_MS + DAY_MS]
