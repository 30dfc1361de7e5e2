"""class Hour: what a node keeps of one hour of due time, and how it is read into memory.

An hour at rest is a handful of counters. It is *open* when the state of each of its messages is in memory (a byte each):
always when it is loaded into the wheel, else while a query or change holds it, and after that while there is room.
"""

import asyncio
from array import array
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from delay_node.append_file import AppendFile
from delay_node.dispatch_log import DispatchLog
from delay_node.records import HOUR_MS, NUMBER_BITS, State
from delay_node.schedule_log import INDEX_BYTES, ScheduleLog, checks_of, hour_name
from qmq.log.index import HandleCache

LOAD_ENTRIES = 1 << 20
"""Index entries read at a time while an hour is loaded."""
TAIL_IDS_MAX = 200_000
"""Ids looked through one by one; above it the sorted part is made anew."""
_SETTLED = np.array([state in (State.DELIVERED, State.CANCELLED, State.MOVED) for state in range(max(State) + 1)])


@dataclass(slots=True)
class Opened:
    """What reading an hour gave, for its first `count` messages."""

    count: int
    states: bytearray
    moved: dict[int, int]
    """Number -> the hour it moved to."""
    seconds: list[tuple[int, "array[int]"]]
    """For the wheel: keys by second, of messages that wait for delivery."""
    lost: int
    """Index entries that fail their check: their messages can't be found any more."""
    damaged: int
    """Dispatch entries that fail their check: their messages may be delivered again."""


@dataclass(slots=True)
class IdIndex:
    """Where ids are: digests of the first messages, sorted, with their numbers; those of later ones in a tail."""

    digests: NDArray[np.uint32]
    numbers: NDArray[np.uint32]
    count: int
    tail: "array[int]" = field(default_factory=lambda: array("I"))

    def find(self, digest: int) -> list[int]:
        """Numbers of messages whose id may be the one looked for."""
        wanted = np.uint32(digest)
        low = int(np.searchsorted(self.digests, wanted, "left"))
        high = int(np.searchsorted(self.digests, wanted, "right"))
        found = sorted(self.numbers[low:high].tolist())
        if self.tail:
            tail = np.frombuffer(self.tail.tobytes(), dtype=np.uint32)
            found += (np.flatnonzero(tail == wanted) + self.count).tolist()
        return found


class Hour:
    """One hour of due time."""

    __slots__ = (
        "dispatch",
        "gone",
        "holders",
        "ids",
        "ids_making",
        "is_near",
        "lost",
        "moved",
        "number",
        "opening",
        "refused",
        "schedule",
        "states",
        "undecided",
    )

    def __init__(
        self,
        handles: HandleCache,
        root: str,
        number: int,
        *,
        count: int = 0,
        data_end: int = 0,
        dispatch_count: int = 0,
        gone: int = 0,
        refused: int = 0,
        lost: int = 0,
    ) -> None:
        name = hour_name(number)
        self.number = number
        self.schedule = ScheduleLog(
            AppendFile(handles, lambda: f"{root}/schedule/{name}.data", data_end),
            AppendFile(handles, lambda: f"{root}/schedule/{name}.index", count * INDEX_BYTES),
        )
        self.dispatch = DispatchLog(AppendFile(handles, lambda: f"{root}/dispatch/{name}", dispatch_count * 24))
        self.gone = gone
        self.refused = refused
        self.lost = lost
        self.is_near = False
        """Its messages are in the wheel, or on their way there."""
        self.states: bytearray | None = None
        self.moved: dict[int, int] = {}
        self.opening: asyncio.Future[None] | None = None
        self.holders = 0
        """Queries and changes that use it now: it stays open for them."""
        self.undecided = 0
        """Decisions that stand in `states` alone, because their records are not synced."""
        self.ids: IdIndex | None = None
        self.ids_making: asyncio.Future[None] | None = None

    @property
    def begin_ms(self) -> int:
        return self.number * HOUR_MS

    @property
    def end_ms(self) -> int:
        return (self.number + 1) * HOUR_MS

    @property
    def pending(self) -> int:
        """Messages that may still be delivered; refused ones are not among them."""
        return self.schedule.count - self.gone - self.refused - self.lost

    @property
    def is_open(self) -> bool:
        """Whether the state of all its messages is in memory."""
        return self.states is not None and self.opening is None

    @property
    def is_closable(self) -> bool:
        """Whether nothing needs what opening brought."""
        return not (self.is_near or self.holders or self.undecided or self.opening is not None)

    @property
    def files(self) -> tuple[AppendFile, AppendFile, AppendFile]:
        return self.schedule.data, self.schedule.index, self.dispatch.file

    @property
    def memory_bytes(self) -> int:
        """Memory beside what is waiting to be written."""
        ids = 0 if self.ids is None else 8 * self.ids.count + 4 * len(self.ids.tail)
        return len(self.states or b"") + ids

    def close(self) -> None:
        """Let go of what opening brought; not of an hour in the wheel."""
        self.states = self.ids = None
        self.moved = {}


def read_hour(hour: Hour, count: int, dispatch_count: int, *, for_wheel: bool) -> Opened:
    """Read an hour's first `count` messages; from any thread.

    Cost for ten million messages: 560 MB read, eight bytes of keys sorted, no object a message.

    Raises:
        LogError: the disk could not give them.
    """
    states = np.zeros(count, dtype=np.uint8)
    moved: dict[int, int] = {}
    damaged = lost_count = 0
    for begin in range(0, dispatch_count, LOAD_ENTRIES):
        entries, bad = hour.dispatch.read(begin, min(begin + LOAD_ENTRIES, dispatch_count))
        damaged += bad
        entries = entries[entries["number"] < count]
        states[entries["number"]] = entries["what"]
        gone_on = entries[entries["what"] == State.MOVED]
        moved.update(zip(gone_on["number"].tolist(), gone_on["to_hour"].tolist(), strict=True))
    parts: list[NDArray[np.uint64]] = []
    for begin in range(0, count, LOAD_ENTRIES):
        end = min(begin + LOAD_ENTRIES, count)
        index = hour.schedule.read_index(begin, end)
        here = states[begin:end]
        bad_checks = index["check"] != checks_of(index)
        lost = bad_checks & ~_SETTLED[here]
        here[lost] = State.LOST
        lost_count += int(lost.sum())
        if not for_wheel:
            continue
        waiting = np.flatnonzero((here == State.PENDING) | (here == State.CLAIMED))
        within = (index["due"][waiting] - hour.begin_ms).astype(np.uint64)
        # Second of the hour, millisecond, number: sorted, each second is one stretch of slot keys.
        keys = (within // np.uint64(1000)) << np.uint64(NUMBER_BITS + 10)
        keys |= (within % np.uint64(1000)) << np.uint64(NUMBER_BITS)
        keys |= (waiting + begin).astype(np.uint64)
        parts.append(keys)
    seconds = _by_second(hour.begin_ms // 1000, parts) if for_wheel else []
    return Opened(count, bytearray(states.tobytes()), moved, seconds, lost_count, damaged)


def _by_second(first_second: int, parts: list[NDArray[np.uint64]]) -> list[tuple[int, "array[int]"]]:
    keys = np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)
    if not len(keys):
        return []
    keys.sort()
    shift = np.uint64(NUMBER_BITS + 10)
    of_second = keys >> shift
    present, begins = np.unique(of_second, return_index=True)
    ends = [*begins.tolist()[1:], len(keys)]
    keys &= (np.uint64(1) << shift) - np.uint64(1)
    found = []
    for second, begin, end in zip(present.tolist(), begins.tolist(), ends, strict=True):
        slot = array("Q")
        slot.frombytes(keys[begin:end].tobytes())
        found.append((first_second + int(second), slot))
    return found


def read_ids(hour: Hour, count: int) -> IdIndex:
    """Make the id index of an hour's first `count` messages; from any thread. Raises LogError."""
    digests = np.empty(count, dtype=np.uint32)
    for begin in range(0, count, LOAD_ENTRIES):
        end = min(begin + LOAD_ENTRIES, count)
        digests[begin:end] = hour.schedule.read_index(begin, end)["id"]
    order = np.argsort(digests, kind="stable").astype(np.uint32)
    return IdIndex(digests[order], order, count)
