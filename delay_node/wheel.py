"""A timer wheel of what is due in the loaded hours: (due time, ref) and nothing else. No clock inside; pure.

Two levels: a slot per second, unsorted, eight bytes a message; and the one second that is being worked off, a heap by
millisecond. Adding costs one append, a second is put in order when it comes up, and what was cancelled meanwhile is not
taken out: whoever pops it looks at its state.

    slot key = millisecond within the second << 32 | number within the hour
"""

import heapq
from array import array
from bisect import bisect_left
from collections.abc import Iterable

from delay_node.records import NUMBER_BITS, NUMBER_MAX, ref_of

SECONDS_PER_HOUR = 3600
KEY_BYTES = 8
SLOT_BYTES = 200
"""What an empty slot takes: the array, its place in the table and in the heap. An estimate for `memory_bytes`."""


def key_of(due_ms: int, number: int) -> int:
    """A message's key in the slot of its second."""
    return due_ms % 1000 << NUMBER_BITS | number


class Wheel:
    """Due messages in the order of their due times; those of one millisecond in the order they came to the node."""

    def __init__(self) -> None:
        self._slots: dict[int, array[int]] = {}
        self._seconds: list[int] = []
        self._second = -1
        self._heap: list[int] = []
        self.count = 0

    def add(self, due_ms: int, number: int) -> None:
        """Add one message of hour `due_ms // HOUR_MS`."""
        second = due_ms // 1000
        self.count += 1
        if second == self._second:
            heapq.heappush(self._heap, key_of(due_ms, number))
            return
        slot = self._slots.get(second)
        if slot is None:
            slot = self._slots[second] = array("Q")
            heapq.heappush(self._seconds, second)
        slot.append(key_of(due_ms, number))

    def add_second(self, second: int, keys: Iterable[int]) -> None:
        """Add many messages of one second (seconds since the epoch), as keys; an array('Q') is taken over whole."""
        fresh = keys if isinstance(keys, array) else array("Q", keys)
        self.count += len(fresh)
        if second == self._second:
            self._heap.extend(fresh)
            heapq.heapify(self._heap)
            return
        slot = self._slots.get(second)
        if slot is None:
            self._slots[second] = fresh
            heapq.heappush(self._seconds, second)
        else:
            slot.extend(fresh)

    def pop(self, until_ms: int, limit: int) -> list[tuple[int, int]]:
        """Take out at most `limit` messages due at `until_ms` or earlier, oldest first: (due time, ref)."""
        taken: list[tuple[int, int]] = []
        while len(taken) < limit and self._advance_to(until_ms // 1000):
            heap, base = self._heap, self._second * 1000
            hour = self._second // SECONDS_PER_HOUR
            while heap and len(taken) < limit:
                due_ms = base + (heap[0] >> NUMBER_BITS)
                if due_ms > until_ms:
                    self.count -= len(taken)
                    return taken
                taken.append((due_ms, ref_of(hour, heapq.heappop(heap) & NUMBER_MAX)))
        self.count -= len(taken)
        return taken

    def pop_recent(self, from_ms: int, until_ms: int, limit: int) -> list[tuple[int, int]]:
        """As `pop`, of the whole seconds from that of `from_ms` on, although older messages are waiting.

        Cost: sorts these seconds at each call, so it is for times in which `pop` has a backlog.
        """
        if self._heap and self._second >= from_ms // 1000:
            self._put_back()
        taken: list[tuple[int, int]] = []
        for second in range(from_ms // 1000, until_ms // 1000 + 1):
            slot = self._slots.get(second)
            if not slot or len(taken) == limit:
                continue
            keys, base, hour = sorted(slot), second * 1000, second // SECONDS_PER_HOUR
            due_keys = (
                len(keys) if second < until_ms // 1000 else bisect_left(keys, (until_ms % 1000 + 1) << NUMBER_BITS)
            )
            end = min(due_keys, limit - len(taken))
            taken += [(base + (key >> NUMBER_BITS), ref_of(hour, key & NUMBER_MAX)) for key in keys[:end]]
            # The slot stays, empty or not: its second is still in the heap of seconds.
            self._slots[second] = array("Q", keys[end:])
        self.count -= len(taken)
        return taken

    def _oldest_slot(self) -> int | None:
        """The oldest second with a slot, without those that `pop_recent` emptied."""
        while self._seconds and not self._slots[self._seconds[0]]:
            del self._slots[heapq.heappop(self._seconds)]
        return self._seconds[0] if self._seconds else None

    def _put_back(self) -> None:
        """Return the second in work to its slot."""
        slot = self._slots.get(self._second)
        if slot is None:
            self._slots[self._second] = array("Q", self._heap)
            heapq.heappush(self._seconds, self._second)
        else:
            slot.extend(self._heap)
        self._second, self._heap = -1, []

    def _advance_to(self, second_max: int) -> bool:
        """Have the oldest second with messages, not after `second_max`, in the heap; False when there is none."""
        oldest = self._oldest_slot()
        if self._heap and (oldest is None or self._second < oldest):
            return self._second <= second_max
        if oldest is None or oldest > second_max:
            return False
        if self._heap:
            # Something older came in after its second had passed.
            self._put_back()
        heapq.heappop(self._seconds)
        self._second = oldest
        self._heap = list(self._slots.pop(oldest))
        heapq.heapify(self._heap)
        return True

    def next_due_ms(self) -> int | None:
        """No message is due before this; None when the wheel is empty. Exact for the second in work, else its begin."""
        oldest = self._oldest_slot()
        if self._heap and (oldest is None or self._second < oldest):
            return self._second * 1000 + (self._heap[0] >> NUMBER_BITS)
        return None if oldest is None else oldest * 1000

    def due_before(self, until_ms: int) -> int:
        """How many messages are due up to a time, counted by whole seconds."""
        last = until_ms // 1000
        count = sum(len(self._slots[second]) for second in self._slots if second <= last)
        return count + (len(self._heap) if self._second <= last else 0)

    @property
    def memory_bytes(self) -> int:
        """About how much memory it takes."""
        slots = sum(slot.buffer_info()[1] * KEY_BYTES for slot in self._slots.values())
        # A key in the heap is an int object (32 bytes) and its pointer.
        return slots + SLOT_BYTES * len(self._slots) + 40 * len(self._heap)
