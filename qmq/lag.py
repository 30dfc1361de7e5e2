"""The definition of lag that nodes, console and analytics share. Pure.

**backlog**: stored and not yet pulled. **in flight**: pulled, not acked. **lag**: their sum, in messages. **time lag**:
now minus the store time of the oldest message not acked, in seconds. **drain time**: lag / (ack rate - send rate) over
the window the rates were measured in, in seconds; None ("never") when the divisor is not positive.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Lag:
    """Lag of one group on one subject, in messages."""

    backlog: int
    in_flight: int

    @property
    def total(self) -> int:
        return self.backlog + self.in_flight


def lag_of(end_sequence: int, next_sequence: int, begin_sequence: int, in_flight: int) -> Lag:
    """From the subject's stored range [begin, end) and the group's position; messages past retention don't count."""
    return Lag(max(0, end_sequence - max(next_sequence, begin_sequence)), in_flight)


def time_lag_seconds(now_ms: int, oldest_stored_at_ms: int | None) -> float:
    """Seconds since the oldest message not acked was stored; 0 when there is none."""
    if oldest_stored_at_ms is None:
        return 0.0
    return max(0, now_ms - oldest_stored_at_ms) / 1000


STORE_TIMES = {"time_lag_seconds": "oldest_stored_at_ms"}
"""Ages of a consumer group in `/stats`, and the store times from which readers compute them: a subject without changes is not sent
again."""


def ages(numbers: Mapping[str, Any], now_ms: int) -> dict[str, float]:
    """Return the ages, in seconds, of those numbers of a group that have a store time."""
    return {
        age: time_lag_seconds(now_ms, numbers[name])
        for age, name in STORE_TIMES.items()
        if numbers.get(name) is not None
    }


def drain_seconds(lag: int, acked_per_second: float, sent_per_second: float) -> float | None:
    """Seconds until the lag is processed at these rates; 0 when there is none, None when it does not decrease."""
    if lag <= 0:
        return 0.0
    gain = acked_per_second - sent_per_second
    return lag / gain if gain > 0 else None
