"""class Calendar: how many messages are pending in each hour. Files are read in threads."""

from collections import OrderedDict
from collections.abc import Generator

import numpy as np

from delay_node.errors import BadQuery
from delay_node.hour import Hour
from delay_node.hour_reader import read_states, slices
from delay_node.records import HOUR_MS, State
from delay_node.schedule_log import checks_of
from delay_node.store import DelayStore
from delay_node.times import check_range

CALENDAR_HOURS_MAX = 24 * 366 * 2 + 48
CALENDAR_CACHE_ENTRIES = 1_000_000
"""Counts by hour and subject that the calendar keeps; those used least recently are dropped first."""


class Calendar:
    """Counts pending messages by hour, and keeps the counts by subject until their hour changes."""

    def __init__(self, store: DelayStore) -> None:
        self._store = store
        self._counts: OrderedDict[int, tuple[tuple[int, int, int], dict[int, int]]] = OrderedDict()
        self._entries = 0

    async def hours(self, subject: str, from_ms: int, to_ms: int) -> list[tuple[int, int]]:
        """(begin of the hour, pending messages) for the hours of a range that have some. Raises BadQuery, LogError."""
        begin_ms = check_range(from_ms, to_ms) // HOUR_MS * HOUR_MS
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
        known = self._counts.get(hour.number)
        if known is not None and known[0] == version:
            self._counts.move_to_end(hour.number)
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
        self._entries += len(counts) - len(self._counts.pop(hour.number, (version, {}))[1])
        self._counts[hour.number] = (version, counts)
        while self._entries > CALENDAR_CACHE_ENTRIES:
            _, (_, dropped) = self._counts.popitem(last=False)
            self._entries -= len(dropped)
        return counts
