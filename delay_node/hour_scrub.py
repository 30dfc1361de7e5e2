"""The files of hours as data that is read again: what is in the files of each hour, by its number."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

from delay_node.entry_checks import Check, EntryCheck, Found, MessageCheck
from delay_node.hour import Hour, Hours
from delay_node.schedule_log import DISPATCH, INDEX, INDEX_BYTES
from qmq_node.log.append_file import AppendFile
from qmq_node.log.disk import Disk
from qmq_node.log.uncached import UncachedFile
from qmq_node.repair import scrub
from qmq_node.repair.ranges import DamagedRange

PIECE_BYTES = 1 << 20
"""Read of a file at a time, unless a message is larger."""


@dataclass(frozen=True, slots=True)
class _Part:
    """The bytes of a file that are written; what is in memory only is written by a checkpoint."""

    path: str
    bytes: int

    @classmethod
    def of(cls, file: AppendFile) -> "_Part":
        return cls(file.path(), file.written_end)


class _ReadableFile:
    """A file with zeros in place of what the disk can't read: entries and messages there fail their checks."""

    def __init__(self, file: UncachedFile) -> None:
        self._file = file
        self.is_readable = True
        """Whether all reads since this was set succeeded."""

    def pread(self, size: int, offset: int) -> bytes:
        data, is_readable = self._file.pread_readable(size, offset)
        self.is_readable = self.is_readable and is_readable
        return data


class ScrubbedHour:
    """As `qmq_node.repair.scrub.Unit`. Only what is counted when it is made is read: the files may grow."""

    def __init__(self, hours: Hours, hour: Hour, disk: Disk) -> None:
        self._hours, self._hour, self._disk = hours, hour, disk
        self._data, self._index, self._dispatch = map(_Part.of, hour.files)

    @property
    def key(self) -> int:
        return self._hour.number

    def is_current(self) -> bool:
        # It may have ended, and begun again with other files of the same names.
        return self._hours.get(self._hour.number) is self._hour

    def steps(self) -> Iterator[scrub.Step]:
        yield from self._read(self._index, EntryCheck(INDEX))
        yield from self._read(self._dispatch, EntryCheck(DISPATCH))
        if self._data.bytes:
            with closing(UncachedFile.open(self._disk, self._index.path)) as index:
                count = self._index.bytes // INDEX_BYTES
                yield from self._read(self._data, MessageCheck(_ReadableFile(index), count, self._data.bytes))

    def _read(self, part: _Part, check: Check) -> Iterator[scrub.Step]:
        if not part.bytes:
            return
        try:
            opened = UncachedFile.open(self._disk, part.path)
        except FileNotFoundError:
            yield scrub.Step(part.bytes, [self._damaged(part, 0, part.bytes, "the file is missing", is_readable=True)])
            return
        with closing(opened):
            file, at, window = _ReadableFile(opened), 0, b""
            while (begin := at + len(window)) < part.bytes:
                piece = file.pread(min(PIECE_BYTES, part.bytes - begin), begin)
                window += piece
                found = check.check(at, window)
                if found.damaged:
                    # A repair may have been writing it.
                    file.is_readable = True
                    again = file.pread(found.last - found.first, found.first)
                    window = window[: found.first - at] + again + window[found.last - at :]
                    found = check.check(at, window)
                window, at = window[found.end - at :], found.end
                yield scrub.Step(len(piece), self._found(part, found, is_readable=file.is_readable))

    def _found(self, part: _Part, found: Found, *, is_readable: bool) -> list[scrub.Found]:
        if not found.damaged:
            return []
        why = f"{found.damaged} entries fail their check" if is_readable else "the disk can't read it"
        return [self._damaged(part, found.first, found.last, why, is_readable=is_readable)]

    def _damaged(self, part: _Part, begin: int, end: int, why: str, *, is_readable: bool) -> scrub.Found:
        name = part.path.removeprefix(f"{self._hours.root}/")
        return scrub.Found(DamagedRange(name, self._hour.begins_at, begin, end, why), is_readable)


class ScrubbedHours:
    """As `qmq_node.repair.scrub.Scrubbed`.

    Args:
        hours: returns the hours of the open store.
    """

    kind = "hours"

    def __init__(self, disk: Disk, hours: Callable[[], Hours]) -> None:
        self._disk, self._hours = disk, hours

    def next_unit(self, key: int) -> ScrubbedHour | None:
        hours = self._hours()
        at = bisect_left(hours.order, key)
        return ScrubbedHour(hours, hours[hours.order[at]], self._disk) if at < len(hours.order) else None

    def bytes_from(self, key: int) -> int:
        hours = self._hours()
        numbers = hours.order[bisect_left(hours.order, key) :]
        return sum(file.written_end for number in numbers for file in hours[number].files)
