"""Checks of an hour's files where they are: which of their entries and messages are damaged, or on pages that can't be read.

What is found is in whole entries and messages, so that another member's bytes can take their place. Where the disk can't read a
page, everything with bytes in it is damaged: it can be written only as a whole.
"""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from math import lcm

import numpy as np
from numpy.typing import NDArray

from delay_node.entry_checks import ENTRY_BYTES_MAX
from delay_node.hour import Hour, Hours
from delay_node.hour_reader import SLICE_BYTES
from delay_node.schedule_log import (
    DISPATCH,
    INDEX,
    INDEX_BYTES,
    EntryArray,
    checks_of,
    hour_name,
    hour_number,
    is_whole,
)
from qmq.errors import LogError
from qmq_node.log.append_file import AppendFile
from qmq_node.log.unreadable_pages import PAGE_BYTES

RANGE_BYTES = 12_288 * 64
"""Longest range of an index or a dispatch log that is repaired at a time, of whole pages and whole entries. Ranges of messages are
no longer, unless one message is."""
SEARCHED_ENTRIES = 4_096
"""Index entries that are read at a time to find the next one that is not damaged."""

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class HourFile:
    """A file of an hour."""

    hour: Hour
    name: str
    """As READ_COPY names it."""
    file: AppendFile
    entries: "np.dtype[np.void] | None"
    """What it consists of; None: messages."""

    @property
    def end(self) -> int:
        """Where its last whole entry ends."""
        size = self.entries.itemsize if self.entries is not None else 1
        return self.file.end // size * size


def index_of(hour: Hour) -> HourFile:
    """Return the index of an hour."""
    return HourFile(hour, f"schedule/{hour_name(hour.number)}.index", hour.schedule.index, INDEX)


def dispatch_of(hour: Hour) -> HourFile:
    """Return the dispatch log of an hour."""
    return HourFile(hour, f"dispatch/{hour_name(hour.number)}", hour.dispatch.file, DISPATCH)


def messages_of(hour: Hour) -> HourFile:
    """Return the file with the messages of an hour."""
    return HourFile(hour, f"schedule/{hour_name(hour.number)}.data", hour.schedule.data, None)


def files_of(hour: Hour) -> tuple[HourFile, HourFile, HourFile]:
    """Return the files of an hour; the index first, because messages are checked by it."""
    return index_of(hour), dispatch_of(hour), messages_of(hour)


def file_named(hours: Hours, name: str) -> HourFile | None:
    """Return the file with such a name; None: there is none. The name never becomes a part of a path."""
    number = hour_number(name.partition("/")[2].partition(".")[0])
    hour = hours.get(number) if number is not None else None
    return next((file for file in files_of(hour) if file.name == name), None) if hour is not None else None


# --- reading ---------------------------------------------------------------------------------------------------------


def read_pages(file: AppendFile, begin: int, end: int) -> tuple[bytes, list[Range]]:
    """Return bytes [begin, end), zeros for those on pages that can't be read, and these pages as ranges; from any thread."""
    try:
        return file.read(begin, end, is_check=True), []
    except LogError:
        pass
    pieces: list[bytes] = []
    unreadable: list[Range] = []
    at = begin
    while at < end:
        page = at // PAGE_BYTES * PAGE_BYTES
        stop = min(end, page + PAGE_BYTES)
        try:
            pieces.append(file.read(at, stop, is_check=True))
        except LogError:
            pieces.append(bytes(stop - at))
            unreadable.append((page, page + PAGE_BYTES))
        at = stop
    return b"".join(pieces), unreadable


def are_whole(entries: EntryArray) -> NDArray[np.bool_]:
    """Return which entries of an index or a dispatch log pass their check."""
    good: NDArray[np.bool_] = entries["check"] == checks_of(entries)
    return good


def place_messages(hour: Hour, begin: int, end: int) -> Iterator[tuple[NDArray[np.int64], EntryArray]]:
    """Yield the index entries that pass their check of messages with bytes in [begin, end) of the data file: their numbers, and the
    entries, in order and in slices."""
    index = index_of(hour)
    count = index.end // INDEX_BYTES
    number = _first_behind(index, begin, count)
    while number < count:
        stop = min(number + SEARCHED_ENTRIES, count)
        numbers, entries = _whole_entries(index, number, stop)
        places = entries["place"].astype(np.int64)
        inside = (places < end) & (places + entries["size"] > begin) & (entries["size"] <= ENTRY_BYTES_MAX)
        if inside.any():
            yield numbers[inside], entries[inside]
        if (places >= end).any():
            return
        number = stop


def _whole_entries(index: HourFile, first: int, end: int) -> tuple[NDArray[np.int64], EntryArray]:
    data, _ = read_pages(index.file, first * INDEX_BYTES, end * INDEX_BYTES)
    entries = np.frombuffer(data, dtype=INDEX)
    good = are_whole(entries)
    return np.arange(first, end, dtype=np.int64)[good], entries[good]


def _first_behind(index: HourFile, place: int, count: int) -> int:
    """Return the number of the first message that ends behind a place of the data file, `count` if none is known to do so."""
    low, high, found = 0, count, count
    while low < high:
        middle = at = (low + high) // 2
        numbers, entries = _whole_entries(index, at, at + 1)
        while not len(numbers) and at + 1 < high:
            stop = min(at + 1 + SEARCHED_ENTRIES, high)
            numbers, entries = _whole_entries(index, at + 1, stop)
            at = stop - 1
        if len(numbers) and int(entries["place"][0]) + int(entries["size"][0]) <= place:
            low = int(numbers[0]) + 1
        else:
            found = int(numbers[0]) if len(numbers) else found
            high = middle
    return found


# --- damage ----------------------------------------------------------------------------------------------------------


def damaged_ranges(file: HourFile, begin: int, end: int) -> Generator[None, None, list[Range]]:
    """Return what is damaged of what has bytes in [begin, end), as ranges that can be repaired one at a time. A job of
    `IoThreads.run`. Messages whose index entries are damaged are not known, and not checked."""
    found: list[Range] = []
    end = min(end, file.end)
    if file.entries is not None:
        size = file.entries.itemsize
        # Blocks of whole pages and whole entries.
        block = lcm(size, PAGE_BYTES)
        step = SLICE_BYTES // block * block
        for at in range(begin // block * block, end, step):
            found += _damaged_entries(file, at, min(at + step, file.end, -(-end // block) * block), size, block)
            yield
        return list(_cut(merged(found), RANGE_BYTES))
    return (yield from _damaged_messages(file, begin, end))


def _damaged_entries(file: HourFile, begin: int, end: int, size: int, block: int) -> Iterator[Range]:
    data, unreadable = read_pages(file.file, begin, end)
    bad = np.flatnonzero(~are_whole(np.frombuffer(data, dtype=file.entries)))
    yield from ((begin + number * size, begin + (number + 1) * size) for number in bad.tolist())
    yield from ((at // block * block, min(-(-stop // block) * block, file.end)) for at, stop in unreadable)


def _damaged_messages(file: HourFile, begin: int, end: int) -> Generator[None, None, list[Range]]:
    while True:
        bad: list[Range] = []
        unreadable: dict[int, None] = {}
        for _, entries in place_messages(file.hour, begin, end):
            places = entries["place"].astype(np.int64).tolist()
            ends = [place + size for place, size in zip(places, entries["size"].tolist(), strict=True)]
            for first, last in _slices(places, ends):
                bad += _bad_messages(file, places[first:last], ends[first:last], unreadable)
                yield
        # A page that can't be read is written as a whole, with all messages that have bytes in it.
        first_place = min((*(place for place, _ in bad), *(page * PAGE_BYTES for page in unreadable)), default=begin)
        last_end = max((*(stop for _, stop in bad), *((page + 1) * PAGE_BYTES for page in unreadable)), default=end)
        if (begin <= first_place and min(last_end, file.end) <= end) or end - begin >= 2 * RANGE_BYTES:
            break
        more = end - begin
        begin, end = max(0, min(begin, first_place - more)), min(max(end, last_end + more), file.end)
    ranges: list[Range] = []
    for place, stop in bad:
        before = ranges[-1] if ranges else (0, -1)
        if before[1] == place and stop - before[0] <= RANGE_BYTES:
            ranges[-1] = (before[0], stop)
        else:
            ranges.append((place, stop))
    return ranges


def _slices(places: list[int], ends: list[int]) -> Iterator[Range]:
    """Yield which messages are read at a time."""
    first = 0
    for number in range(1, len(places) + 1):
        if number == len(places) or ends[number] - places[first] > SLICE_BYTES:
            yield first, number
            first = number


def _bad_messages(file: HourFile, places: list[int], ends: list[int], unreadable: dict[int, None]) -> Iterator[Range]:
    begin = min(places)
    data, pages = read_pages(file.file, begin, min(max(ends), file.end))
    unreadable.update((at // PAGE_BYTES, None) for at, _ in pages)
    view = memoryview(data)
    for place, end in zip(places, ends, strict=True):
        is_lost = unreadable and any(
            page in unreadable for page in range(place // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1)
        )
        if end <= file.end and (is_lost or not is_whole(view[place - begin : end - begin])):
            yield place, end


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Return ranges without those that touch another one, in order."""
    found: list[Range] = []
    for begin, end in sorted(ranges):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def _cut(ranges: Iterable[Range], size: int) -> Iterator[Range]:
    """Yield ranges, cut at multiples of a size."""
    for begin, end in ranges:
        while begin < end:
            stop = min(end, (begin // size + 1) * size)
            yield begin, stop
            begin = stop
