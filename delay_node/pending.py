"""Find, list, cancel, move and deliver now what waits; what is due when.

Looking reads files in threads; deciding happens on the event loop in one step, on the state the message has then. So of a
cancel and a delivery exactly one wins, and each side is told what is true.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from delay_node.hour import Hour, read_hour
from delay_node.records import HOUR_MS, RecordKind, State, hour_of, number_of, ref_of
from delay_node.schedule_log import Entry, id_digest, message_id_of
from delay_node.store import DelayStore
from delay_node.trusted_clock import TrustedClock
from qmq.daemon.committer import Committer
from qmq.errors import QmqError
from qmq.protocol.delayed import (
    PAGE_MAX,
    CancelDelayedRequest,
    CancelDelayedResponse,
    ChangeDelayedRequest,
    DelayedChange,
    DelayedItem,
    DelayedState,
    DelayedTarget,
    ListDelayedRequest,
    Operation,
    Outcome,
)
from qmq.protocol.messages import redate_entry
from qmq.protocol.raw import RawView
from qmq.protocol.scan import CRC_BYTES

SCAN_MESSAGES = 2_000
"""Messages looked at for one page; when few match, a page is short and its cursor goes on."""
SCAN_HOURS = 500
"""Hours looked through for one page."""
PAGE_BYTES_MAX = 4 << 20
FOUND_BYTES_MAX = 64 << 20
"""Bytes of the messages that one question or change is about."""
CALENDAR_HOURS_MAX = 24 * 366 * 2 + 48
CALENDAR_CACHE_HOURS = 20_000
TIME_MAX_MS = 1 << 48
"""A later time is a mistake (year 10889)."""

WORDS = {
    State.PENDING: DelayedState.PENDING,
    State.CLAIMED: DelayedState.DELIVERING,
    State.DELIVERED: DelayedState.DELIVERED,
    State.CANCELLED: DelayedState.CANCELLED,
    State.MOVED: DelayedState.MOVED,
    State.REFUSED: DelayedState.REFUSED,
    State.LOST: DelayedState.LOST,
}
WAITING = frozenset({State.PENDING, State.CLAIMED, State.REFUSED})


class BadQuery(QmqError):
    """A question or change that can't be meant so; the message says which value, and what is legal."""

    code = "delay.bad_query"


@dataclass(frozen=True, slots=True)
class Found:
    """A scheduled message with its state when it was looked at; `data` is its whole entry."""

    ref: int
    due_ms: int
    state: State
    data: bytes

    def item(self) -> DelayedItem:
        """As answers show it."""
        return DelayedItem(self.due_ms, WORDS[self.state], self.data[CRC_BYTES:])


class PendingMessages:
    """Questions and changes about one node's messages. `delay_max_ms`: how far ahead a due time may be."""

    def __init__(self, store: DelayStore, committer: Committer, clock: TrustedClock, delay_max_ms: int) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._delay_max_ms = delay_max_ms
        self._calendar: OrderedDict[int, tuple[tuple[int, int], dict[int, int]]] = OrderedDict()

    # --- find ------------------------------------------------------------------------------------------------------

    async def find(self, target: DelayedTarget) -> list[Found]:
        """Every copy of a message, oldest due first. Raises LogError."""
        (entries,) = await self._locate([target])
        found = []
        for number, mine in _by_hour(entries).items():
            async with self._store.held(number) as hour:
                if hour is not None:
                    found += [
                        Found(e.ref, e.due_ms, self._store.state(e.ref), e.data) for e in mine if e.data is not None
                    ]
        return sorted(found, key=lambda item: (item.due_ms, item.ref))

    async def _locate(self, targets: Sequence[DelayedTarget]) -> list[list[Entry]]:
        """Copies of each message: in the hour its due time names and where it moved to from there, else anywhere."""
        for target in targets:
            _check_time(target.due_ms, "due_ms", -1)
        digests = [id_digest(target.message_id.encode()) for target in targets]
        where: list[set[int]] = [{t.due_ms // HOUR_MS} if t.due_ms >= 0 else set() for t in targets]
        found: list[dict[int, Entry]] = [{} for _ in targets]
        searched: list[set[int]] = [set() for _ in targets]
        while any(where):
            refs: list[list[int]] = []
            for i, hours in enumerate(where):
                searched[i] |= hours
                refs.append([ref for number in hours for ref in await self._candidates(number, digests[i])])
            known = {ref for entries in found for ref in entries}
            await self._verify(targets, refs, found)
            fresh = [entry for entries in found for ref, entry in entries.items() if ref not in known]
            moved: dict[int, int] = {}
            for number, mine in _by_hour(fresh).items():
                async with self._store.held(number) as hour:
                    if hour is None:
                        continue
                    for entry in mine:
                        if self._store.state(entry.ref) is State.MOVED:
                            moved[entry.ref] = hour.moved.get(number_of(entry.ref), number)
            where = [{moved[ref] for ref in entries if ref in moved} - searched[i] for i, entries in enumerate(found)]
        missing = [i for i, entries in enumerate(found) if not entries]
        if missing:
            refs = [[] for _ in targets]
            for i, candidates in zip(missing, await self._everywhere([digests[i] for i in missing]), strict=True):
                refs[i] = candidates
            await self._verify(targets, refs, found)
        return [list(entries.values()) for entries in found]

    async def _candidates(self, number: int, digest: int) -> list[int]:
        async with self._store.held(number) as hour:
            if hour is None or not hour.schedule.count:
                return []
            ids = await self._store.ids(hour)
            return [ref_of(number, n) for n in ids.find(digest)]

    async def _verify(
        self, targets: Sequence[DelayedTarget], refs: list[list[int]], found: list[dict[int, Entry]]
    ) -> None:
        """Read candidates, all targets' at once, and keep those that are what was asked for."""
        entries = iter(await self._store.read([ref for candidates in refs for ref in candidates], FOUND_BYTES_MAX))
        for i, candidates in enumerate(refs):
            target = targets[i]
            for _ in candidates:
                entry = next(entries)
                if entry.is_unread:
                    raise BadQuery(
                        f"the requested messages have more than {FOUND_BYTES_MAX} bytes in total; request fewer at a time",
                        code="delay.too_much",
                    )
                if entry.data is None or message_id_of(entry.data) != target.message_id:
                    continue
                if target.subject and self._store.subject_name(entry.subject) != target.subject:
                    continue
                found[i][entry.ref] = entry

    async def _everywhere(self, digests: list[int]) -> list[list[int]]:
        """Candidates in all hours, read from their files without keeping anything."""
        hours = sorted((h for h in self._store.hours.values() if h.schedule.count), key=lambda hour: hour.number)
        wanted = np.array(digests, dtype=np.uint32)

        def scan() -> list[list[int]]:
            refs: list[list[int]] = [[] for _ in digests]
            for hour in hours:
                index = hour.schedule.read_index(0, hour.schedule.count)
                for n in np.flatnonzero(np.isin(index["id"], wanted)).tolist():
                    for i in np.flatnonzero(wanted == index["id"][n]).tolist():
                        refs[i].append(ref_of(hour.number, n))
            return refs

        return await asyncio.get_running_loop().run_in_executor(self._store.scanners, scan)

    # --- list ------------------------------------------------------------------------------------------------------

    async def page(self, query: ListDelayedRequest, bytes_max: int = PAGE_BYTES_MAX) -> tuple[list[Found], str]:
        """A page of a subject's messages in the order of their due times, and the cursor of the next page.

        Args:
            bytes_max: of the messages together; the page ends with the message that reaches it.

        Raises:
            BadQuery: a value can't be meant so.
            LogError: the disk could not give them.
        """
        wanted = _states(query.states)
        limit = min(max(1, query.limit), PAGE_MAX)
        from_ms, after = _check_range(query.from_ms, query.to_ms), _cursor(query.cursor)
        subject = self._store.subject_numbers.get(query.subject, -1) if query.subject else None
        page: list[Found] = []
        if subject == -1:
            return page, ""
        begin = max(from_ms, after[0]) if after is not None else from_ms
        hours = sorted(n for n in self._store.hours if begin // HOUR_MS <= n and n * HOUR_MS < query.to_ms)
        scanned = searched = size = 0
        for number in hours:
            hour = self._store.hours.get(number)
            if hour is None or (wanted <= WAITING and hour.pending + hour.refused == 0):
                continue
            if searched >= SCAN_HOURS:
                return page, f"{hour.begin_ms}:-1"
            searched += 1
            async with self._store.held(number) as held:
                if held is None:
                    continue
                places = await self._scan(held, subject, begin, query.to_ms, wanted, after)
                while places:
                    entries = await self._store.read([ref_of(number, n) for _, n in places[:SCAN_MESSAGES]])
                    # What was too much for one read begins the next.
                    read = next((i for i, entry in enumerate(entries) if entry.is_unread), len(entries))
                    part, places = places[:read], places[read:]
                    for (due_ms, n), entry in zip(part, entries[:read], strict=True):
                        scanned += 1
                        state = self._store.state(entry.ref)
                        if state in wanted and entry.data is not None:
                            found = Found(entry.ref, due_ms, state, entry.data)
                            if _matches(found, query.match):
                                page.append(found)
                                size += len(entry.data)
                        if len(page) >= limit or size >= bytes_max or scanned >= SCAN_MESSAGES:
                            return page, f"{due_ms}:{n}"
        return page, ""

    async def _scan(
        self,
        hour: Hour,
        subject: int | None,
        from_ms: int,
        to_ms: int,
        wanted: frozenset[State],
        after: tuple[int, int] | None,
    ) -> list[tuple[int, int]]:
        """(due, number) of a held hour's messages in question, in order; at most SCAN_MESSAGES + 1 of them."""
        assert hour.states is not None
        states = np.frombuffer(bytes(hour.states), dtype=np.uint8)

        def scan() -> list[tuple[int, int]]:
            index = hour.schedule.read_index(0, len(states))
            fits = (
                np.isin(states, [int(state) for state in wanted]) & (index["due"] >= from_ms) & (index["due"] < to_ms)
            )
            if subject is not None:
                fits &= index["subject"] == subject
            numbers = np.flatnonzero(fits)
            dues = index["due"][numbers]
            order = np.lexsort((numbers, dues))
            dues, numbers = dues[order], numbers[order]
            if after is not None:
                behind = (dues > after[0]) | ((dues == after[0]) & (numbers > after[1]))
                dues, numbers = dues[behind], numbers[behind]
            most = SCAN_MESSAGES + 1
            return list(zip(dues[:most].tolist(), numbers[:most].tolist(), strict=True))

        return await asyncio.get_running_loop().run_in_executor(self._store.scanners, scan)

    # --- change ----------------------------------------------------------------------------------------------------

    async def change(self, request: ChangeDelayedRequest) -> list[DelayedChange]:
        """Cancel, reschedule or deliver now; on disk when it returns.

        Each copy is decided in one step, hour by hour: any number of hours is opened, one at a time.

        Raises:
            BadQuery: the new due time can't be.
            LogError: the disk could not give what was asked for, or the log failed. Some of the messages may be changed
                then; the same request can be repeated.
        """
        if request.operation is Operation.RESCHEDULE:
            self.check_due(request.due_ms)
        located = await self._locate(request.targets)
        decided: dict[int, DelayedChange | None] = {}
        for number, mine in _by_hour([entry for entries in located for entry in entries]).items():
            async with self._store.held(number) as hour:
                now_ms = self._clock.now_ms()
                for entry in mine if hour is not None else ():
                    if entry.ref not in decided:
                        decided[entry.ref] = self._decide(request, entry, now_ms)
        await self._durable()
        changes = [[decided.get(entry.ref) for entry in entries] for entries in located]
        return [
            _summary(target, [change for change in mine if change is not None])
            for target, mine in zip(request.targets, changes, strict=True)
        ]

    def check_due(self, due_ms: int) -> None:
        """Raises BadQuery when a message can't be due then."""
        _check_time(due_ms, "due_ms")
        ahead_ms = due_ms - self._clock.now_ms()
        if ahead_ms > self._delay_max_ms:
            raise BadQuery(
                f"due time {due_ms} is {ahead_ms / 86_400_000:.1f} days ahead, at most {self._delay_max_ms / 86_400_000:g}"
                " are accepted (delay_max_days)",
                code="delay.too_far",
            )

    def _decide(self, request: ChangeDelayedRequest, entry: Entry, now_ms: int) -> DelayedChange | None:
        """One copy's fate, at once; None when this copy is not the one that counts."""
        state = self._store.state(entry.ref)
        assert entry.data is not None
        message_id = message_id_of(entry.data)

        def answer(outcome: Outcome, becomes: State, due_ms: int = entry.due_ms) -> DelayedChange:
            return DelayedChange(message_id, outcome, WORDS[becomes], due_ms)

        if state in (State.MOVED, State.LOST):
            return None
        if state in (State.CLAIMED, State.DELIVERED):
            done_already = request.operation is Operation.DELIVER
            return answer(Outcome.UNCHANGED if done_already else Outcome.TOO_LATE, state)
        if request.operation is Operation.CANCEL:
            if state is State.CANCELLED:
                return answer(Outcome.UNCHANGED, state)
            self._store.act(RecordKind.CANCELLED, [entry.ref], now_ms)
            return answer(Outcome.DONE, State.CANCELLED)
        if state is State.CANCELLED:
            return answer(Outcome.TOO_LATE, state)
        due_ms = now_ms if request.operation is Operation.DELIVER else max(request.due_ms, now_ms)
        is_due_anyway = request.operation is Operation.DELIVER and entry.due_ms <= now_ms
        if state is State.PENDING and (is_due_anyway or entry.due_ms == request.due_ms):
            return answer(Outcome.UNCHANGED, state)
        self._store.move(entry.ref, due_ms, redate_entry(entry.data, due_ms), entry.subject, now_ms)
        return answer(Outcome.DONE, State.PENDING, due_ms)

    async def _durable(self) -> None:
        """Wait until all decisions so far, of any request, are on disk."""
        await self._committer.synced(self._store.log.appended_end - 1)

    async def cancel_matching(self, request: CancelDelayedRequest) -> CancelDelayedResponse:
        """Cancel a bounded part of what a query lists, or with `dry_run` only count it.

        Raises:
            BadQuery: a value can't be meant so, or neither a subject nor a property is given.
            LogError: as `page`.
        """
        query = request.query
        if not query.subject:
            raise BadQuery("a bulk cancel requires a subject", code="delay.subject_missing")
        page, cursor = await self.page(query)
        matched = [found for found in page if found.state is not State.CLAIMED]
        if request.dry_run:
            return CancelDelayedResponse(len(page), 0, len(page) - len(matched), cursor)
        cancelled = 0
        for number, mine in _by_hour(page).items():
            async with self._store.held(number) as hour:
                if hour is not None:
                    still = [e.ref for e in mine if self._store.state(e.ref) in (State.PENDING, State.REFUSED)]
                    self._store.act(RecordKind.CANCELLED, still, self._clock.now_ms())
                    cancelled += len(still)
        await self._durable()
        return CancelDelayedResponse(len(page), cancelled, len(page) - cancelled, cursor)

    # --- calendar --------------------------------------------------------------------------------------------------

    async def calendar(self, subject: str, from_ms: int, to_ms: int) -> list[tuple[int, int]]:
        """(begin of the hour, pending messages) for the hours of a range that have some.

        Raises:
            BadQuery: the range can't be meant so.
            LogError: the disk could not give the numbers.
        """
        first, end = _check_range(from_ms, to_ms) // HOUR_MS, -(-to_ms // HOUR_MS)
        hours = [self._store.hours[n] for n in sorted(self._store.hours) if first <= n < end]
        hours = [hour for hour in hours if hour.pending > 0]
        if len(hours) > CALENDAR_HOURS_MAX:
            raise BadQuery(f"{len(hours)} hours have messages in this range, at most {CALENDAR_HOURS_MAX} are listed")
        if not subject:
            return [(hour.begin_ms, hour.pending) for hour in hours]
        number = self._store.subject_numbers.get(subject)
        if number is None:
            return []
        counts = [(hour.begin_ms, (await self._by_subject(hour)).get(number, 0)) for hour in hours]
        return [(begin_ms, count) for begin_ms, count in counts if count]

    async def _by_subject(self, hour: Hour) -> dict[int, int]:
        """Pending messages of an hour by subject; remembered until the hour changes."""
        version = (hour.schedule.count, hour.dispatch.count)
        known = self._calendar.get(hour.number)
        if known is not None and known[0] == version:
            return known[1]
        states = bytes(hour.states) if hour.is_open and hour.states is not None else None

        def count() -> dict[int, int]:
            now = states if states is not None else read_hour(hour, *version, for_wheel=False).states
            waiting = np.isin(np.frombuffer(now, dtype=np.uint8), [State.PENDING, State.CLAIMED])
            subjects = hour.schedule.read_index(0, len(now))["subject"][waiting]
            numbers, counts = np.unique(subjects, return_counts=True)
            return dict(zip(numbers.tolist(), counts.tolist(), strict=True))

        counts = await asyncio.get_running_loop().run_in_executor(self._store.scanners, count)
        self._calendar[hour.number] = (version, counts)
        self._calendar.move_to_end(hour.number)
        if len(self._calendar) > CALENDAR_CACHE_HOURS:
            self._calendar.popitem(last=False)
        return counts


R = TypeVar("R", Entry, Found)


def _by_hour(items: Iterable[R]) -> dict[int, list[R]]:
    """Messages by the hour that holds them, earliest first."""
    found: dict[int, list[R]] = {}
    for item in sorted(items, key=lambda item: item.ref):
        found.setdefault(hour_of(item.ref), []).append(item)
    return found


def _summary(target: DelayedTarget, changes: list[DelayedChange]) -> DelayedChange:
    """What to say of a message of which there may be several copies: the worst that is true of one."""
    for outcome in (Outcome.TOO_LATE, Outcome.DONE, Outcome.UNCHANGED):
        for change in changes:
            if change.outcome is outcome:
                return change
    return DelayedChange(target.message_id, Outcome.NOT_FOUND, "", -1)


def _states(words: Sequence[str]) -> frozenset[State]:
    if not words:
        return WAITING
    by_word = {str(word): state for state, word in WORDS.items()}
    unknown = [word for word in words if word not in by_word]
    if unknown:
        raise BadQuery(f"state {unknown[0]!r} is not valid; must be one of {', '.join(by_word)}")
    return frozenset(by_word[word] for word in words)


def _check_time(moment_ms: int, name: str, least: int = 0) -> None:
    if not least <= moment_ms <= TIME_MAX_MS:
        raise BadQuery(f"{name} is {moment_ms}; must be milliseconds since 1970, at most {TIME_MAX_MS}")


def _check_range(from_ms: int, to_ms: int) -> int:
    _check_time(from_ms, "from")
    _check_time(to_ms, "to")
    if from_ms > to_ms:
        raise BadQuery(f"from {from_ms} is after to {to_ms}")
    return from_ms


def _cursor(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    due, _, number = text.partition(":")
    try:
        place = int(due), int(number)
    except ValueError as error:
        raise BadQuery(f"cursor {text[:40]!r} is not a cursor of this list") from error
    _check_time(place[0], "cursor")
    return place


def _matches(found: Found, match: Mapping[str, str]) -> bool:
    if not match:
        return True
    properties = RawView(found.data, CRC_BYTES).properties
    return all(properties.get(key) == value for key, value in match.items())
