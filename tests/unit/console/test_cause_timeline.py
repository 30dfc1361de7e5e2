"""Causes of dead letters over time."""

import pytest

from console.cluster.dead_letters.causes import POINTS_MAX, CauseSeries, timeline_of


def test_nothing_has_no_points():
    assert timeline_of({}, []).at_ms == []


def test_causes_by_step_and_the_others_together():
    found = timeline_of({("A", 10): 2, ("A", 12): 1, (None, 10): 4, ("B", 11): 3, ("C", 11): 5}, ["A", None])
    assert (found.step_seconds, found.at_ms) == (60, [600_000, 660_000, 720_000])
    assert found.series == [CauseSeries("A", [2, 0, 1]), CauseSeries(None, [4, 0, 0])]
    assert found.others == [0, 8, 0]


@pytest.mark.parametrize(
    ("minutes", "step"), [(59, 60), (60, 600), (599, 600), (24 * 60, 3_600), (14 * 1_440, 21_600), (59 * 1_440, 86_400)]
)
def test_the_step_grows_with_the_span(minutes: int, step: int):
    found = timeline_of({("A", 0): 1, ("A", minutes): 1}, ["A"])
    assert found.step_seconds == step
    assert sum(found.series[0].messages) == 2
    assert len(found.at_ms) == len(found.series[0].messages) <= POINTS_MAX


def test_a_clock_that_is_years_ahead_makes_no_million_points():
    found = timeline_of({("A", 0): 1, ("A", 50_000_000): 1}, ["A"])
    assert len(found.at_ms) <= POINTS_MAX
    assert sum(found.series[0].messages) == 2
