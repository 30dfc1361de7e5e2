"""When an alert begins and ends. Pure: (state, value, now) -> (state, event).

A value above `threshold` for `for_seconds` fires. It ends once the value was at or below `clear_threshold` for
`clear_for_seconds`; in between nothing changes, so that a value that flaps around the threshold fires once. None stands for
"could not be measured": it neither fires nor ends anything, and the time it lasts counts for neither.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import translate

CLEAR_SHARE = 0.8
"""The clear threshold as a share of the threshold, when none is given."""
GLOB_CHARS_MAX = 300
_GLOB_SIGNS = frozenset("*?[")


class Kind(StrEnum):
    """The value that a rule evaluates, and the unit of its threshold."""

    LAG = "lag"
    """Messages; of a consumer group, `subject/group`."""
    TIME_LAG = "time_lag"
    """Seconds; of a consumer group."""
    DRAIN_TIME = "drain_time"
    """Seconds until the lag is zero, as forecast; a day if that is not within a day. Of a consumer group."""
    ANOMALY = "anomaly"
    """1 while a number is unlike the same hour of earlier weeks, else 0; of a consumer group, `subject/group`, or of a subject."""
    DEAD_LETTERS = "dead_letters"
    """Messages that became dead letters within the rule's window; of a consumer group."""
    DUPLICATE_IDS = "duplicate_ids"
    """Consumer ids that two processes use at the same time; of a consumer group."""
    GROUP_STATE = "group_state"
    """0: read_write, 1: read_only or write_only, 2: offline; of a broker group."""
    COPIES = "copies"
    """How many in-sync members a broker group lacks to its configured copies."""
    BELOW_MINIMUM = "below_minimum"
    """How many in-sync members a broker group lacks to its minimum: above 0 sends are rejected."""
    NO_CANDIDATE = "no_candidate"
    """1 while no member of a broker group could replace its master, or did although another node is to replace it, else 0; of
    groups with several members."""
    ONE_RACK = "one_rack"
    """1 while all members of a broker group are on one rack, else 0; of groups with several members."""
    ROLE_CHANGES = "role_changes"
    """How often a broker group got another master within ROLE_CHANGES_SECONDS."""
    REPLICATION = "replication"
    """1 while a node has stopped taking part in replication because of an alarm, else 0; of a node with replication."""
    DISK = "disk"
    """Percent used; of a node."""
    DISK_IN_A_DAY = "disk_in_a_day"
    """Percent used a day from now, at most 100, if the disk grows as fast as the upper end of its forecast says; of a node."""
    DISK_STUCK = "disk_stuck"
    """Seconds for which the disk of a node has not completed a write that is under way."""
    DAMAGE = "damage"
    """Damaged ranges of the log and of hour files, and messages that the disk can't read; of a node, master or slave."""
    SCRUB = "scrub"
    """Seconds that the node's present pass over all of its stored data has taken; of a node, master or slave."""
    LATENESS = "lateness"
    """Seconds, the 99th percentile; of a delay node."""
    CLOCK = "clock"
    """Seconds by which the wall clock is ahead of the group's time or behind it, where that matters, else 0; of a delay node."""
    JOB_LATE = "job_late"
    """Intervals since the last success; of a background job."""
    OUTBOX_AGE = "outbox_age"
    """Seconds since the oldest unsent row was written; of a registered database."""
    OUTBOX_FAILED = "outbox_failed"
    """Rows that wait for an operator; of a registered database."""
    OUTBOX_UNREACHABLE = "outbox_unreachable"
    """1 while the relay can't use a registered database, else 0."""
    UNKNOWN = "unknown"
    """1 while something can't be measured, else 0; of a consumer group, node or background job. Fires after `for_seconds`."""


ROLE_CHANGES_SECONDS = 3_600
OF_GROUPS = frozenset(
    {Kind.LAG, Kind.TIME_LAG, Kind.DRAIN_TIME, Kind.ANOMALY, Kind.DEAD_LETTERS, Kind.DUPLICATE_IDS, Kind.UNKNOWN}
)
"""Kinds whose targets may be consumer groups."""
OF_ANALYTICS = frozenset({Kind.DRAIN_TIME, Kind.DISK_IN_A_DAY, Kind.ANOMALY})
"""Kinds whose values are those of the newest hour of a summary table."""


class Severity(StrEnum):
    """How bad."""

    WARNING = "warning"
    CRITICAL = "critical"


class Phase(StrEnum):
    """Where one rule is with one target."""

    IDLE = "idle"
    PENDING = "pending"
    FIRING = "firing"


class Event(StrEnum):
    """The content of a notification."""

    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Conditions:
    """A rule's numbers. `clear_threshold` is never above `threshold`."""

    threshold: float
    clear_threshold: float
    for_seconds: float = 0.0
    clear_for_seconds: float = 0.0

    def __post_init__(self) -> None:
        assert self.clear_threshold <= self.threshold, "the alert would resolve while its condition is met"
        assert self.for_seconds >= 0
        assert self.clear_for_seconds >= 0


@dataclass(frozen=True, slots=True)
class State:
    """What is remembered between two looks; times in seconds of the same clock as `now`."""

    phase: Phase = Phase.IDLE
    held_from: float | None = None
    """Pending: since when the value counts as above the threshold."""
    clear_from: float | None = None
    """Firing: since when it counts as at or below the clear threshold; None: it is not."""
    unknown_from: float | None = None
    """Since when it can't be measured; None: it can."""


IDLE = State()


def default_clear_threshold(threshold: float) -> float:
    """The clear threshold when none is given."""
    return threshold * CLEAR_SHARE


def step(conditions: Conditions, state: State, value: float | None, now: float) -> tuple[State, Event | None]:
    """Look once. A `now` before the last one counts as no time passed."""
    if value is None or math.isnan(value):
        if state.phase is Phase.IDLE or state.unknown_from is not None:
            return state, None
        return replace(state, unknown_from=now), None
    state = _after_unknown(state, now)
    if state.phase is Phase.FIRING:
        return _firing(conditions, state, value, now)
    if value <= conditions.threshold:
        return IDLE, None
    held_from = now if state.held_from is None else state.held_from
    if now - held_from >= conditions.for_seconds:
        return State(Phase.FIRING), Event.FIRING
    return State(Phase.PENDING, held_from=held_from), None


def _firing(conditions: Conditions, state: State, value: float, now: float) -> tuple[State, Event | None]:
    if value > conditions.clear_threshold:
        return State(Phase.FIRING), None
    clear_from = now if state.clear_from is None else state.clear_from
    if now - clear_from >= conditions.clear_for_seconds:
        return IDLE, Event.RESOLVED
    return State(Phase.FIRING, clear_from=clear_from), None


def _after_unknown(state: State, now: float) -> State:
    """Return the state without the time in which nothing could be measured."""
    if state.unknown_from is None:
        return state
    gap = max(0.0, now - state.unknown_from)
    return replace(
        state,
        held_from=None if state.held_from is None else state.held_from + gap,
        clear_from=None if state.clear_from is None else state.clear_from + gap,
        unknown_from=None,
    )


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a glob (`*`, `?`, `[...]`) means a target. One without '/' means all consumer groups of such subjects too."""
    exact = re.compile(translate(pattern)).match
    if "/" in pattern:
        return lambda target: exact(target) is not None
    # Subjects hold no '/', groups neither: what stands before it is the subject.
    return lambda target: exact(target) is not None or exact(target.partition("/")[0]) is not None


def literal_subject(kind: Kind, pattern: str) -> str | None:
    """The one subject a rule is about; None for a pattern, or a rule about something else."""
    subject = pattern.partition("/")[0]
    if kind not in OF_GROUPS or not subject or _GLOB_SIGNS & set(subject):
        return None
    return subject


def pause_seconds(attempts: int, first: float, most: float) -> float:
    """Return the delay after a number of failed attempts: doubled each time, up to `most`."""
    return min(most, first * 2.0 ** min(attempts - 1, 60))
