"""Queries about delayed messages: find, list, and the calendar. Files are read in threads."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

import numpy as np

from delay_node.errors import BadQuery
from delay_node.hour import Hour
from delay_node.hour_reader import READ_BYTES_MAX, read_states, slices
from delay_node.records import HOUR_MS, State, hour_of, number_of, ref_of
from delay_node.schedule_log import Entry, checks_of, message_id_of
from delay_node.store import DelayStore
from qmq.checksum import crc32
from qmq.clock import Clock
from qmq.protocol.bulk_read import SCHEDULE_STATES
from qmq.protocol.delayed import PAGE_MAX, DelayedItem, DelayedTarget, ListDelayedRequest
from qmq.protocol.masking import NO_MASKS, Masks
from qmq.protocol.scan import CRC_BYTES
from qmq_node.filters import FilterError, TooCostly, compile_filter
from qmq_node.filters.matching import Matching
from qmq_node.filters.process import FilterProcess
from qmq_node.log.disk import Disk, SystemDisk

SCAN_MESSAGES = 2_000
"""Messages that one page checks; when few match, the page is short and its cursor continues."""
SCAN_SECONDS = 0.5
"""Time in which one page looks for what matches; then it ends, and its cursor continues."""
SCAN_HOURS = 500
"""Hours that one page searches."""
PAGE_BYTES_MAX = 4 << 20
FOUND_BYTES_MAX = 64 << 20
"""Bytes of the messages of one query or change."""
CALENDAR_HOURS_MAX = 24 * 366 * 2 + 48
CALENDAR_CACHE_ENTRIES = 1_000_000
"""Counts by hour and subject that the calendar keeps; those used least recently are dropped first."""
TIME_MAX_MS = 1 << 48
"""Later times (year 10889) are rejected."""

WORDS = {state: SCHEDULE_STATES[state] for state in State}
WAITING = frozenset({State.PENDING, State.CLAIMED, State.REFUSED})


@dataclass(frozen=True, slots=True)
class Found:
    """A scheduled message with its state when it was read; `data` is its whole entry."""

    ref: int
    due_ms: int
    state: State
    data: bytes

    def item(self) -> DelayedItem:
        """Return it as answers contain it."""
        return DelayedItem(self.due_ms, WORDS[self.state], self.data[CRC_BYTES:])

    @property
    def cursor(self) -> str:
        """The cursor with which a list continues behind it."""
        return f"{self.due_ms}:{number_of(self.ref)}"


class Queries:
    """Answers queries. What it shows is below the high watermark: nothing of it is undone by a failover.

    Args:
        synced: waits until the record at a log offset is synced by all in-sync members. Raises LogError.
    """

    def __init__(self, store: DelayStore, synced: Callable[[int], Awaitable[None]], disk: Disk, clock: Clock) -> None:
        self._store = store
        self._synced = synced
        self._clock = clock
        self._process = FilterProcess("qmq_node.filters.matching")
        # The time of a simulation does not pass while a process is waited for.
        self._is_apart = type(disk) is SystemDisk
        self._disk = disk
        self._calendar: OrderedDict[int, tuple[tuple[int, int, int], dict[int, int]]] = OrderedDict()
        self._calendar_entries = 0

    async def close(self) -> None:
        """End the process of filters."""
        await asyncio.to_thread(self._process.close)

    def _filter(self, work: Matching) -> list[bool]:
        return self._process.run(work) if self._is_apart else work.run(self._disk, self._clock)

    def _check_filter(self, text: str) -> None:
        try:
            compile_filter(text, self._clock.wall_ms())
        except FilterError as error:
            raise BadQuery(str(error), code=error.code) from error

    async def find(self, target: DelayedTarget) -> list[Found]:
        """Return every copy of a message, oldest due first. Raises LogError."""
        (entries,) = await self.locate([target])
        found = []
        for number, mine in by_hour(entries).items():
            async with self._store.open_hours.use(number) as hour:
                if hour is not None:
                    found += [
                        Found(e.ref, e.due_ms, self._store.state(e.ref), e.data) for e in mine if e.data is not None
                    ]
        await self._shown()
        return sorted(found, key=lambda item: (item.due_ms, item.ref))

    async def _shown(self) -> None:
        """Wait until the decisions that an answer contains are synced: in memory they are taken at once."""
        await self._synced(self._store.log.gather.records_end - 1)

    async def locate(self, targets: Sequence[DelayedTarget]) -> list[list[Entry]]:
        """Return the copies of each message: in the hour of its due time and where it was moved from there, otherwise anywhere."""
        for target in targets:
            check_time(target.due_ms, "due_ms", -1)
        digests = [crc32(target.message_id.encode()) for target in targets]
        where: list[set[int]] = [{t.due_ms // HOUR_MS} if t.due_ms >= 0 else set() for t in targets]
        found: list[dict[int, Entry]] = [{} for _ in targets]
        searched: list[set[int]] = [set() for _ in targets]
        while any(where):
            refs = [
                [ref for number in hours for ref in await self._candidates(number, digest)]
                for hours, digest in zip(where, digests, strict=True)
            ]
            fresh = await self._verified(targets, refs)
            moved: dict[int, int] = {}
            for number, mine in by_hour(entry for entries in fresh for entry in entries.values()).items():
                async with self._store.open_hours.use(number) as hour:
                    if hour is None:
                        continue
                    for entry in mine:
                        if self._store.state(entry.ref) is State.MOVED:
                            moved[entry.ref] = hour.moved.get(number_of(entry.ref), number)
            for i, entries in enumerate(fresh):
                found[i] |= entries
                searched[i] |= where[i]
                where[i] = {moved[ref] for ref in entries if ref in moved} - searched[i]
        if missing := [i for i, entries in enumerate(found) if not entries]:
            refs = await self._everywhere([digests[i] for i in missing])
            for i, entries in zip(missing, await self._verified([targets[i] for i in missing], refs), strict=True):
                found[i] = entries
        return [list(entries.values()) for entries in found]

    async def _candidates(self, number: int, digest: int) -> list[int]:
        async with self._store.open_hours.use(number) as hour:
            if hour is None or not hour.schedule.count:
                return []
            ids = await self._store.open_hours.ids(hour)
            return [ref_of(number, n) for n in ids.find(digest)]

    async def _verified(self, targets: Sequence[DelayedTarget], refs: list[list[int]]) -> list[dict[int, Entry]]:
        """Read the candidates of all targets at once, and return those with the id and the subject of their target, by ref."""
        entries = iter(await self._read_all([ref for candidates in refs for ref in candidates]))
        found: list[dict[int, Entry]] = []
        for target, candidates in zip(targets, refs, strict=True):
            found.append({})
            for entry in islice(entries, len(candidates)):
                is_same = entry.data is not None and message_id_of(entry.data) == target.message_id
                if is_same and target.subject in ("", self._store.subjects.name(entry.subject)):
                    found[-1][entry.ref] = entry
        return found

    async def _read_all(self, refs: list[int]) -> list[Entry]:
        """Read messages, READ_BYTES_MAX at a time. Raises BadQuery for more than FOUND_BYTES_MAX bytes."""
        entries: list[Entry] = []
        left = FOUND_BYTES_MAX
        while len(entries) < len(refs):
            part = await self._store.bodies.read(refs[len(entries) :], min(left, READ_BYTES_MAX))
            whole = [entry for entry in part if not entry.is_unread]
            left -= sum(len(entry.data) for entry in whole if entry.data is not None)
            entries += whole
            if left <= 0 and len(entries) < len(refs):
                raise BadQuery(
                    f"the requested messages have more than {FOUND_BYTES_MAX} bytes in total; request fewer at a time",
                    code="delay.too_much",
                )
        return entries

    async def _everywhere(self, digests: list[int]) -> list[list[int]]:
        """Return candidates in all hours, read from their files without keeping anything."""
        hours = [self._store.hours[number] for number in self._store.hours.order]
        wanted = np.array(digests, dtype=np.uint32)

        def scan() -> Generator[None, None, list[list[int]]]:
            refs: list[list[int]] = [[] for _ in digests]
            for hour in hours:
                for begin, end in slices(hour.schedule.count):
                    ids = hour.schedule.read_index(begin, end)["id"]
                    for n in np.flatnonzero(np.isin(ids, wanted)).tolist():
                        for i in np.flatnonzero(wanted == ids[n]).tolist():
                            refs[i].append(ref_of(hour.number, begin + n))
                    yield
            return refs

        return await self._store.io.run(scan())

    async def page(
        self, query: ListDelayedRequest, bytes_max: int = PAGE_BYTES_MAX, masks: Masks = NO_MASKS
    ) -> tuple[list[Found], str]:
        """Messages by due time, up to the one that reaches `bytes_max`, and the next cursor. Raises BadQuery, LogError.

        The filter and `match` see messages as `masks` show them, so that a list finds nothing that is not shown.
        """
        page = await self._page(query, bytes_max, masks)
        await self._shown()
        return page

    async def _page(self, query: ListDelayedRequest, bytes_max: int, masks: Masks) -> tuple[list[Found], str]:
        wanted = _states(query.states)
        self._check_filter(query.filter)
        limit = min(max(1, query.limit), PAGE_MAX)
        from_ms, after = _check_range(query.from_ms, query.to_ms), _cursor(query.cursor)
        subject = self._store.subjects.find(query.subject) if query.subject else None
        page: list[Found] = []
        if query.subject and subject is None:
            return page, ""
        begin = max(from_ms, after[0]) if after is not None else from_ms
        hours = self._store.hours.between(begin, query.to_ms)
        scanned = searched = size = 0
        until = self._clock.monotonic() + SCAN_SECONDS
        for number in hours:
            hour = self._store.hours.get(number)
            if hour is None or (wanted <= WAITING and hour.pending + hour.refused == 0):
                continue
            if searched >= SCAN_HOURS:
                return page, f"{hour.begin_ms}:-1"
            searched += 1
            async with self._store.open_hours.use(number) as held:
                if held is None:
                    continue
                places = await self._scan(held, subject, begin, query.to_ms, wanted, after)
                while places:
                    entries = await self._store.bodies.read([ref_of(number, n) for _, n in places[:SCAN_MESSAGES]])
                    # What was too much for one read begins the next.
                    read = next((i for i, entry in enumerate(entries) if entry.is_unread), len(entries))
                    matching = await self._matching(query, masks, places[:read], entries[:read], until)
                    is_late = len(matching) < read
                    part, places = places[: len(matching)], places[len(matching) :]
                    for (due_ms, n), entry, is_match in zip(part, entries, matching, strict=False):
                        scanned += 1
                        state = self._store.state(entry.ref)
                        if is_match and state in wanted and entry.data is not None:
                            page.append(Found(entry.ref, due_ms, state, entry.data))
                            size += len(entry.data)
                        is_full = len(page) >= limit or size >= bytes_max or scanned >= SCAN_MESSAGES
                        if is_full or (is_late and n == part[-1][1]):
                            return page, f"{due_ms}:{n}"
        return page, ""

    async def _matching(
        self,
        query: ListDelayedRequest,
        masks: Masks,
        places: Sequence[tuple[int, int]],
        entries: Sequence[Entry],
        until: float,
    ) -> list[bool]:
        """Whether each of these messages matches a query as it is shown; of the first ones, if the time is over before.

        Raises BadQuery, LogError.
        """
        if not query.filter and not query.match:
            return [True] * len(entries)
        pairs = zip(places, entries, strict=True)
        messages = [(b"" if entry.data is None else entry.data[CRC_BYTES:], due_ms) for (due_ms, _), entry in pairs]
        seconds = max(0.0, until - self._clock.monotonic())
        work = Matching(query.filter, query.match, self._clock.wall_ms(), messages, seconds, masks)
        if not query.filter and masks.is_identity:
            # Takes microseconds for each message.
            return work.run(self._disk, self._clock)
        if not query.filter:
            return await asyncio.to_thread(work.run, self._disk, self._clock)
        try:
            return await asyncio.to_thread(self._filter, work)
        except TooCostly as error:
            raise BadQuery(str(error), code=error.code) from error

    async def _scan(
        self,
        hour: Hour,
        subject: int | None,
        from_ms: int,
        to_ms: int,
        wanted: frozenset[State],
        after: tuple[int, int] | None,
    ) -> list[tuple[int, int]]:
        """Return (due time, number) of an open hour's matching messages, in order; at most SCAN_MESSAGES + 1 of them."""
        assert hour.states is not None
        states = np.frombuffer(bytes(hour.states), dtype=np.uint8)

        most = SCAN_MESSAGES + 1

        def scan() -> Generator[None, None, list[tuple[int, int]]]:
            best: list[tuple[int, int]] = []
            for begin, end in slices(len(states)):
                index = hour.schedule.read_index(begin, end)
                fits = np.isin(states[begin:end], [int(state) for state in wanted])
                fits &= (index["due"] >= from_ms) & (index["due"] < to_ms)
                if subject is not None:
                    fits &= index["subject"] == subject
                numbers = np.flatnonzero(fits)
                dues = index["due"][numbers]
                numbers += begin
                if after is not None:
                    behind = (dues > after[0]) | ((dues == after[0]) & (numbers > after[1]))
                    dues, numbers = dues[behind], numbers[behind]
                order = np.lexsort((numbers, dues))[:most]
                best = sorted([*best, *zip(dues[order].tolist(), numbers[order].tolist(), strict=True)])[:most]
                yield
            return best

        return await self._store.io.run(scan())

    async def calendar(self, subject: str, from_ms: int, to_ms: int) -> list[tuple[int, int]]:
        """(begin of the hour, pending messages) for the hours of a range that have some. Raises BadQuery, LogError."""
        begin_ms = _check_range(from_ms, to_ms) // HOUR_MS * HOUR_MS
        hours = [self._store.hours[number] for number in self._store.hours.between(begin_ms, to_ms)]
        hours = [hour for hour in hours if hour.pending > 0]
        if len(hours) > CALENDAR_HOURS_MAX:
            raise BadQuery(f"{len(hours)} hours have messages in this range, at most {CALENDAR_HOURS_MAX} are listed")
        if not subject:
            return [(hour.begin_ms, hour.pending) for hour in hours]
        number = self._store.subjects.find(subject)
        if number is None:
            return []
        counts = [(hour.begin_ms, (await self._by_subject(hour)).get(number, 0)) for hour in hours]
        return [(begin_ms, count) for begin_ms, count in counts if count]

    async def _by_subject(self, hour: Hour) -> dict[int, int]:
        """Return an hour's pending messages by subject; kept until the hour changes."""
        version = (hour.schedule.count, hour.dispatch.count, hour.lost)
        known = self._calendar.get(hour.number)
        if known is not None and known[0] == version:
            self._calendar.move_to_end(hour.number)
            return known[1]

        def count() -> Generator[None, None, dict[int, int]]:
            states, _ = yield from read_states(hour, *version[:2])
            found = np.zeros(len(self._store.subjects), dtype=np.int64)
            for begin, end in slices(len(states)):
                here = np.isin(states[begin:end], [State.PENDING, State.CLAIMED])
                index = hour.schedule.read_index(begin, end)
                waiting = index["subject"][here & (index["check"] == checks_of(index))]
                found += np.bincount(waiting, minlength=len(found))[: len(found)]
                yield
            present = np.flatnonzero(found)
            return dict(zip(present.tolist(), found[present].tolist(), strict=True))

        counts = await self._store.io.run(count())
        self._calendar_entries += len(counts) - len(self._calendar.pop(hour.number, (version, {}))[1])
        self._calendar[hour.number] = (version, counts)
        while self._calendar_entries > CALENDAR_CACHE_ENTRIES:
            _, (_, dropped) = self._calendar.popitem(last=False)
            self._calendar_entries -= len(dropped)
        return counts


R = TypeVar("R", Entry, Found)


def by_hour(items: Iterable[R]) -> dict[int, list[R]]:
    """Group messages by hour, earliest first."""
    found: dict[int, list[R]] = {}
    for item in sorted(items, key=lambda item: item.ref):
        found.setdefault(hour_of(item.ref), []).append(item)
    return found


def _states(words: Sequence[str]) -> frozenset[State]:
    if not words:
        return WAITING
    by_word = {str(word): state for state, word in WORDS.items()}
    unknown = [word for word in words if word not in by_word]
    if unknown:
        raise BadQuery(f"state {unknown[0]!r} is not valid; must be one of {', '.join(by_word)}")
    return frozenset(by_word[word] for word in words)


def check_time(moment_ms: int, name: str, least: int = 0) -> None:
    if not least <= moment_ms <= TIME_MAX_MS:
        raise BadQuery(f"{name} is {moment_ms}; must be milliseconds since 1970, at most {TIME_MAX_MS}")


def _check_range(from_ms: int, to_ms: int) -> int:
    check_time(from_ms, "from")
    check_time(to_ms, "to")
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
    check_time(place[0], "cursor")
    return place
