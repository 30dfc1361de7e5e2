"""Reads an hour's files into memory, in threads. The functions are jobs of `IoThreads.run`: they yield after each slice.

Cost for an hour of ten million messages: 560 MB read, eight bytes of keys sorted, no object a message.
"""

import asyncio
import logging
from array import array
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from delay_node.hour import Hour, Hours, IdIndex
from delay_node.records import GONE, NUMBER_BITS, State, hour_of, number_of, numbers_by_hour
from delay_node.schedule_log import INDEX_BYTES, Entry, EntryArray, checks_of

P = ParamSpec("P")
T = TypeVar("T")

SLICE_BYTES = 8 << 20
"""Bytes of an hour's files that one slice of a job reads; then the next job has its turn."""


def _advance(steps: Generator[None, None, T]) -> tuple[bool, T | None]:
    """Run one slice: whether it was the last, and then the result."""
    try:
        next(steps)
    except StopIteration as end:
        return True, end.value
    return False, None


class IoThreads:
    """Two threads read message bodies; one runs everything longer, slice by slice, so that no job waits for a whole other one."""

    def __init__(self) -> None:
        self._bodies = ThreadPoolExecutor(max_workers=2, thread_name_prefix="delay-read")
        self._slices = ThreadPoolExecutor(max_workers=1, thread_name_prefix="delay-scan")

    async def read(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a short read: due messages wait for it."""
        return await asyncio.get_running_loop().run_in_executor(self._bodies, lambda: work(*args, **kwargs))

    async def run(self, steps: Generator[None, None, T]) -> T:
        """Run a job that yields after each SLICE_BYTES that it read; its result."""
        loop = asyncio.get_running_loop()
        while True:
            is_done, result = await loop.run_in_executor(self._slices, _advance, steps)
            if is_done:
                return result  # type: ignore[return-value]

    async def close(self) -> None:
        """Cancel what has not begun, and wait for the reads under way."""
        for pool in (self._bodies, self._slices):
            await asyncio.to_thread(pool.shutdown, wait=True, cancel_futures=True)


SLICE_ENTRIES = SLICE_BYTES // INDEX_BYTES
READ_ENTRIES = 1_000
"""Index entries that one slice of a job reads one by one."""
_WAITS = np.array([state in (State.PENDING, State.CLAIMED) for state in range(max(State) + 1)])
_RANKS: dict[int, int] = {State.CLAIMED: 1, State.REFUSED: 2}
RANKS = np.array(
    [3 if state in GONE else _RANKS.get(state, 0) for state in range(max(State) + 1)],
    dtype=np.uint8,
)
"""By state: decisions only lead to those with a higher number."""


@dataclass(slots=True)
class Opened:
    """The content of an hour's first messages."""

    states: bytearray
    moved: dict[int, int]
    """Number -> the hour the message was moved to."""
    seconds: list[tuple[int, "array[int]"]]
    """For the wheel: keys by second, of messages that wait for delivery."""
    bad: int
    """Index entries that fail their check."""
    lost: int
    """Those of them whose messages wait for delivery: these can't be found any more."""
    damaged: int
    """Dispatch entries that fail their check: their messages may be delivered again."""


def slices(count: int) -> Generator[tuple[int, int], None, None]:
    """Yield the begins and ends of an index's slices."""
    for begin in range(0, count, SLICE_ENTRIES):
        yield begin, min(begin + SLICE_ENTRIES, count)


def read_states(
    hour: Hour, count: int, dispatch_count: int, moved: dict[int, int] | None = None
) -> Generator[None, None, tuple[NDArray[np.uint8], int]]:
    """Read the states of an hour's first `count` messages, and how many dispatch entries fail their check. Raises LogError.

    `moved` gets the hours that messages were moved to.
    """
    states = np.zeros(count, dtype=np.uint8)
    damaged = 0
    for begin, end in slices(dispatch_count):
        entries, bad = hour.dispatch.read(begin, end)
        damaged += bad
        entries = entries[entries["number"] < count]
        states[entries["number"]] = entries["what"]
        if moved is not None:
            there = entries[entries["what"] == State.MOVED]
            moved.update(zip(there["number"].tolist(), there["to_hour"].tolist(), strict=True))
        yield
    return states, damaged


def read_hour(hour: Hour, count: int, dispatch_count: int, *, for_wheel: bool) -> Generator[None, None, Opened]:
    """Read an hour's first `count` messages. Raises LogError."""
    moved: dict[int, int] = {}
    states, damaged = yield from read_states(hour, count, dispatch_count, moved)
    lost_count = bad_count = 0
    parts: list[NDArray[np.uint64]] = []
    for begin, end in slices(count):
        index = hour.schedule.read_index(begin, end)
        here = states[begin:end]
        bad = index["check"] != checks_of(index)
        bad_count += int(bad.sum())
        lost = bad & _WAITS[here]
        here[lost] = State.LOST
        lost_count += int(lost.sum())
        if for_wheel:
            parts.append(_wheel_keys(index, here, hour.begin_ms, begin))
        yield
    seconds = _by_second(hour.begin_ms // 1000, parts)
    return Opened(bytearray(states.tobytes()), moved, seconds, bad_count, lost_count, damaged)


def read_dues(hour: Hour, numbers: Sequence[int]) -> Generator[None, None, dict[int, int]]:
    """Read the due times of messages by number, of those whose index entries pass their check. Raises LogError."""
    dues_ms: dict[int, int] = {}
    for place, number in enumerate(numbers):
        entry = hour.schedule.read_index(number, number + 1)
        if entry["check"] == checks_of(entry):
            dues_ms[number] = int(entry["due"][0])
        if place % READ_ENTRIES == READ_ENTRIES - 1:
            yield
    return dues_ms


def _wheel_keys(index: EntryArray, states: NDArray[np.uint8], begin_ms: int, first: int) -> NDArray[np.uint64]:
    """Second of the hour, millisecond, number of each waiting message: sorted, each second is one stretch of slot keys."""
    waiting = np.flatnonzero((states == State.PENDING) | (states == State.CLAIMED))
    within = (index["due"][waiting] - begin_ms).astype(np.uint64)
    keys = (within // np.uint64(1000)) << np.uint64(NUMBER_BITS + 10)
    keys |= (within % np.uint64(1000)) << np.uint64(NUMBER_BITS)
    keys |= (waiting + first).astype(np.uint64)
    return keys


def _by_second(first_second: int, parts: list[NDArray[np.uint64]]) -> list[tuple[int, "array[int]"]]:
    keys = np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)
    keys.sort()
    shift = np.uint64(NUMBER_BITS + 10)
    present, begins = np.unique(keys >> shift, return_index=True)
    keys &= (np.uint64(1) << shift) - np.uint64(1)
    parts = np.split(keys, begins[1:]) if len(keys) else []
    return [
        (first_second + second, array("Q", part.tobytes()))
        for second, part in zip(present.tolist(), parts, strict=True)
    ]


def read_ids(hour: Hour, count: int) -> Generator[None, None, IdIndex]:
    """Make the id index of an hour's first `count` messages. Raises LogError."""
    digests = np.empty(count, dtype=np.uint32)
    for begin, end in slices(count):
        digests[begin:end] = hour.schedule.read_index(begin, end)["id"]
        yield
    order = np.argsort(digests, kind="stable").astype(np.uint32)
    return IdIndex(digests[order], order, count)


logger = logging.getLogger("qmq.delay.bodies")

READ_BYTES_MAX = 8 << 20
"""Message bytes of one read; the next read continues."""
DAMAGED_MAX = 100_000
"""Corrupted messages remembered, so that each is counted once. Beyond it no more are counted."""
UNBOUNDED = 1 << 62


class Bodies:
    def __init__(self, hours: Hours, io: IoThreads) -> None:
        self._hours = hours
        self._io = io
        self._damaged: dict[int, set[int]] = {}
        """Numbers of corrupted messages by hour."""
        self._skipped: dict[int, set[int]] = {}
        """Numbers of due messages that are not delivered because they are corrupted, by hour; some of the above."""
        self.on_damaged: Callable[[Hour, Iterable[int]], None] = lambda hour, numbers: None
        """Called with the numbers of messages that were read, and fail the check of their index entry or of the body."""
        self.unreadable = 0
        """Messages known to be corrupted."""

    async def read(self, refs: Sequence[int], bytes_max: int = READ_BYTES_MAX) -> list[Entry]:
        """As `read_now`, in a thread; corruption is recorded."""
        entries = await self._io.read(self.read_now, refs, bytes_max)
        damaged = [entry for entry in entries if entry.data is None and not entry.is_unread]
        # One with a damaged index entry (no due time) is counted as lost when its hour is opened, or when it is due.
        self._report(entry.ref for entry in damaged if entry.due_ms < 0)
        self.found_damage(entry.ref for entry in damaged if entry.due_ms >= 0)
        return entries

    def _report(self, refs: Iterable[int]) -> None:
        for number, numbers in numbers_by_hour(refs).items():
            if (hour := self._hours.get(number)) is not None:
                self.on_damaged(hour, numbers)

    def read_now(self, refs: Sequence[int], bytes_max: int = READ_BYTES_MAX) -> list[Entry]:
        """Read messages by ref; from any thread. Unreadable ones have no data. Raises LogError.

        Bodies are read up to `bytes_max` in all, at least one unless it is 0; the rest is marked `is_unread`.
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
        for hour, found in numbers_by_hour(refs).items():
            if hour not in self._hours:
                continue
            self.on_damaged(self._hours[hour], found)
            known = self._damaged.setdefault(hour, set())
            room = DAMAGED_MAX - sum(map(len, self._damaged.values()))
            new = sorted(set(found) - known)[: max(0, room)]
            if new:
                known.update(new)
                self.unreadable += len(new)
                logger.error("hour %d: %d messages between numbers %d and %d fail their checks and can't be delivered",
                             hour, len(new), new[0], new[-1])  # fmt: skip

    def skip(self, ref: int) -> None:
        """Remember that a corrupted message was due, and is not delivered."""
        hour, number = hour_of(ref), number_of(ref)
        if number in self._damaged.get(hour, ()):
            self._skipped.setdefault(hour, set()).add(number)

    def repaired(self, hour: int, numbers: Iterable[int]) -> list[int]:
        """Forget that messages were corrupted; return the numbers of those that were due and not delivered."""
        known, skipped = self._damaged.get(hour, set()), self._skipped.get(hour, set())
        again = sorted(skipped.intersection(numbers))
        before = len(known)
        known.difference_update(numbers)
        self.unreadable -= before - len(known)
        skipped.difference_update(again)
        return again

    def forget(self, hour: int) -> None:
        """Forget the corrupted messages of an hour that is removed."""
        self.unreadable -= len(self._damaged.pop(hour, ()))
        self._skipped.pop(hour, None)
