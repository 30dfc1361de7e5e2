"""Points over time: fewer of them, and what a span comes to."""

from hypothesis import given
from hypothesis import strategies as st

from console.reports.timelines.points import Column, Figures, Points, factor_for, figures, thinned


def points(step_ms: int, at_ms: list[int], highest: Column, mean: Column | None = None) -> Points:
    return Points(step_ms, at_ms, {"lag": highest}, {"lag": highest if mean is None else mean})


def test_few_points_stay_as_they_are() -> None:
    assert factor_for(10, 10) == 1
    assert thinned(points(10, [20, 30], [1, None]), 1) == ([20, 30], {"lag": [1, None]})


def test_of_many_points_peaks_stay_and_what_was_not_measured_stays_unknown() -> None:
    found = thinned(points(10, [30, 40, 50, 60, 70, 80, 90], [1, 9, None, 2, 3, None, None]), 3)
    assert found == ([30, 60, 90], {"lag": [9, 3, None]})


def test_a_point_begins_at_a_multiple_of_its_length_but_not_before_the_first_value() -> None:
    assert thinned(points(10, [50, 60, 70], [4, 5, 6]), 4) == ([50], {"lag": [6]})
    assert thinned(points(10, [70, 80, 90], [4, 5, 6]), 4) == ([70, 80], {"lag": [4, 6]})


@given(st.integers(0, 5_000), st.integers(1, 3_000), st.integers(2, 800))
def test_there_are_never_more_points_than_allowed(first: int, steps: int, points_max: int) -> None:
    at_ms = [10 * (first + number) for number in range(steps)]
    times, columns = thinned(points(10, at_ms, [float(n) for n in range(steps)]), factor_for(steps, points_max))
    assert len(times) == len(columns["lag"]) <= points_max
    assert max(value for value in columns["lag"] if value is not None) == steps - 1


def test_no_range_and_no_values_come_to_nothing() -> None:
    assert thinned(Points(10, [], {}, {}), 2) == ([], {})
    assert figures([points(10, [10], [None])], "lag") == Figures(None, None, 0)
    assert figures([points(10, [10], [1])], "ack_rate") == Figures(None, None, 0)


def test_a_minute_counts_six_times_as_much_as_ten_seconds() -> None:
    minutes = points(60_000, [0, 60_000], [100, None], [10, None])
    seconds = points(10_000, [120_000, 130_000], [4, 4])
    assert figures([minutes, seconds], "lag") == Figures((10 * 60 + 4 * 20) / 80, 100, 80)


def test_the_percentile_leaves_out_a_peak_that_is_shorter_than_a_hundredth() -> None:
    column: Column = [1.0] * 198 + [7.0, 50.0]
    assert figures([points(10_000, list(range(200)), column)], "lag").p99 == 1.0
    assert figures([points(10_000, list(range(200)), [1.0] * 197 + [7.0, 7.0, 50.0])], "lag").p99 == 7.0
