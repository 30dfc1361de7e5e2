"""What became of messages that were handed out, from a consumer group's history; whole arrays at once. Pure numpy.

A consumer's pull sequences go up; an ack, or a settling on its behalf, is of all it has below an end. So a consumer's history
is cut into **sessions** (it leaves, its group is forgotten, or its numbers begin again lower: then what it held is dropped) in
which pulls and ends only go up, all sessions are laid one behind the other on one line, and what ended a pull sequence is found
by one binary search.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

LINE_MAX = 1 << 62
"""Pull sequences of all sessions together that fit on the line."""


class Kind(IntEnum):
    """What an entry of a history says, and how a run ended."""

    PULL = 0
    ACK = 1
    SETTLE = 2
    OFFLINE = 3
    START = 4
    DROPPED = 5
    """No entry: how a run ended whose consumer's numbers began again lower."""
    FORGET = 6
    """The group was forgotten, and this consumer with it."""


KINDS = {
    "pull": Kind.PULL,
    "ack": Kind.ACK,
    "settle": Kind.SETTLE,
    "offline": Kind.OFFLINE,
    "start": Kind.START,
    "forget": Kind.FORGET,
}
ENDED_BY: dict[int, str] = {
    Kind.ACK: "ack",
    Kind.SETTLE: "settle",
    Kind.OFFLINE: "offline",
    Kind.DROPPED: "dropped",
    Kind.FORGET: "forget",
}
_LEAVING = (Kind.OFFLINE, Kind.FORGET)


@dataclass(frozen=True, slots=True)
class Entries:
    """Histories of any number of consumers, sorted by consumer and, within one, by their order in the history.

    Args:
        consumer: a number for each (broker group, subject, group, consumer), ascending.
        begin: with `end`, the pull sequences that an entry is about.
        sequence: of a pull, the consume sequence that `begin` stands for.
    """

    consumer: Longs
    kind: Longs
    at_ms: Longs
    begin: Longs
    end: Longs
    sequence: Longs

    def __len__(self) -> int:
        return len(self.consumer)


@dataclass(frozen=True, slots=True)
class Runs:
    """Neighbouring messages that one consumer was handed together and that ended together.

    `pull` is the number of the entry that handed them out; they are pull sequences from `pull_begin` and consume sequences from
    `begin` on. `ended_by` is a Kind, or -1 for messages still held; then `ended_ms` means nothing.
    """

    pull: Longs
    pull_begin: Longs
    begin: Longs
    messages: Longs
    ended_by: Longs
    ended_ms: Longs


def follow(entries: Entries) -> Runs:
    """What became of all that the pulls among the entries handed out. Every handed-out message is in exactly one run.

    An end counts for what was pulled before it only, and for its own session only.

    Raises:
        ValueError: the pull sequences span more than LINE_MAX.
    """
    n = len(entries)
    none = np.zeros(0, dtype=np.int64)
    is_pull = (entries.kind == Kind.PULL) & (entries.end > entries.begin)
    pulls = np.flatnonzero(is_pull)
    if not len(pulls):
        return Runs(none, none, none, none, none, none)
    is_first, begins_session = _sessions(entries, is_pull)
    session = np.cumsum(begins_session) - 1
    firsts = np.flatnonzero(begins_session)
    count = len(firsts)

    # The line: each session takes what its pull sequences span, and one place behind it.
    of_pull = session[pulls]
    lowest, highest = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    np.minimum.at(lowest, of_pull, entries.begin[pulls])
    np.maximum.at(highest, of_pull, entries.end[pulls])
    has_pulls = highest > lowest
    lowest, span = np.where(has_pulls, lowest, 0), np.where(has_pulls, highest - lowest, 0)
    if float(span.astype(np.float64).sum()) + count > LINE_MAX:
        raise ValueError("pull sequences of these consumers span more than 2^62")
    base = np.cumsum(span + 1) - span - 1
    run_begin = base[of_pull] + entries.begin[pulls] - lowest[of_pull]
    run_end = run_begin + entries.end[pulls] - entries.begin[pulls]

    # How far the line was handed out when each entry came: the end of the pulls before it.
    reached = np.repeat(base, np.diff(np.append(firsts, n)))
    reached[pulls] = run_end
    reached = np.maximum.accumulate(reached)

    # Ends: acks, settlings and departures reach to a place; a session that began anew drops all of the one before.
    is_end = np.isin(entries.kind, (Kind.ACK, Kind.SETTLE))
    is_leaving = np.isin(entries.kind, _LEAVING)
    told = base[session] + np.clip(entries.end - lowest[session], 0, span[session])
    place = np.where(is_leaving, reached, np.minimum(told, reached))
    ends = np.flatnonzero(is_end | is_leaving)
    anew = firsts[~is_first[firsts]]
    anew = anew[~np.isin(entries.kind[anew - 1], _LEAVING)]
    # A drop stands at the end of the session it empties: it is sorted between that session's entries and the next one's.
    order = np.concatenate([ends * 2 + 1, anew * 2])
    sorting = np.argsort(order, kind="stable")
    end_place = np.concatenate([place[ends], reached[anew - 1]])[sorting]
    end_session = np.concatenate([session[ends], session[anew] - 1])[sorting]
    end_ms = np.concatenate([entries.at_ms[ends], entries.at_ms[anew]])[sorting]
    end_kind = np.concatenate([entries.kind[ends], np.full(len(anew), Kind.DROPPED)])[sorting]
    end_place = np.maximum.accumulate(end_place) if len(end_place) else end_place

    # Runs are cut where an end falls inside of them; each piece ended at the first end that lies above it.
    points = np.unique(np.concatenate([run_begin, end_place]))
    of_run = np.searchsorted(run_begin, points, side="right") - 1
    is_inside = (of_run >= 0) & (points < run_end[of_run])
    points, of_run, following = points[is_inside], of_run[is_inside], np.append(points[1:], LINE_MAX)[is_inside]
    length = np.minimum(following, run_end[of_run]) - points
    ended = np.searchsorted(end_place, points, side="right")
    safe = np.minimum(ended, max(0, len(end_place) - 1))
    pull = pulls[of_run]
    if len(end_place):
        is_over = (ended < len(end_place)) & (end_session[safe] == session[pull])
        ended_by = np.where(is_over, end_kind[safe], -1)
        ended_ms = np.where(is_over, end_ms[safe], -1)
    else:
        ended_by = ended_ms = np.full(len(points), -1)
    inside = points - run_begin[of_run]
    return Runs(pull, entries.begin[pull] + inside, entries.sequence[pull] + inside, length, ended_by, ended_ms)


def _sessions(entries: Entries, is_pull: Flags) -> tuple[Flags, Flags]:
    """Which entries are a consumer's first, and which begin a session."""
    n = len(entries)
    is_first = np.ones(n, dtype=np.bool_)
    is_first[1:] = entries.consumer[1:] != entries.consumer[:-1]
    begins = is_first.copy()
    begins[1:] |= np.isin(entries.kind[:-1], _LEAVING)
    # A pull below the end of the pull before it, by the same consumer since it last left.
    pulls = np.flatnonzero(is_pull)
    block = np.cumsum(begins)[pulls]
    is_lower = (entries.begin[pulls[1:]] < entries.end[pulls[:-1]]) & (block[1:] == block[:-1])
    begins[pulls[1:][is_lower]] = True
    return is_first, begins
