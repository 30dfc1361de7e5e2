"""What became of messages that were handed out, from a consumer group's history; whole arrays at once. Pure numpy.

A consumer's pull sequences increase; an ack or settlement covers a range of them. Two processes that share a consumer id each ack
what they hold, so these ranges may overlap, leave gaps and come in any order: the first one that covers a pull sequence ended it.
A consumer's history is split into **sessions** (it leaves, its group is forgotten, or its numbers begin again lower: then what it
held is dropped) in which pulls only go up. All sessions are laid one behind the other on one line, so that ranges of different
sessions never overlap.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from spark_analytics.transforms.seconds import lowest_held

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

LINE_MAX = 1 << 62
"""Pull sequences of all sessions together that fit on the line."""


class Kind(IntEnum):
    """What an entry of a history says, and how a run ended; in the frames by its name in lower case."""

    PULL = 0
    ACK = 1
    SETTLE = 2
    OFFLINE = 3
    START = 4
    DROPPED = 5
    """No entry: how a run ended whose consumer's numbers began again lower."""
    FORGET = 6
    """The group was forgotten, and this consumer with it."""


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

    An end counts for what was pulled before it only, and for its own session only. The first end that covers a message counts.

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

    # Ends: acks and settlements cover a range, departures all of their session; a restarted session drops the one before.
    is_end = np.isin(entries.kind, (Kind.ACK, Kind.SETTLE))
    is_leaving = np.isin(entries.kind, _LEAVING)
    ends = np.flatnonzero(is_end | is_leaving)
    restarted = firsts[~is_first[firsts]]
    restarted = restarted[~np.isin(entries.kind[restarted - 1], _LEAVING)]
    # A drop stands at the end of the session it empties: it is sorted between that session's entries and the next one's.
    sorting = np.argsort(np.concatenate([ends * 2 + 1, restarted * 2]), kind="stable")

    def on_line(sequences: Longs) -> Longs:
        of_session = session[ends]
        return np.asarray(base[of_session] + np.clip(sequences[ends] - lowest[of_session], 0, span[of_session]))

    end_from = np.where(is_leaving[ends], base[session[ends]], on_line(entries.begin))
    end_to = np.where(is_leaving[ends], reached[ends], np.minimum(on_line(entries.end), reached[ends]))
    end_from = np.concatenate([end_from, base[session[restarted] - 1]])[sorting]
    end_to = np.concatenate([end_to, reached[restarted - 1]])[sorting]
    end_ms = np.concatenate([entries.at_ms[ends], entries.at_ms[restarted]])[sorting]
    end_kind = np.concatenate([entries.kind[ends], np.full(len(restarted), Kind.DROPPED)])[sorting]

    # Runs are split where an end begins or stops inside of them.
    points = np.unique(np.concatenate([run_begin, end_from, end_to]))
    numbers = np.arange(len(end_kind))
    first_end = lowest_held(np.searchsorted(points, end_from), np.searchsorted(points, end_to), numbers, len(points))
    first_end = np.minimum(first_end, len(end_kind))  # behind all, where none covers a place
    following = np.append(points[1:], LINE_MAX)
    of_run = np.searchsorted(run_begin, points, side="right") - 1
    is_inside = (of_run >= 0) & (points < run_end[of_run])
    points, following, first_end, of_run = (
        points[is_inside],
        following[is_inside],
        first_end[is_inside],
        of_run[is_inside],
    )
    length = np.minimum(following, run_end[of_run]) - points
    pull = pulls[of_run]
    ended_by = np.append(end_kind, -1)[first_end]
    ended_ms = np.append(end_ms, -1)[first_end]
    inside = points - run_begin[of_run]
    # What one end covers of a pull is one run, although other ends may begin or stop there.
    is_new = np.ones(len(pull), dtype=np.bool_)
    is_new[1:] = (pull[1:] != pull[:-1]) | (first_end[1:] != first_end[:-1])
    at = np.flatnonzero(is_new)
    pull, inside = pull[at], inside[at]
    messages = np.add.reduceat(length, at)
    return Runs(
        pull, entries.begin[pull] + inside, entries.sequence[pull] + inside, messages, ended_by[at], ended_ms[at]
    )


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
