"""Where a stream stands: the next position of every range, as JSON. Pure.

    {"ranges": {BROKER_GROUP: {SUBJECT: [first, next]}},            tables index, messages, retries, dead_letters
     "complete_ms": {BROKER_GROUP: ms}}
    {"ranges": {BROKER_GROUP: {SUBJECT: {GROUP: [first, next, begin, began_at_ms, history, base, forgotten_at_ms]}}},
     "complete_ms": ..., "logs": {BROKER_GROUP: number}}    table progress

`first` is where the stream began to read a range: a batch that begins with a range which the batch before did not know reads from
there, also when it is run again and retention has gone on. `complete_ms`: everything stored, or done, on this broker group
before that time lies before this offset.

A group's history can be followed by another one, whose entries have numbers of their own: the group was forgotten, and perhaps made
again, or the node rebuilt its files from its log. It shows by lower numbers, or by another time `began_at_ms` of the entry
`begin`; one that began before `complete_ms` is the same group's. `history` counts how often that happened, and positions in
the stream are an entry's number and `base`, so that they continue. That a group was forgotten is a row of the stream, at the next
position; then `forgotten_at_ms` is when that was noticed.

All members of a broker group have one log, so another master changes nothing. A group that begins again with an empty log, after an
operator accepted that, has another one: its sequences begin again at 0. `logs` is how many there were before (0 is left out);
sequences of log n are shifted by n x SEQUENCES_PER_LOG in the stream's rows, so that they rise. The ranges of subjects end with
their log. Histories of groups end as if the group was forgotten.

A subject that its node removed may return with higher sequences: the stream continues at its `origin`, and reports no hole.

A subject that is deleted leaves the offset at once; a group that was forgotten does after FORGOTTEN_KEPT_MS, so that positions of
one that is made again soon are above the old ones.

Bounded by RANGES_MAX. Where an offset has many ranges, `spark_analytics.source.offset_files` keeps them in a file.
"""

import heapq
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from qmq.errors import QmqError

RANGES_MAX = 2_000_000
"""Most ranges of one stream: 100,000 subjects with 20 groups each. A range takes some 2 KB of the process that plans batches.
Above it, several streams have to share the subjects."""

FORGOTTEN_KEPT_MS = 2 * 86_400_000
"""How long the place of a forgotten group is kept: longer than the windows that jobs order positions in."""

Key = tuple[str, str, str]
"""Broker group, subject, consumer group ("" where there is none)."""


class StreamError(QmqError):
    """A stream can't continue from its offset; the message says what to do."""

    code = "analytics.stream"


class Held(NamedTuple):
    """What a node holds of a range: [begin, end); `start` is where a stream that begins now would.

    `began_at_ms` is the time of a history's entry `begin`; -1: there is none. Below `origin` a subject never had any.
    """

    begin: int
    end: int
    start: int
    began_at_ms: int = -1
    origin: int = 0


_ABOVE_ALL = 1 << 62
"""In place of the first entry of a history that can't come back: every other one begins lower."""


class Place(NamedTuple):
    """Where a stream stands in a range; see the module. `forgotten_at_ms` 0: the group is there."""

    first: int
    next: int
    begin: int = -1
    began_at_ms: int = -1
    history: int = 0
    base: int = 0
    forgotten_at_ms: int = 0

    def further(self, count: int) -> "Place":
        """The place behind the next `count` rows."""
        first, at, *others = self
        return Place(first, at + count, *others)

    def followed(self, begin: int) -> "Place":
        """The place at entry `begin` of the history that follows this one."""
        return Place(begin, begin, history=self.history + 1, base=self.base + self.next - begin)

    def forgotten(self, at_ms: int) -> "Place":
        """The place behind the row that says that the group was forgotten."""
        return self._replace(first=self.next, next=self.next + 1, history=self.history + 1, forgotten_at_ms=at_ms)

    def ended(self, at_ms: int) -> "Place":
        """The place behind that row for a group whose node was emptied: whatever follows is another history."""
        place = self if self.forgotten_at_ms else self.forgotten(at_ms)
        return place._replace(begin=_ABOVE_ALL, began_at_ms=0)


@dataclass(frozen=True, slots=True)
class Observed:
    """What all broker groups held when they were asked.

    `read_at_ms`: all that happened on a broker group before it is in there. `is_wanted`: whether a range would be there if
    the node had it; not so what options leave out.
    """

    ranges: Mapping[Key, Held]
    read_at_ms: Mapping[str, int]
    is_wanted: Callable[[Key], bool] = lambda key: True
    logs: Mapping[str, int] = field(default_factory=dict)
    """Broker group -> number of earlier logs; an absent one is unknown and assumed unchanged."""


class Lost(Protocol):
    """Records histories that end, and what may have been in them behind what was read."""

    def forgotten(self, key: Key, place: Place) -> None:
        """The group was forgotten."""

    def rebuilt(self, key: Key, place: Place, done_ms: int) -> int:
        """Record that the node rebuilt the history: the stream continues with the first entry that is not before `done_ms`."""

    def emptied(self, broker_group: str, log_number: int) -> None:
        """The broker group began again with an empty log."""


@dataclass(frozen=True, slots=True)
class Offset:
    """A stream's place: that in each range, and up to when each broker group has been read completely."""

    ranges: Mapping[Key, Place] = field(default_factory=dict)
    complete_ms: Mapping[str, int] = field(default_factory=dict)
    logs: Mapping[str, int] = field(default_factory=dict)

    def to_json(self, *, with_ranges: bool = True) -> dict[str, Any]:
        """As Spark keeps it."""
        tree: dict[str, Any] = {}
        for (broker_group, subject, group), place in sorted(self.ranges.items()):
            of_subjects = tree.setdefault(broker_group, {})
            if group:
                of_subjects.setdefault(subject, {})[group] = list(place)
            else:
                of_subjects[subject] = [place.first, place.next]
        found = {"ranges": tree} if with_ranges else {}
        found["complete_ms"] = dict(sorted(self.complete_ms.items()))
        numbers = {name: number for name, number in sorted(self.logs.items()) if number}
        return found | ({"logs": numbers} if numbers else {})

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> "Offset":
        """Raises StreamError when it is not an offset of this source."""
        try:
            ranges: dict[Key, Place] = {}
            for broker_group, of_subjects in found.get("ranges", {}).items():
                for subject, places in of_subjects.items():
                    if isinstance(places, dict):
                        for group, numbers in places.items():
                            ranges[broker_group, subject, group] = Place(*map(int, numbers))
                    else:
                        ranges[broker_group, subject, ""] = Place(*map(int, places))
            complete = {str(name): int(at) for name, at in found.get("complete_ms", {}).items()}
            logs = {str(name): int(number) for name, number in found.get("logs", {}).items()}
        except (AttributeError, TypeError, ValueError) as error:
            raise StreamError(f"the checkpoint's offset was not written by data source qmq: {error}") from error
        return cls(ranges, complete, logs)


def complete_ms(offset_json: str) -> dict[str, int]:
    """Up to when each broker group was read completely, from an offset of a checkpoint or of a query's progress."""
    return dict(Offset.of_json(json.loads(offset_json)).complete_ms)


def advance(
    start: Offset,
    seen: Observed,
    rows_max: int | None,
    *,
    may_only_complete: bool = False,
    lost: Lost | None = None,
) -> Offset:
    """The offset after `start` with at most `rows_max` rows more (None: all), shared evenly between the ranges.

    With nothing new the answer is `start` itself: no row, and no range to know of. With `may_only_complete` the times still
    advance, which an endless stream must not do by itself, because that would create empty batches. That a group is forgotten, its
    rebuilt history, or an emptied broker group, is an error, or `lost` records it.

    Raises:
        StreamError: a node holds less than was read of it already, or there are more than RANGES_MAX ranges.
    """
    known = {key[0] for key in start.ranges} | set(start.complete_ms)
    emptied = _emptied(start, seen, known, lost)
    left: dict[Key, int] = {}
    behind: set[str] = set()
    is_changed = bool(emptied)
    places: dict[Key, Place] = dict(start.ranges)
    for key in [key for key in places if key[0] in emptied] if emptied else ():
        old = places.pop(key)
        if key[2]:
            now = seen.ranges.get(key)
            places[key] = old.ended(
                now.began_at_ms if now is not None and now.began_at_ms >= 0 else seen.read_at_ms[key[0]]
            )
            behind.add(key[0])
    for key, held in seen.ranges.items():
        place = places.get(key)
        if place is None:
            # Whatever a broker group that is known already got since is new from its very beginning.
            first = held.origin if key[0] in known else held.start
            place, is_changed = Place(first, first), True
        elif key[0] in emptied:
            # The new history comes with the next call, behind the row that the old one has ended.
            continue
        elif not key[2] and place.next < held.origin:
            # The node removed the subject when it was empty, and it returned.
            place, is_changed = Place(held.origin, held.origin), True
        elif place.forgotten_at_ms:
            # A group created again soon after continues with the history that it had.
            is_same = held.end >= place.first and not _is_another(place, held)
            place, is_changed = place.followed(place.first if is_same else held.begin), True
        elif held.end < place.next or _is_another(place, held):
            if not key[2] or lost is None:
                raise _went_back(key, place, held)
            is_changed, done_ms = True, start.complete_ms.get(key[0], 0)
            if not 0 <= held.began_at_ms < done_ms:
                lost.forgotten(key, place)
                # As above.
                at_ms = held.began_at_ms if held.began_at_ms >= 0 else seen.read_at_ms[key[0]]
                places[key] = place.forgotten(at_ms)
                behind.add(key[0])
                continue
            place = place.followed(lost.rebuilt(key, place, done_ms))
        if key[2]:
            is_known = not _is_unreadable(held) or held.begin != place.begin
            began_at_ms = held.began_at_ms if is_known else place.began_at_ms
            if held.begin != place.begin or began_at_ms != place.began_at_ms:
                place = place._replace(begin=held.begin, began_at_ms=began_at_ms)
        places[key] = place
        if held.end > place.next:
            left[key] = held.end - place.next
    for key in [key for key in start.ranges if key not in seen.ranges]:
        broker_group, old = key[0], start.ranges[key]
        if broker_group not in seen.read_at_ms or broker_group in emptied or not seen.is_wanted(key):
            continue
        if not key[2] or (
            old.forgotten_at_ms and seen.read_at_ms[broker_group] > old.forgotten_at_ms + FORGOTTEN_KEPT_MS
        ):
            del places[key]
        elif not old.forgotten_at_ms:
            if lost is None:
                raise _was_forgotten(key, old)
            lost.forgotten(key, old)
            places[key], is_changed = old.forgotten(seen.read_at_ms[broker_group]), True
    if len(places) > RANGES_MAX:
        raise StreamError(
            f"{len(places)} ranges; a stream can have {RANGES_MAX}. Divide the subjects between several streams (option subjects)",
            code="analytics.too_many_ranges",
        )
    taken = left if rows_max is None else share(left, rows_max)
    for key, count in taken.items():
        places[key] = places[key].further(count)
    behind |= {key[0] for key, count in left.items() if taken.get(key, 0) < count}
    complete = dict(start.complete_ms)
    for broker_group, at_ms in seen.read_at_ms.items():
        if broker_group not in behind:
            complete[broker_group] = max(at_ms, complete.get(broker_group, 0))
    if not (taken or is_changed) and not (may_only_complete and complete != dict(start.complete_ms)):
        return start
    return Offset(places, complete, {**start.logs, **seen.logs})


class _News(Exception):
    """There is something to read."""


class _Refuse:
    """In place of what records histories that end."""

    def forgotten(self, key: Key, place: Place) -> None:
        raise _News

    def rebuilt(self, key: Key, place: Place, done_ms: int) -> int:
        raise _News

    def emptied(self, broker_group: str, log_number: int) -> None:
        raise _News


def complete_without_news(start: Offset, seen: Observed) -> dict[str, int] | None:
    """Up to when each broker group is read completely by an offset behind which there is nothing; None: there is something, or
    what nodes hold is an error that a stream has to report."""
    try:
        if advance(start, seen, None, lost=_Refuse()) is not start:
            return None
    except (_News, StreamError):
        return None
    known = start.complete_ms
    return {**known, **{group: max(at, known.get(group, 0)) for group, at in seen.read_at_ms.items()}}


def _emptied(start: Offset, seen: Observed, known: set[str], lost: Lost | None) -> set[str]:
    """The broker groups that began again with an empty log since `start`. Raises StreamError."""
    found = set()
    for broker_group, number in seen.logs.items():
        before = start.logs.get(broker_group, 0)
        if broker_group not in known or number == before:
            continue
        if number < before:
            raise StreamError(
                f"broker group {broker_group} serves an older log again; start the members of the latest one, or accept its"
                " loss with empty folders",
                code="analytics.went_back",
            )
        if lost is None:
            raise StreamError(
                f"broker group {broker_group} began again with an empty log. To continue and record the gap, set options"
                " on_gap=record and holes",
                code="analytics.emptied",
            )
        lost.emptied(broker_group, number)
        found.add(broker_group)
    return found


def _is_another(place: Place, held: Held) -> bool:
    """Whether a history is not the one that was read: its numbers begin lower, or with an entry of another time."""
    if place.began_at_ms < 0:
        return False
    if held.begin == place.begin and _is_unreadable(held):
        return False
    return held.begin < place.begin or (held.begin == place.begin and held.began_at_ms != place.began_at_ms)


def _is_unreadable(held: Held) -> bool:
    """Whether the node can't read the first entry, so its time is not known."""
    return held.began_at_ms < 0 and held.end > held.begin


def _went_back(key: Key, place: Place, held: Held) -> StreamError:
    if key[2]:
        return _was_forgotten(key, place)
    broker_group, subject, _ = key
    return StreamError(
        f"broker group {broker_group} holds subject {subject} up to {held.end}, but had been read up to {place.next}: its"
        f" data was restored to an older state. Start again with a new checkpoint",
        code="analytics.went_back",
    )


def _was_forgotten(key: Key, place: Place) -> StreamError:
    broker_group, subject, group = key
    return StreamError(
        f"the history of group {group} of subject {subject} on broker group {broker_group}, read up to entry {place.next}, no"
        f" longer exists: the group was deleted, or the node rebuilt its files. To continue and record the gap, set options"
        f" on_gap=record and holes",
        code="analytics.history_replaced",
    )


def share(left: Mapping[Key, int], rows_max: int) -> dict[Key, int]:
    """How many rows of each range to take: as even as can be, so that a busy subject does not hold up the others."""
    if sum(left.values()) <= rows_max:
        return dict(left)
    queue = [(count, key) for key, count in left.items()]
    heapq.heapify(queue)
    taken: dict[Key, int] = {}
    room = rows_max
    while queue and room > 0:
        count, key = heapq.heappop(queue)
        # Rounded up: where there are fewer rows than ranges, some get one.
        taken[key] = min(count, -(-room // (len(queue) + 1)))
        room -= taken[key]
    return taken


def between(start: Offset, end: Offset) -> Iterable[tuple[Key, int, int]]:
    """The rows [begin, after) of each range that lie between two offsets; where `end` has the group forgotten, the row that says
    so."""
    logs = start.logs.keys() | end.logs.keys()
    changed = {name for name in logs if start.logs.get(name, 0) != end.logs.get(name, 0)}
    for key, place in end.ranges.items():
        old = start.ranges.get(key)
        is_same = old is not None and old.history == place.history and (key[0] not in changed or bool(key[2]))
        begin = max(old.next, place.first) if old is not None and is_same else place.first
        if begin < place.next:
            yield key, begin, place.next
