import numpy as np
import pytest

from spark_analytics.forecasts import conformal, drain
from spark_analytics.forecasts.conformal import from_table, to_table
from spark_analytics.forecasts.drain import DAY_MINUTES, RULE, Forecasts, History, Points
from tests.support.analytics.simulated_series import lag_series

NOW = 4 * DAY_MINUTES
KEY = ("orders", "billing")


def history(arrivals, lag, *, known_from=0) -> History:
    """One group: messages that arrive in each minute, and lag at each minute's beginning and at the end."""
    minutes = len(arrivals)
    return History(
        np.append(0.0, np.cumsum(arrivals))[None, :],
        np.asarray(lag, dtype=np.float64)[None, :],
        np.zeros((1, minutes), dtype=bool),
        np.array([known_from]),
    )


def falling(now: float = 100, speed: float = 20, arrivals: float = 10, days: int = 4) -> History:
    """Lag that came within the last half hour: so much arrives a minute, so much is consumed."""
    minutes = days * DAY_MINUTES
    lag = np.zeros(minutes + 1)
    lag[-31:] = now + np.arange(30, -1, -1) * (speed - arrivals)
    return history(np.full(minutes, float(arrivals)), lag)


def point(of: History, at: int = NOW) -> float:
    found = drain.points(of, at)
    assert found.groups.tolist() == [0]
    return float(found.minutes[0])


def class_name(of: History) -> str:
    return drain.CLASSES[drain.points(of, NOW).classes[0]]


def test_lag_is_drained_at_the_speed_of_now_less_what_arrives():
    assert point(falling(now=100, speed=20, arrivals=10)) == 10


def test_the_minute_in_which_the_lag_ends_counts_as_a_whole():
    assert point(falling(now=101, speed=20, arrivals=10)) == 11


def test_the_point_is_the_median_of_what_arrived_on_earlier_days_from_this_time_on():
    of = falling(now=100, speed=20, arrivals=10)
    for days_ago, arrivals in ((1, 10), (2, 18), (3, 0), (4, 18)):
        at = NOW - days_ago * DAY_MINUTES
        of.arrived[0, at : at + 200] = of.arrived[0, at] + arrivals * np.arange(200)
        of.arrived[0, at + 200 :] += of.arrived[0, at + 199] - of.arrived[0, at + 200] + 10

    # 10, 50, 5 and 50 minutes.
    assert point(of) == 30


def test_only_the_last_14_days_are_replayed():
    of = falling(days=16)
    arrivals = np.repeat([15.0, 10.0], [9 * DAY_MINUTES, 7 * DAY_MINUTES])
    of.arrived[0, 1:] = np.cumsum(arrivals)

    # Seven times 10 minutes, and 20 before.
    assert point(of, 16 * DAY_MINUTES) == 15


def test_of_fewer_than_three_days_the_point_is_unknown():
    of = falling()

    assert np.isnan(point(History(of.arrived, of.lag, of.was_reset, np.array([DAY_MINUTES + 1]))))
    assert point(History(of.arrived, of.lag, of.was_reset, np.array([DAY_MINUTES]))) == 10


def test_a_group_without_lag_has_no_forecast():
    assert len(drain.points(falling(now=0), NOW).groups) == 0


def test_lag_that_is_not_known_has_no_forecast():
    of = falling()
    of.lag[0, NOW] = np.nan

    assert len(drain.points(of, NOW).groups) == 0


def test_minutes_with_unknown_lag_do_not_count_in_the_speed():
    of = falling()
    of.lag[0, NOW - 10 : NOW - 5] = np.nan

    assert point(of) == 10


def test_a_group_that_consumes_nothing_now_has_the_speed_of_its_busy_minutes():
    of = falling(now=400, speed=0, arrivals=10)
    of.lag[0, 1000:1021] = np.arange(600, 399, -10)

    assert point(of) == 40


def test_a_group_that_never_consumed_is_not_drained_within_a_day():
    of = falling(now=400, speed=0, arrivals=10)

    assert point(of) == DAY_MINUTES


def test_a_minute_in_which_the_group_was_set_elsewhere_does_not_count_in_the_speed():
    of = falling()
    of.lag[0, NOW - 30 : NOW - 9] += 5_000
    assert point(of) == 1

    of.was_reset[0, NOW - 10] = True
    assert point(of) == 10


def test_what_is_behind_the_time_does_not_count():
    of = falling(days=5)
    of.lag[0, NOW - 30 : NOW + 1] = 100 + np.arange(30, -1, -1) * 10
    before = point(of)
    of.arrived[0, NOW + 1 :] = of.arrived[0, NOW]
    of.lag[0, NOW + 1 :] = 0

    assert point(of) == before == 10


@pytest.mark.parametrize("at", [29, NOW + 1])
def test_a_time_outside_of_the_history_is_refused(at):
    with pytest.raises(ValueError, match=f"minute {at} of a history of {NOW}: must be from 30 to its end"):
        drain.points(falling(), at)


@pytest.mark.parametrize(
    ("now", "name"),
    [
        (19, "below_2_minutes"), (20, "below_20_minutes"), (199, "below_20_minutes"), (200, "below_2_hours"),
        (1199, "below_2_hours"), (1200, "from_2_hours"),
    ],
)  # fmt: skip
def test_classes_are_by_minutes_of_arrivals_that_wait_and_by_trend(now, name):
    assert class_name(falling(now=now, speed=10)) == name
    assert class_name(falling(now=now, speed=11)) == f"falling_{name}"


def test_lag_without_arrivals_is_in_the_largest_class():
    assert class_name(falling(now=1, speed=1, arrivals=0)) == "falling_from_2_hours"


def calibrated(scores) -> conformal.Calibration:
    state = conformal.extended(conformal.empty(RULE), [KEY])
    state.scores[0, 0, -len(scores) :] = scores
    return state


def forecast(minutes: float, scores) -> Forecasts:
    zero = np.zeros(1, dtype=np.int64)
    return drain.forecasts(calibrated(scores), zero, Points(zero, np.array([minutes]), zero))


def test_the_interval_is_the_point_times_what_forecasts_were_off_by():
    found = forecast(10, np.log(np.repeat([0.5, 1, 3], [20, 60, 20])))

    assert found.low_seconds == pytest.approx([300])
    assert found.mid_seconds == pytest.approx([600])
    assert found.high_seconds == pytest.approx([1800])


def test_an_upper_end_beyond_a_day_is_none():
    found = forecast(600, np.log(np.repeat([0.5, 1, 3], [20, 60, 20])))

    assert np.isinf(found.high_seconds)
    assert conformal.outlooks(found.low_seconds, found.high_seconds).tolist() == ["possible"]


def test_a_drain_forecast_rests_on_30_to_100_cases_and_each_moves_its_levels_by_two_hundredths():
    assert (RULE.scores_min, RULE.scores_max, RULE.step, RULE.is_shared) == (30, 100, 0.02, True)


def test_with_fewer_than_30_cases_the_point_is_there_and_the_interval_unknown():
    found = forecast(10, np.zeros(29))

    assert found.mid_seconds == pytest.approx([600])
    assert np.isnan([found.low_seconds, found.high_seconds]).all()
    assert conformal.outlooks(found.low_seconds, found.high_seconds).tolist() == ["unknown"]


def test_the_truth_is_the_end_of_the_first_minute_without_lag_within_a_day():
    lag = np.full((4, DAY_MINUTES + 11), 5.0)
    lag[0, 11] = 0
    lag[1, DAY_MINUTES + 10] = 0
    lag[3, 50] = np.nan
    lag[3, 51] = 0

    found = drain.drained_minutes(lag, np.arange(4), 10)

    assert found[:3].tolist() == [1, DAY_MINUTES, np.inf]
    assert np.isnan(found[3])


def test_a_case_says_how_far_the_point_was_off_and_which_end_was_missed():
    made = Forecasts(
        np.array([60.0, 60, 60, np.nan, 60, np.inf]),
        np.array([120.0, 120, 120, 120, np.nan, np.inf]),
        np.array([240.0, 240, 240, np.nan, 240, np.inf]),
    )
    truth = np.array([2.0, 5, np.nan, 4, 1, 720])
    series = np.arange(6)

    found = drain.cases(series, np.ones(6, dtype=np.int64), made, truth, np.full(6, 1_000))

    assert found.series.tolist() == [0, 1, 3, 5]
    assert found.scores == pytest.approx(np.log([1, 2.5, 2, 0.5]))
    assert found.missed[[0, 1, 3]].tolist() == [[0, 0], [0, 1], [1, 0]]
    assert np.isnan(found.missed[2]).all()
    assert set(found.due_ms) == {1_000 + drain.DAY_MS}


def hours(state: conformal.Calibration, first: int, last: int, made: dict) -> tuple[conformal.Calibration, list]:
    """Forecasts of some hours of simulated groups, as a run makes them."""
    series = lag_series(3, groups=3, days=8)
    count = len(series.kinds)
    of = History(
        series.arrived, series.lag, np.zeros((count, 8 * DAY_MINUTES), dtype=bool), np.zeros(count, dtype=np.int64)
    )
    state = conformal.extended(state, [("subject", f"group-{number:02}") for number in range(count)])
    found = []
    for at in range(first * 60, last * 60, 60):
        if at - DAY_MINUTES in made:
            points, forecasts = made[at - DAY_MINUTES]
            truth = drain.drained_minutes(series.lag, points.groups, at - DAY_MINUTES)
            made_ms = np.full(len(truth), (at - DAY_MINUTES) * 60_000)
            state = conformal.learned(
                RULE, state, drain.cases(points.groups, points.classes, forecasts, truth, made_ms)
            )
        points = drain.points(of, at)
        made[at] = points, drain.forecasts(state, points.groups, points)
        found.append([made[at][1].low_seconds, made[at][1].mid_seconds, made[at][1].high_seconds])
    return state, found


def test_an_hour_that_is_computed_again_from_the_same_state_is_the_same_and_so_are_hours_in_two_runs():
    once, whole = hours(conformal.empty(RULE), 72, 150, {})

    made: dict = {}
    half, first = hours(conformal.empty(RULE), 72, 120, made)
    stored = to_table(RULE, half)
    _, killed = hours(from_table(RULE, stored), 120, 150, dict(made))
    state, second = hours(from_table(RULE, stored), 120, 150, dict(made))

    assert any(np.isfinite(ends).all() for _, *ends in second)
    for one, other in zip(second, killed, strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(whole, first + second, strict=True):
        np.testing.assert_array_equal(one, other)
    assert to_table(RULE, once) == to_table(RULE, state)
