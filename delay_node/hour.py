"""class Hour: what a node keeps of one hour of due time; class Hours: all of them, and what the next checkpoint has to write.

An hour at rest is a handful of counters. It is *open* when the state of each of its messages is in memory (a byte each): always
when it is loaded into the wheel, otherwise while a query or change uses it, and after that while there is room (`open_hours.py`).
"""

import asyncio
import threading
from array import array
from bisect import bisect_left, insort
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from delay_node.records import HOUR_MS
from delay_node.schedule_log import DISPATCH_BYTES, INDEX_BYTES, DispatchLog, ScheduleLog, hour_name
from qmq_node.log.append_file import AppendFile
from qmq_node.log.handles import HandleCache


@dataclass(slots=True)
class IdIndex:
    """Where message ids are: digests of the first messages, sorted, with their numbers; those of later messages in `tail`."""

    digests: NDArray[np.uint32]
    numbers: NDArray[np.uint32]
    count: int
    tail: "array[int]" = field(default_factory=lambda: array("I"))

    def find(self, digest: int) -> list[int]:
        """Return the numbers of messages whose id has this digest."""
        wanted = np.uint32(digest)
        low = int(np.searchsorted(self.digests, wanted, "left"))
        high = int(np.searchsorted(self.digests, wanted, "right"))
        found = sorted(self.numbers[low:high].tolist())
        if self.tail:
            tail = np.frombuffer(self.tail.tobytes(), dtype=np.uint32)
            found += (np.flatnonzero(tail == wanted) + self.count).tolist()
        return found


@dataclass(eq=False, slots=True)
class Hour:
    number: int
    schedule: ScheduleLog
    dispatch: DispatchLog
    gone: int = 0
    refused: int = 0
    lost: int = 0
    begins_at: int = 0
    """The log offset of its first record, by which two uses of an hour differ. The same on all members."""
    is_near: bool = False
    """Whether its messages are in the wheel, or being loaded into it."""
    states: bytearray | None = None
    """None while the hour is not open."""
    moved: dict[int, int] = field(default_factory=dict)
    """Number of a rescheduled message -> the hour it was moved to."""
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while its states are read."""
    users: int = 0
    """Queries and changes that use it now: it stays open for them."""
    undecided: int = 0
    """Decisions that are in `states` alone, because their records are not synced."""
    ids: IdIndex | None = None
    making_ids: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    def of_files(
        cls,
        handles: HandleCache,
        root: str,
        number: int,
        count: int = 0,
        data_end: int = 0,
        dispatch_count: int = 0,
        gone: int = 0,
        refused: int = 0,
        lost: int = 0,
        begins_at: int = 0,
    ) -> "Hour":
        """Return an hour at rest, of which so much of its files counts."""
        name = hour_name(number)
        data = AppendFile(handles, lambda: f"{root}/schedule/{name}.data", data_end)
        index = AppendFile(handles, lambda: f"{root}/schedule/{name}.index", count * INDEX_BYTES)
        dispatch = AppendFile(handles, lambda: f"{root}/dispatch/{name}", dispatch_count * DISPATCH_BYTES)
        return cls(number, ScheduleLog(data, index), DispatchLog(dispatch), gone, refused, lost, begins_at)

    @property
    def begin_ms(self) -> int:
        return self.number * HOUR_MS

    @property
    def end_ms(self) -> int:
        return (self.number + 1) * HOUR_MS

    @property
    def pending(self) -> int:
        """Messages that may still be delivered, without the held ones."""
        return self.schedule.count - self.gone - self.refused - self.lost

    @property
    def is_complete(self) -> bool:
        """Whether it has no message that anything can still happen to."""
        return not (self.pending or self.refused or self.undecided) and self.schedule.next_number == self.schedule.count

    @property
    def files(self) -> tuple[AppendFile, AppendFile, AppendFile]:
        return self.schedule.data, self.schedule.index, self.dispatch.file

    @property
    def memory_bytes(self) -> int:
        """Memory of states and ids."""
        ids = 0 if self.ids is None else 8 * self.ids.count + 4 * len(self.ids.tail)
        return len(self.states or b"") + ids

    def close(self) -> None:
        """Free what opening brought into memory; not of an hour in the wheel."""
        self.states = self.ids = None
        self.moved = {}


class Hours(dict[int, Hour]):
    """Hours by number (hours since 1970, UTC)."""

    def __init__(self, root: str, handles: HandleCache) -> None:
        super().__init__()
        self.root = root
        self.handles = handles
        self.order: list[int] = []
        """Numbers of the hours, ascending: near and past hours are found without a look at years of hours."""
        self.dirty: dict[Hour, None] = {}
        """Hours with something that no checkpoint contains."""
        self.ended: list[Hour] = []
        """Hours that were forgotten: the next checkpoint leaves them out, and the one after that removes their files."""
        self.writing = threading.Lock()
        """Held while bytes of a file are written or a file is removed: a checkpoint does so in one thread, a repair in another."""
        self.unwritten_bytes = 0
        """Bytes of schedule and dispatch logs in memory only."""

    def make(self, number: int, *counters: int) -> Hour:
        """Return the hour, created as by `Hour.of_files` when it is new."""
        hour = self.get(number)
        if hour is None:
            hour = self[number] = Hour.of_files(self.handles, self.root, number, *counters)
            insort(self.order, number)
        return hour

    def forget(self, hour: Hour) -> None:
        """Remove an hour. Its files stay until checkpoints remove them."""
        del self[hour.number]
        del self.order[bisect_left(self.order, hour.number)]
        hour.close()

    def between(self, from_ms: int, to_ms: int) -> list[int]:
        """Return the numbers of the hours with due times in [from_ms, to_ms), ascending."""
        begin, end = (bisect_left(self.order, number) for number in (from_ms // HOUR_MS, -(-to_ms // HOUR_MS)))
        return self.order[begin:end]

    def before(self, moment_ms: int) -> list[Hour]:
        """Return the hours that begin before a time, oldest first."""
        return [self[number] for number in self.order[: bisect_left(self.order, -(-moment_ms // HOUR_MS))]]

    @property
    def memory_bytes(self) -> int:
        """Memory of the open hours' states and ids."""
        return sum(hour.memory_bytes for hour in self.values() if hour.states is not None)
