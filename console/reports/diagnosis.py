"""Why a consumer group lags, as findings with numbers: codes and values that the console turns into sentences. Pure.

A rule whose numbers are not known finds nothing. How fast consumers work is measured by what each of them acknowledges while
messages wait for it, not by the time from a pull to its acknowledgement: consumers pull ahead, so that time becomes longer in every
group that falls behind, also if its handlers are as fast as before.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil
from statistics import fmean
from typing import Any

from console.snapshot.history import STEP_SECONDS, History
from console.snapshot.lag_state import LagState

STUCK_SECONDS = 60.0
"""A consumer that holds messages and has acknowledged none for this long is named."""
STUCK_MAX = 3
"""Consumers that are named, those with the most messages first."""
FAILING_SHARE = 0.5
"""Share of attempts that fail at which a group is in a retry loop."""
FAILING_PER_SECOND_MIN = 0.1
"""A retry loop has at least this many failures per second."""
SLOWER_FACTOR = 2.0
"""Handlers are slower if a consumer acknowledged at least this many times as much earlier."""
PACE_STEPS = 6
"""Points of the history, a minute, over which the acknowledgements of a consumer are averaged."""
PACE_MESSAGES_MIN = 30
"""Acknowledged messages without which an earlier minute is not compared."""


class Severity(StrEnum):
    """How much a finding matters."""

    CRITICAL = "critical"
    """Messages are not processed."""
    WARNING = "warning"
    """The lag grows, or messages fail."""
    INFO = "info"
    OK = "ok"


class Code(StrEnum):
    """What was found."""

    BROKER_GROUP_AWAY = "broker_group_away"
    PAUSED = "paused"
    CONSUMERS_PAUSED = "consumers_paused"
    NO_CONSUMERS = "no_consumers"
    CONSUMER_STUCK = "consumer_stuck"
    STOPPED = "stopped"
    RETRY_LOOP = "retry_loop"
    SLOWER = "slower"
    TOO_FEW_CONSUMERS = "too_few_consumers"
    GROWING = "growing"
    """The lag grows; how fast messages arrive or are acknowledged is not known."""
    DEAD_LETTERS = "dead_letters"
    PACE_UNKNOWN = "pace_unknown"
    DRAINING = "draining"
    KEEPING_UP = "keeping_up"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding with its numbers."""

    code: Code
    severity: Severity
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Held:
    """What a consumer holds on one broker group."""

    consumer_id: str
    is_online: bool
    in_flight: int
    unacked_seconds: float
    """For how long it has held messages without an acknowledgement; 0: it holds none."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Messages per second that one consumer acknowledges while messages wait, and how many earlier in the last hour.

    None: too little was measured, or nothing waits. `reason`: why nothing was measured at all.
    """

    now: float | None = None
    before: float | None = None
    before_seconds_ago: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The numbers of a group. None: unknown."""

    state: str
    """A LagState."""
    unknown_reason: str | None = None
    """Why the state is unknown."""
    away: Mapping[str, str] = field(default_factory=dict)
    """Broker groups that do not answer, and why."""
    is_paused: bool = False
    paused_consumers: Sequence[str] = ()
    lag: int | None = None
    time_lag_seconds: float | None = None
    drain_seconds: float | None = None
    arriving: float | None = None
    """Messages sent to the subject per second, averaged over minutes."""
    acked: float | None = None
    """Messages that the group acknowledged per second, averaged over minutes."""
    consumers_online: int | None = None
    held: Sequence[Held] = ()
    attempts: float | None = None
    """Messages per second whose processing ended, first attempts and later ones."""
    failing: float | None = None
    """Messages per second that were returned for another attempt."""
    retry_lag: int | None = None
    """Messages that wait for another attempt."""
    dead_letters: int = 0
    """How many more there are than at the beginning of the history."""
    dead_letters_seconds: int = 0
    """How long ago that was."""
    pace: Pace = field(default_factory=Pace)


def diagnose(seen: Observed) -> list[Finding]:
    """What is wrong with a group, worst first; never empty: without a problem, that it keeps up, or what is not known."""
    stuck = _stuck(seen.held)
    found = [*_delivery(seen, stuck), *_processing(seen, len(stuck))]
    if seen.state == LagState.UNKNOWN and not seen.away:
        found.append(Finding(Code.UNKNOWN, Severity.INFO, {"reason": seen.unknown_reason}))
    elif seen.state == LagState.DRAINING:
        values = {"lag": seen.lag, "seconds": seen.drain_seconds}
        found.append(Finding(Code.DRAINING, Severity.INFO, values))
    elif not found:
        found.append(Finding(Code.KEEPING_UP, Severity.OK, {"lag": seen.lag, "seconds": seen.time_lag_seconds}))
    return sorted(found, key=lambda finding: _ORDER[finding.severity])


_ORDER = {severity: place for place, severity in enumerate(Severity)}


def _delivery(seen: Observed, stuck: Sequence[Finding]) -> Iterator[Finding]:
    """Why messages do not reach consumers that process them."""
    for name, reason in sorted(seen.away.items()):
        yield Finding(Code.BROKER_GROUP_AWAY, Severity.CRITICAL, {"broker_group": name, "reason": reason})
    if seen.is_paused:
        yield Finding(Code.PAUSED, Severity.WARNING, {"lag": seen.lag})
        return
    if seen.paused_consumers:
        values = {"consumers": list(seen.paused_consumers), "count": len(seen.paused_consumers)}
        yield Finding(Code.CONSUMERS_PAUSED, Severity.WARNING, values)
    if seen.consumers_online == 0:
        severity = Severity.CRITICAL if seen.lag else Severity.WARNING
        yield Finding(Code.NO_CONSUMERS, severity, {"lag": seen.lag, "arriving": seen.arriving})
        return
    yield from stuck[:STUCK_MAX]
    if seen.state == LagState.STOPPED and not stuck:
        values = {"lag": seen.lag, "seconds": seen.time_lag_seconds, "count": seen.consumers_online}
        yield Finding(Code.STOPPED, Severity.CRITICAL, values)


def _stuck(held: Sequence[Held]) -> list[Finding]:
    """Online consumers that hold messages and have acknowledged none of them for a while, those with the most first."""
    parts: dict[str, list[Held]] = {}
    for one in held:
        if one.is_online and one.in_flight and one.unacked_seconds >= STUCK_SECONDS:
            parts.setdefault(one.consumer_id, []).append(one)
    counts = {name: sum(one.in_flight for one in of) for name, of in sorted(parts.items())}
    return [
        Finding(
            Code.CONSUMER_STUCK,
            Severity.CRITICAL,
            {"consumer": name, "count": counts[name], "seconds": min(one.unacked_seconds for one in parts[name])},
        )
        for name in sorted(counts, key=lambda name: -counts[name])
    ]


def _processing(seen: Observed, stuck: int) -> Iterator[Finding]:
    """Why consumers process fewer messages than arrive. `stuck` ones, which process none, do not count as slow or as too few."""
    failing, attempts = seen.failing, seen.attempts
    if failing is not None and attempts and failing >= max(FAILING_PER_SECOND_MIN, FAILING_SHARE * attempts):
        values = {"failing": failing, "attempts": attempts, "pending": seen.retry_lag}
        yield Finding(Code.RETRY_LOOP, Severity.WARNING, values)
    if seen.dead_letters > 0:
        values = {"count": seen.dead_letters, "seconds": seen.dead_letters_seconds}
        yield Finding(Code.DEAD_LETTERS, Severity.WARNING, values)
    if seen.state not in (LagState.GROWING, LagState.DRAINING):
        return
    pace = seen.pace
    if not stuck and pace.now is not None and pace.before is not None and pace.before >= SLOWER_FACTOR * pace.now:
        values = {"now": pace.now, "before": pace.before, "seconds_ago": pace.before_seconds_ago}
        yield Finding(Code.SLOWER, Severity.WARNING, values)
    elif pace.reason is not None:
        yield Finding(Code.PACE_UNKNOWN, Severity.INFO, {"reason": pace.reason})
    if seen.state == LagState.GROWING:
        yield _growing(seen, stuck)


def _growing(seen: Observed, stuck: int) -> Finding:
    arriving, acked = seen.arriving, seen.acked
    count = max(0, (seen.consumers_online or 0) - stuck)
    if not arriving or not acked or not count or arriving <= acked:
        return Finding(Code.GROWING, Severity.WARNING, {"lag": seen.lag, "seconds": seen.time_lag_seconds})
    values = {"arriving": arriving, "acked": acked, "count": count, "seconds": seen.time_lag_seconds}
    needed = max(count + 1, ceil(count * arriving / acked))
    return Finding(Code.TOO_FEW_CONSUMERS, Severity.WARNING, values | {"needed": needed})


# --- from the history -------------------------------------------------------------------------------------------------


def pace_of(history: History) -> Pace:
    """How fast the consumers of a group work, from its history: a minute at the end, and the fastest minute before that."""
    if history.reason is not None:
        return Pace(reason=history.reason)
    fields = (history.fields[name] for name in ("ack_rate", "consumers_online", "lag"))
    points = list(zip(*fields, strict=True))
    minutes = [points[end - PACE_STEPS : end] for end in range(len(points), PACE_STEPS - 1, -PACE_STEPS)]
    if not minutes:
        return Pace()
    now = _pace_in(minutes[0])
    if not now or not all(lag for _, _, lag in minutes[0]):
        return Pace()
    before, ago = None, 0
    for number, minute in enumerate(minutes[1:], start=1):
        found = _pace_in(minute)
        if found is None or sum(float(acked) for acked, _, _ in minute) * STEP_SECONDS < PACE_MESSAGES_MIN:
            continue
        if before is None or found > before:
            before, ago = found, number * PACE_STEPS * STEP_SECONDS
    return Pace(round(now, 2), None if before is None else round(before, 2), ago)


def _pace_in(minute: Sequence[tuple[Any, Any, Any]]) -> float | None:
    """Messages per second and consumer; None if something was not measured, or a consumer came or left."""
    counts = {count for _, count, _ in minute}
    if len(counts) != 1 or not (count := counts.pop()) or any(acked is None for acked, _, _ in minute):
        return None
    return fmean(acked for acked, _, _ in minute) / float(count)


def growth(history: History, name: str, step_seconds: int) -> tuple[int, int]:
    """By how much a number has increased since its first known value, and how many seconds ago that was; (0, 0) if unknown."""
    values = history.fields[name]
    known = [(place, value) for place, value in enumerate(values) if value is not None]
    if not known:
        return 0, 0
    return max(0, round(known[-1][1] - known[0][1])), (len(values) - known[0][0]) * step_seconds
