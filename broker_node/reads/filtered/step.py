"""One bounded step of a search with a filter, over the files of a log and an index. For any thread, or another process.

Messages are read many at a time, in the order of the log or against it. All that are read are checked; what fails its check is
named, and the caller reads it again, repairs it or reports it. Messages that their index entries rule out are not read.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from broker_node.reads.filtered.job import Job, Result
from broker_node.storage.consume_log import CHECKED_FIELDS, ENTRY_BYTES, entry_at, entry_fields
from qmq.checksum import crc32
from qmq.clock import Clock
from qmq.errors import LogError, ProtocolError
from qmq.protocol.frames import MESSAGE_BYTES_MAX
from qmq.protocol.raw import RawView
from qmq_node.filters import Content, Filter, TooCostly, compile_filter
from qmq_node.filters.content import MASKED
from qmq_node.filters.needs import Need, Spans, by_bytes, by_index
from qmq_node.filters.tree_needs import needs_of
from qmq_node.log.disk import Disk
from qmq_node.log.handles import HandleCache
from qmq_node.log.segment import Segments

CHUNK_ENTRIES = 4_096
"""Index entries that are read at a time."""
SPAN_BYTES_MAX = 4 << 20
"""Bytes of the log that are read at a time; a larger message is read alone."""
GAP_BYTES_MAX = 16 << 10
"""Messages with less between them are read together: copying so much takes as long as another read."""
UNREADABLE_MAX = 100
"""A step ends when this number of messages failed their checks."""
COSTLY_MAX = 100
"""A step ends when the filter took more than it may for this number of messages."""
CHECK_MESSAGES = 64
"""Messages that are evaluated before the time is checked again; where they are masked before, one."""
_ENTRY = np.dtype(
    {
        "names": ["offset", "size", "time"],
        "formats": [">i8", ">u4", ">i8"],
        "offsets": [0, 8, 12],
        "itemsize": ENTRY_BYTES,
    }
)


@lru_cache(maxsize=4)
def _compiled(text: str, now_ms: int) -> tuple[Filter, Need]:
    found = compile_filter(text, now_ms)
    return found, needs_of(found.tree, found.now)


def run(disk: Disk, clock: Clock, job: Job) -> Result:
    """Do the step. Raises LogError, OSError when files are gone or can't be opened."""
    return _Step(disk, clock, job).run()


class _Step:
    def __init__(self, disk: Disk, clock: Clock, job: Job) -> None:
        self._job = job
        self._clock = clock
        self._view = job.index.open(HandleCache(disk))
        self._segments = Segments(disk, job.log_folder)
        self._bases = np.array([info.base for info in self._segments.infos()], dtype=np.int64)
        self._filter, self._need = _compiled(job.text, job.now_ms)
        # The bytes contain what is masked, not what is decoded: which are evaluated may depend on nothing that masks can change.
        self._is_raw_searched = job.masks.is_identity or not self._filter.names & MASKED
        self._check_messages = CHECK_MESSAGES if self._is_raw_searched else 1
        self._until = clock.monotonic() + job.seconds
        self._result = Result(job.end if job.newest_first else job.begin)
        self._is_full = False
        self._has_searched = False

    def run(self) -> Result:
        job, result = self._job, self._result
        while not self._is_full and job.begin < job.end:
            if job.newest_first:
                first, stop = max(job.begin, result.reached - CHUNK_ENTRIES), result.reached
            else:
                first, stop = result.reached, min(job.end, result.reached + CHUNK_ENTRIES)
            if first >= stop:
                break
            self._chunk(first, stop)
            if not self._is_full:
                result.reached = first if job.newest_first else stop
        return result

    def _chunk(self, first: int, stop: int) -> None:
        index_bytes = self._view.read(first, stop)
        entries = np.frombuffer(index_bytes, dtype=_ENTRY)
        if len(entries) < stop - first:
            raise LogError(f"index entries [{first}, {stop}) are not there", code="log.index_unreadable")
        offsets, sizes = entries["offset"].astype(np.int64), entries["size"].astype(np.int64)
        # Without a size there is nothing to read: it is withheld, or its index page is unreadable.
        is_placed = (sizes > 0) & (sizes <= MESSAGE_BYTES_MAX) & (offsets >= 0)
        chosen = np.flatnonzero(by_index(self._need, sizes, entries["time"]) | ~is_placed)
        for part in self._parts(chosen, offsets, sizes, is_placed):
            # Each step comes further, however little of the processor it gets.
            if self._has_searched and self._clock.monotonic() >= self._until:
                self._stop_before(first + int(part[-1 if self._job.newest_first else 0]))
                return
            self._has_searched = True
            if is_placed[part[0]]:
                self._span(first, index_bytes, part, offsets[part], sizes[part], entries["time"][part])
            else:
                for place in part:
                    self._add_unreadable(first + int(place))
            if self._is_full:
                return

    def _parts(self, chosen: Any, offsets: Any, sizes: Any, is_placed: Any) -> Iterator[Any]:
        """Yield the places of entries whose messages are read together, in the order of the search."""
        if not len(chosen):
            return
        begins = offsets[chosen]
        ends = begins + sizes[chosen]
        gaps = begins[1:] - ends[:-1]
        segments = np.searchsorted(self._bases, begins, side="right")
        is_cut = (gaps < 0) | (gaps > GAP_BYTES_MAX) | (segments[1:] != segments[:-1])
        is_cut |= ~(is_placed[chosen[1:]] & is_placed[chosen[:-1]])
        parts, at = [], 0
        for cut in [*(np.flatnonzero(is_cut) + 1).tolist(), len(chosen)]:
            while at < cut:
                fitting = at + int(np.searchsorted(ends[at:cut], begins[at] + SPAN_BYTES_MAX, side="right"))
                stop = max(at + 1, fitting)
                parts.append(chosen[at:stop])
                at = stop
        yield from reversed(parts) if self._job.newest_first else parts

    def _span(self, first: int, index_bytes: bytes, places: Any, offsets: Any, sizes: Any, times: Any) -> None:
        begin, size = int(offsets[0]), int(offsets[-1] + sizes[-1] - offsets[0])
        begins = offsets - begin
        ends = begins + sizes
        try:
            file, at = self._segments.locate(begin, size)
            data = file.pread(size, at)
        except (LogError, OSError):
            data = b""
        view = memoryview(data)
        raws = [view[a:b] for a, b in zip(begins.tolist(), ends.tolist(), strict=True)]
        entries = b"".join(entry_at(index_bytes, place) for place in places.tolist())
        checked = entry_fields(CHECKED_FIELDS, entries)
        is_whole = np.fromiter(map(crc32, checked[::2], map(crc32, raws)), np.int64, len(raws)) == checked[1::2]
        if len(data) < size:
            is_whole &= ends <= len(data)
        mask = by_bytes(self._need, Spans(data, begins, ends)) if self._is_raw_searched else None
        order = range(len(raws)) if mask is None else np.flatnonzero(mask | ~is_whole).tolist()
        self._evaluate(first, places.tolist(), order, is_whole, raws, entries, times)

    def _evaluate(
        self,
        first: int,
        places: list[int],
        order: Sequence[int],
        is_whole: Any,
        raws: list[memoryview],
        entries: bytes,
        times: Any,
    ) -> None:
        job, result = self._job, self._result
        for count, i in enumerate(reversed(order) if job.newest_first else order, 1):
            sequence = first + places[i]
            if not is_whole[i]:
                self._add_unreadable(sequence)
            elif self._matches(sequence, raws[i], int(times[i])):
                size = len(raws[i])
                if result.found and result.found_bytes + size > job.bytes_max:
                    self._stop_before(sequence)
                    return
                result.found.append((sequence, entry_at(entries, i), bytes(raws[i])))
                result.found_bytes += size
            is_done = len(result.found) >= job.limit or result.costly >= COSTLY_MAX
            if is_done or (count % self._check_messages == 0 and self._clock.monotonic() >= self._until):
                self._stop_after(sequence)
            if self._is_full:
                return

    def _matches(self, sequence: int, raw: memoryview, stored_at_ms: int) -> bool:
        try:
            content = Content(sequence, RawView(bytes(raw)), len(raw), stored_at_ms, self._job.masks)
            return self._filter.matches(content)
        except TooCostly:
            self._result.costly += 1
        except ProtocolError:
            # Its check is right, so it was stored like this: no repair makes it another.
            return False
        return False

    def _add_unreadable(self, sequence: int) -> None:
        self._result.unreadable.append(sequence)
        if len(self._result.unreadable) >= UNREADABLE_MAX:
            self._stop_after(sequence)

    def _stop_after(self, sequence: int) -> None:
        self._result.reached = sequence if self._job.newest_first else sequence + 1
        self._is_full = True

    def _stop_before(self, sequence: int) -> None:
        self._result.reached = sequence + 1 if self._job.newest_first else sequence
        self._is_full = True
