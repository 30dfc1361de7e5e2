"""What a consumer group's numbers come to."""

from typing import Any

import pytest

from console.live.lag_state import KEEPING_UP_SECONDS, LagState, lag_state

LATE = KEEPING_UP_SECONDS + 0.1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"lag": 0}, LagState.CAUGHT_UP),
        ({"lag": 0, "time_lag_seconds": 0.0, "ack_rate": None, "is_draining": None}, LagState.CAUGHT_UP),
        # A busy group always has something in flight.
        ({"lag": 900, "time_lag_seconds": KEEPING_UP_SECONDS, "is_draining": False}, LagState.CAUGHT_UP),
        ({"lag": 9, "time_lag_seconds": LATE}, LagState.DRAINING),
        ({"lag": 9, "time_lag_seconds": LATE, "is_draining": False}, LagState.GROWING),
        ({"lag": 9, "time_lag_seconds": LATE, "is_draining": False, "ack_rate": 0.0}, LagState.STOPPED),
        ({"lag": 9, "time_lag_seconds": LATE, "is_draining": None, "ack_rate": None}, LagState.UNKNOWN),
        ({"lag": 9, "time_lag_seconds": None}, LagState.UNKNOWN),
        ({"lag": None, "time_lag_seconds": None}, LagState.UNKNOWN),
        ({"lag": 0, "is_paused": True}, LagState.PAUSED),
        ({"lag": None, "is_paused": True}, LagState.PAUSED),
    ],
)
def test_each_state(values: dict[str, Any], expected: LagState) -> None:
    entry = {"is_paused": False, "lag": 1, "time_lag_seconds": 1.0, "ack_rate": 1.0, "is_draining": True}
    assert lag_state(entry | values) == expected
