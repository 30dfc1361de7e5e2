"""The figures that forecasts have to hold (docs/analytics.md), over simulated series with fixed seeds."""

import numpy as np
import pytest

from tests.support.analytics.forecast_figures import (
    Outcomes,
    changes_found_percents,
    disk_outcomes,
    drain_outcomes,
    drain_percents,
    flagged_percents,
)
from tests.support.analytics.simulated_series import DISK_KINDS, LAG_KINDS, disk_series, lag_series, traffic_series

SEED = 1


@pytest.fixture(scope="module")
def drain() -> Outcomes:
    return drain_outcomes(lag_series(SEED))


def test_of_each_kind_75_to_85_percent_of_drain_forecasts_hold(drain):
    held = drain_percents(drain.among(drain.days >= 14))

    assert set(held) == set(LAG_KINDS)
    assert all(75 <= percent <= 85 for percent in held.values()), held


def test_drain_forecasts_are_narrow_enough_to_say_something(drain):
    later = drain.among(drain.days >= 14)

    assert later.is_known.all()
    assert later.width() <= 12
    assert later.bounded_percent() >= 55


def test_of_each_class_of_drain_forecasts_alerts_would_use_them(drain):
    later = drain.among(drain.days >= 14)

    held = {number: later.among(later.classes == number).held_percent() for number in np.unique(later.classes)}

    assert len(held) == 8
    assert all(70 <= percent <= 90 for percent in held.values()), held


def test_drain_forecasts_hold_as_soon_as_they_are_known(drain):
    early = drain.among(drain.days < 7)

    assert not early.among(early.days == 3).is_known.any()
    assert 75 <= early.held_percent() <= 85


def test_of_each_kind_73_to_85_percent_of_disk_forecasts_hold():
    outcomes = disk_outcomes(*disk_series(SEED))
    later = outcomes.among(outcomes.days >= 21)

    held = {kind: later.among(later.kinds == kind).held_percent() for kind in DISK_KINDS}

    assert later.is_known.all()
    assert np.isfinite(later.low).mean() > 0.99
    assert all(73 <= percent <= 85 for percent in held.values()), held


def test_of_each_kind_at_most_07_percent_of_hours_are_flagged_falsely():
    flagged = flagged_percents(*traffic_series(SEED))

    assert len(flagged) == 6
    assert all(percent <= 0.7 for percent in flagged.values()), flagged


def test_traffic_that_stops_is_found():
    found = changes_found_percents(*traffic_series(SEED), factor=0.0, seed=SEED)

    # Of 0.4 messages an hour nothing can be found: three hours without are usual.
    assert found.pop("sparse") == 0
    assert len(found) == 5
    assert all(percent >= 95 for percent in found.values()), found
