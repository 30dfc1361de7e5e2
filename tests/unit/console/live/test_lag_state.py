"""What a consumer group's numbers come to."""

from typing import Any

import pytest

from console.snapshot.lag_state import KEEPING_UP_SECONDS, LagState, is_draining, lag_state

LATE = KEEPING_UP_SECONDS + 0.1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"lag": 0}, LagState.CAUGHT_UP),
        ({"lag": 0, "time_lag_seconds": 0.0, "ack_rate": None, "is_draining": None}, LagState.CAUGHT_UP),
        ({"lag": 0, "consumers_online": 0}, LagState.IDLE),
        ({"lag": 9, "time_lag_seconds": 0.1, "consumers_online": 0}, LagState.STOPPED),
        # A busy group always has something in flight.
        ({"lag": 900, "time_lag_seconds": KEEPING_UP_SECONDS, "is_draining": False}, LagState.CAUGHT_UP),
        ({"lag": 9, "time_lag_seconds": LATE}, LagState.DRAINING),
        ({"lag": 9, "time_lag_seconds": LATE, "is_draining": False}, LagState.GROWING),
        ({"lag": 9, "time_lag_seconds": LATE, "is_draining": False, "ack_rate": 0.0}, LagState.STOPPED),
        ({"lag": 9, "time_lag_seconds": LATE, "is_draining": None, "ack_rate": None}, LagState.UNKNOWN),
        ({"lag": 9, "time_lag_seconds": LATE, "consumers_online": 0}, LagState.STOPPED),
        ({"lag": 9, "time_lag_seconds": LATE, "consumers_online": 0, "is_draining": None}, LagState.STOPPED),
        ({"lag": 9, "time_lag_seconds": None}, LagState.UNKNOWN),
        ({"lag": None, "time_lag_seconds": None}, LagState.UNKNOWN),
        ({"lag": 0, "is_paused": True}, LagState.PAUSED),
        ({"lag": None, "is_paused": True}, LagState.PAUSED),
    ],
)
def test_each_state(values: dict[str, Any], expected: LagState) -> None:
    entry = {
        "is_paused": False, "lag": 1, "time_lag_seconds": 1.0, "ack_rate": 1.0, "is_draining": True, "consumers_online": 1,
    }  # fmt: skip
    assert lag_state(entry | values) == expected


@pytest.mark.parametrize(
    ("steady", "before", "expected"),
    [
        (5.0, None, LagState.STOPPED),
        # One message in twenty seconds: ten seconds without one are nothing unusual.
        (0.05, None, LagState.GROWING),
        (0.05, LagState.GROWING, LagState.GROWING),
        (0.001, None, LagState.STOPPED),
        # A fast group that stopped: its smoothed rate decreases through the range of slow groups.
        (0.05, LagState.STOPPED, LagState.STOPPED),
    ],
)
def test_a_group_is_stopped_when_its_silence_is_unusual(steady: float, before: str | None, expected: LagState) -> None:
    entry = {
        "is_paused": False, "lag": 9, "time_lag_seconds": LATE, "ack_rate": 0.0, "is_draining": False, "consumers_online": 1,
    }  # fmt: skip
    assert lag_state(entry, steady, before) == expected
    assert lag_state(entry | {"ack_rate": 0.1}, steady, before) == LagState.GROWING


def test_whether_a_lag_decreases_does_not_flap() -> None:
    assert is_draining(10.1, 10.0, None)
    assert not is_draining(9.9, 10.0, None)
    assert is_draining(9.9, 10.0, True)
    assert not is_draining(10.1, 10.0, False)
    assert not is_draining(9.0, 10.0, True)
    assert is_draining(11.0, 10.0, False)
