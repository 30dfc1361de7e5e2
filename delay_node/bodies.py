"""class Bodies: reads messages by ref, and records those whose stored bytes fail their checks."""

import logging
from collections.abc import Iterable, Sequence

from delay_node.hour import Hours
from delay_node.hour_reader import IoThreads
from delay_node.records import hour_of, number_of
from delay_node.schedule_log import Entry

logger = logging.getLogger("qmq.delay.bodies")

READ_BYTES_MAX = 8 << 20
"""Message bytes of one read; the next read continues."""
DAMAGED_MAX = 100_000
"""Corrupted messages remembered, so that each is counted once. Beyond it no more are counted."""
UNBOUNDED = 1 << 62


class Bodies:
    """Messages of all hours."""

    def __init__(self, hours: Hours, io: IoThreads) -> None:
        self._hours = hours
        self._io = io
        self._damaged: dict[int, set[int]] = {}
        """Numbers of corrupted messages by hour."""
        self._damaged_count = 0
        self.unreadable = 0
        """Corrupted messages found since start."""

    async def read(self, refs: Sequence[int], bytes_max: int = READ_BYTES_MAX) -> list[Entry]:
        """As `read_now`, in a thread; corruption is recorded."""
        entries = await self._io.read(self.read_now, refs, bytes_max)
        # A damaged index entry (no due time) is counted as lost when its hour is opened.
        self.found_damage(e.ref for e in entries if e.data is None and not e.is_unread and e.due_ms >= 0)
        return entries

    def read_now(self, refs: Sequence[int], bytes_max: int = READ_BYTES_MAX) -> list[Entry]:
        """Read messages by ref; from any thread. Unreadable ones have no data.

        Bodies are read up to `bytes_max` in all, at least one unless it is 0; the rest is marked `is_unread`.

        Raises:
            LogError: the disk could not give them.
        """
        found: list[Entry] = []
        left, has_read = bytes_max, False
        for ref in refs:
            hour = self._hours.get(hour_of(ref))
            if hour is None:
                found.append(Entry(ref, -1, -1, None))
                continue
            room = left if has_read or not bytes_max else UNBOUNDED
            entry = hour.schedule.read_entry(hour.number, number_of(ref), room)
            if entry.data is not None:
                left, has_read = max(0, left - len(entry.data)), True
            elif entry.is_unread:
                left = 0  # messages stay in their order
            found.append(entry)
        return found

    def found_damage(self, refs: Iterable[int]) -> None:
        """Record messages whose stored bytes fail their checks; each is counted and logged once."""
        new: dict[int, list[int]] = {}
        for ref in refs:
            hour, number = hour_of(ref), number_of(ref)
            known = self._damaged.setdefault(hour, set()) if hour in self._hours else None
            if known is not None and number not in known and self._damaged_count < DAMAGED_MAX:
                known.add(number)
                self._damaged_count += 1
                new.setdefault(hour, []).append(number)
        for hour, numbers in new.items():
            self.unreadable += len(numbers)
            logger.error("hour %d: %d messages between numbers %d and %d fail their checks and can't be delivered", hour,
                         len(numbers), min(numbers), max(numbers))  # fmt: skip

    def forget(self, hour: int) -> None:
        """Forget the corrupted messages of an hour that is removed."""
        self._damaged_count -= len(self._damaged.pop(hour, ()))
