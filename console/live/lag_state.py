"""What a consumer group's numbers come to, in one word. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

KEEPING_UP_SECONDS = 10.0
"""A time lag up to here is what busy groups have; as long as the window that rates are measured in."""


class LagState(StrEnum):
    """How a consumer group does."""

    CAUGHT_UP = "caught_up"
    DRAINING = "draining"
    GROWING = "growing"
    """At these rates it never drains."""
    STOPPED = "stopped"
    """Messages wait, and none was acked in the window of the rates."""
    PAUSED = "paused"
    UNKNOWN = "unknown"


def lag_state(entry: Mapping[str, Any]) -> LagState:
    """The state that an entry's numbers come to; needs is_paused, lag, time_lag_seconds, ack_rate, is_draining."""
    if entry["is_paused"]:
        return LagState.PAUSED
    lag, waits = entry["lag"], entry["time_lag_seconds"]
    if lag is None or (lag > 0 and waits is None):
        return LagState.UNKNOWN
    if lag == 0 or waits <= KEEPING_UP_SECONDS:
        return LagState.CAUGHT_UP
    if entry["is_draining"] is None:
        return LagState.UNKNOWN
    if entry["ack_rate"] == 0:
        return LagState.STOPPED
    return LagState.DRAINING if entry["is_draining"] else LagState.GROWING
