"""The state of a consumer group, from its numbers and its previous state. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

KEEPING_UP_SECONDS = 10.0
"""A time lag up to here is normal for busy groups; as long as the window of the short rates."""
RATE_WINDOW_SECONDS = 10.0
SILENT_ACKS = 5.0
"""A group is stopped when no message was acknowledged within RATE_WINDOW_SECONDS although at least this number was expected."""
STOPPED_PER_SECOND = 0.5 / 60
"""A slow group is stopped when it acknowledges fewer than this on average."""
BAND = 0.05
"""Ack and send rates that differ by less than this share are equal: whether a lag decreases stays as it was."""


class LagState(StrEnum):
    """What a consumer group does."""

    CAUGHT_UP = "caught_up"
    IDLE = "idle"
    """Nothing is pending, and no consumer is online."""
    DRAINING = "draining"
    GROWING = "growing"
    """At the current rates the lag never becomes zero."""
    STOPPED = "stopped"
    """Messages are pending, and none is acknowledged, or no consumer is online."""
    PAUSED = "paused"
    UNKNOWN = "unknown"


WITHOUT_BACKLOG = frozenset({LagState.CAUGHT_UP, LagState.IDLE})
"""States in which a group has no messages, or so few that rates say nothing of them: the time to drain is 0."""


class NotDraining(StrEnum):
    """Why the lag of a consumer group does not decrease."""

    PAUSED = "paused"
    NO_CONSUMERS = "no_consumers"
    """No consumer is online."""
    STOPPED = "stopped"
    """Consumers are online, and acknowledge nothing."""
    TOO_SLOW = "too_slow"
    """Messages arrive at least as fast as they are acknowledged."""


def is_draining(acked: float, sent: float, before: bool | None) -> bool:
    """Return whether a lag decreases at smoothed rates per second; `before` is what it was, or None."""
    if before is not None and abs(acked - sent) <= BAND * max(acked, sent):
        return before
    return acked > sent


def lag_state(entry: Mapping[str, Any], steady_ack_rate: float | None = None, before: str | None = None) -> LagState:
    """Return the state of an entry.

    Args:
        entry: needs is_paused, lag, time_lag_seconds, ack_rate, is_draining and consumers_online.
        steady_ack_rate: acknowledged messages per second, smoothed over minutes; None: nodes do not report it.
        before: the previous state.
    """
    if entry["is_paused"]:
        return LagState.PAUSED
    lag, waits = entry["lag"], entry["time_lag_seconds"]
    if lag is None or (lag > 0 and waits is None):
        return LagState.UNKNOWN
    if entry["consumers_online"] == 0:
        return LagState.STOPPED if lag else LagState.IDLE
    if lag == 0 or waits <= KEEPING_UP_SECONDS:
        return LagState.CAUGHT_UP
    if entry["is_draining"] is None:
        return LagState.UNKNOWN
    if entry["ack_rate"] == 0 and (before == LagState.STOPPED or _is_silence_unusual(steady_ack_rate)):
        return LagState.STOPPED
    return LagState.DRAINING if entry["is_draining"] else LagState.GROWING


def not_draining(entry: Mapping[str, Any]) -> NotDraining | None:
    """Return why the lag of an entry does not decrease; None: it does, the group keeps up, or unknown. Needs `state` too."""
    if not entry["lag"] or entry["state"] in WITHOUT_BACKLOG:
        return None
    if entry["is_paused"]:
        return NotDraining.PAUSED
    if entry["consumers_online"] == 0:
        return NotDraining.NO_CONSUMERS
    if entry["state"] == LagState.STOPPED:
        return NotDraining.STOPPED
    return NotDraining.TOO_SLOW if entry["is_draining"] is False else None


def _is_silence_unusual(steady_ack_rate: float | None) -> bool:
    if steady_ack_rate is None:
        return True
    return steady_ack_rate < STOPPED_PER_SECOND or steady_ack_rate * RATE_WINDOW_SECONDS >= SILENT_ACKS
