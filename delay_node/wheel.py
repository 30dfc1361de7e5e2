"""A timer wheel of the messages that are due in the loaded hours: (due time, ref) and nothing else. No clock inside; pure.

It has a slot for each second, eight bytes a message. A slot is sorted when its second comes up, whatever its size, in one call of
numpy; messages that are added afterwards wait in a small heap beside it. Cancelled messages stay in the wheel: the caller checks
the state of each message that it takes.

    slot key = millisecond within the second << 32 | number within the hour
"""

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from delay_node.records import NUMBER_BITS, NUMBER_MAX, ref_of

SECONDS_PER_HOUR = 3600
KEY_BYTES = 8
SLOT_BYTES = 300
"""What an empty slot takes: the object, its array, its place in the table and in the heap. An estimate for `memory_bytes`."""


def key_of(due_ms: int, number: int) -> int:
    """Return a message's key in the slot of its second."""
    return due_ms % 1000 << NUMBER_BITS | number


@dataclass(eq=False, slots=True)
class _Slot:
    """The messages of one second: keys from `begin` on, and once these are sorted those added later, in a heap."""

    keys: "array[int]" = field(default_factory=lambda: array("Q"))
    begin: int = 0
    is_sorted: bool = False
    added: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.keys) - self.begin + len(self.added)

    def take(self, key_end: int, limit: int) -> list[int]:
        """Remove at most `limit` keys below `key_end`, smallest first."""
        keys, added = self.keys, self.added
        if not self.is_sorted:
            np.frombuffer(keys, dtype=np.uint64)[self.begin :].sort()
            self.is_sorted = True
        end = min(bisect_left(keys, key_end, self.begin), self.begin + limit)
        taken = keys[self.begin : end].tolist()
        self.begin = end
        if added and added[0] < key_end:
            while added and added[0] < key_end and len(taken) < 2 * limit:
                taken.append(heappop(added))
            taken.sort()
            for key in taken[limit:]:
                heappush(added, key)
            del taken[limit:]
        return taken

    def extend(self, keys: "array[int]") -> None:
        """Add many keys, in any order."""
        del self.keys[: self.begin]
        self.keys.extend(keys)
        self.begin, self.is_sorted = 0, False

    def first(self) -> int:
        """Return the smallest key of a sorted slot, which is not empty."""
        return min(self.added[:1] + self.keys[self.begin : self.begin + 1].tolist())


class Wheel:
    """Due messages in the order of their due times; those of one millisecond in the order in which they reached the node."""

    def __init__(self) -> None:
        self._slots: dict[int, _Slot] = {}
        self._seconds: list[int] = []
        """A heap of the seconds with a slot."""
        self._last_second = 0
        self.count = 0

    def _slot(self, second: int) -> _Slot:
        slot = self._slots.get(second)
        if slot is None:
            slot = self._slots[second] = _Slot()
            heappush(self._seconds, second)
            self._last_second = max(self._last_second, second)
        return slot

    def add(self, due_ms: int, number: int) -> None:
        """Add one message of hour `due_ms // HOUR_MS`."""
        self.count += 1
        slot = self._slots.get(due_ms // 1000) or self._slot(due_ms // 1000)
        if slot.is_sorted:
            heappush(slot.added, key_of(due_ms, number))
        else:
            slot.keys.append(key_of(due_ms, number))

    def add_second(self, second: int, keys: "array[int]") -> None:
        """Add many messages of one second (seconds since the epoch), as keys in an array('Q')."""
        self.count += len(keys)
        self._slot(second).extend(keys)

    def pop(self, until_ms: int, limit: int) -> list[tuple[int, int]]:
        """Remove at most `limit` messages due at `until_ms` or earlier, oldest first: (due time, ref)."""
        taken: list[tuple[int, int]] = []
        while (second := self._oldest()) is not None and second <= until_ms // 1000 and len(taken) < limit:
            part = self._take(second, until_ms, limit - len(taken))
            if not part:
                break
            taken += part
        return taken

    def pop_recent(self, from_ms: int, until_ms: int, limit: int) -> list[tuple[int, int]]:
        """As `pop`, of the whole seconds from that of `from_ms` on, although older messages are waiting."""
        taken: list[tuple[int, int]] = []
        for second in range(from_ms // 1000, until_ms // 1000 + 1):
            if second in self._slots and len(taken) < limit:
                taken += self._take(second, until_ms, limit - len(taken))
        return taken

    def _take(self, second: int, until_ms: int, limit: int) -> list[tuple[int, int]]:
        """Remove messages of one second. Its slot stays, empty or not: the second is in the heap of seconds."""
        millis = min(1000, until_ms + 1 - second * 1000)
        keys = self._slots[second].take(millis << NUMBER_BITS, limit)
        self.count -= len(keys)
        base, hour = second * 1000, second // SECONDS_PER_HOUR
        return [(base + (key >> NUMBER_BITS), ref_of(hour, key & NUMBER_MAX)) for key in keys]

    def _oldest(self) -> int | None:
        """Return the oldest second with messages; slots that became empty are removed."""
        while self._seconds and not self._slots[self._seconds[0]]:
            del self._slots[heappop(self._seconds)]
        return self._seconds[0] if self._seconds else None

    def next_due_ms(self) -> int | None:
        """No message is due before this; None when the wheel is empty. Exact for a second that came up, else its begin."""
        second = self._oldest()
        if second is None:
            return None
        slot = self._slots[second]
        return second * 1000 + (slot.first() >> NUMBER_BITS if slot.is_sorted else 0)

    def due_before(self, until_ms: int) -> int:
        """Return how many messages are due up to a time, counted by whole seconds. Cost: a step for each second after it."""
        later = (self._slots.get(second) for second in range(until_ms // 1000 + 1, self._last_second + 1))
        return self.count - sum(len(slot) for slot in later if slot is not None)

    @property
    def memory_bytes(self) -> int:
        """About how much memory it takes."""
        return KEY_BYTES * self.count + SLOT_BYTES * len(self._slots)
