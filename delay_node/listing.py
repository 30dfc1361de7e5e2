"""class Listing: pages of messages by due time, with filters. Files are read in threads."""

import asyncio
from collections.abc import Generator, Sequence

import numpy as np

from delay_node.errors import BadQuery
from delay_node.found import WORDS, Found
from delay_node.hour import Hour
from delay_node.hour_reader import slices
from delay_node.records import State, ref_of
from delay_node.schedule_log import Entry
from delay_node.store import DelayStore
from delay_node.times import check_range, check_time
from qmq.clock import Clock
from qmq.protocol.delayed import PAGE_MAX, ListDelayedRequest
from qmq.protocol.masking import Masks
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

WAITING = frozenset({State.PENDING, State.CLAIMED, State.REFUSED})


class Listing:
    """Lists messages; filters are evaluated in a process of their own."""

    def __init__(self, store: DelayStore, disk: Disk, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._process = FilterProcess("qmq_node.filters.matching")
        # The time of a simulation does not pass while a process is waited for.
        self._is_apart = type(disk) is SystemDisk
        self._disk = disk

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

    async def page(self, query: ListDelayedRequest, bytes_max: int, masks: Masks) -> tuple[list[Found], str]:
        """Return messages by due time, up to the one that reaches `bytes_max`, and the next cursor. Raises BadQuery, LogError."""
        wanted = _states(query.states)
        self._check_filter(query.filter)
        limit = min(max(1, query.limit), PAGE_MAX)
        from_ms, after = check_range(query.from_ms, query.to_ms), _cursor(query.cursor)
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


def _states(words: Sequence[str]) -> frozenset[State]:
    if not words:
        return WAITING
    by_word = {str(word): state for state, word in WORDS.items()}
    unknown = [word for word in words if word not in by_word]
    if unknown:
        raise BadQuery(f"state {unknown[0]!r} is not valid; must be one of {', '.join(by_word)}")
    return frozenset(by_word[word] for word in words)


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
