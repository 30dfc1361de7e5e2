"""The files of a dense index: a folder of files of `segment_entries` entries each, named by their first sequence."""

import logging
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from qmq.errors import LogError
from qmq_node.log.disk import Buffer, Disk
from qmq_node.log.handles import HandleCache
from qmq_node.log.unreadable_pages import PAGE_BYTES, is_read_error
from qmq_node.log.whole_pages import end_file, write_whole_pages

logger = logging.getLogger("qmq_node.log.index")

SEGMENT_ENTRIES = 1 << 20
_NAME_DIGITS = 20


def _path(folder: str, first: int) -> str:
    return f"{folder}/{first:0{_NAME_DIGITS}d}"


def firsts_in(disk: Disk, folder: str) -> list[int]:
    """The first sequences of the index files in a folder, ascending; those of other processes too."""
    return [int(name) for name in disk.list_dir(folder) if len(name) == _NAME_DIGITS and name.isdigit()]


def delete_files(handles: HandleCache, folder: str, firsts: Iterable[int]) -> None:
    """Delete index files by their first sequences; those that are gone already are passed over. Raises OSError."""
    for path in (_path(folder, first) for first in firsts):
        handles.drop(path)
        with suppress(FileNotFoundError):
            handles.disk.remove(path)


def _read_file(handles: HandleCache, path: str, size: int, offset: int, may_wait: bool) -> bytes:
    """Bytes of a file, zeros in place of pages that the disk can't read.

    With `may_wait` each page is read alone after an error. Without it, one read error is as long as the caller is held up: all
    pages that the failed read covers are zeros until a caller that may wait has read them, or they are due again.
    """
    unreadable, file, end = handles.unreadable, handles.get(path), offset + size
    if not unreadable or not unreadable.has_any(path, pages_of(offset, end)):
        try:
            return file.pread(size, offset)
        except OSError as error:
            if not is_read_error(error):
                raise
            if not may_wait:
                unreadable.add(path, pages_of(offset, end), error, is_checked=False)
                return b""
    pages, data = pages_of(offset, end), bytearray(size)
    for page in pages:
        if unreadable.is_skipped(path, page, may_wait=may_wait):
            continue
        begin, stop = max(offset, page * PAGE_BYTES), min(end, (page + 1) * PAGE_BYTES)
        try:
            part = file.pread(stop - begin, begin)
        except OSError as error:
            if not is_read_error(error):
                raise
            if not may_wait:
                unreadable.add(path, range(page, pages.stop), error, is_checked=False)
                break
            unreadable.add(path, range(page, page + 1), error, is_checked=True)
            continue
        unreadable.remove(path, page)
        data[begin - offset : begin - offset + len(part)] = part
    return bytes(data)


def pages_of(begin: int, end: int) -> range:
    """The pages of a file that hold bytes [begin, end)."""
    return range(begin // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1)


@dataclass(frozen=True, slots=True)
class RewrittenPage:
    """A page of an index file that was unreadable and was written whole. The checks of its entries show whether they are right."""

    _handles: HandleCache
    path: str
    page: int
    delay_seconds: float

    def sync_and_read_back(self) -> None:
        """Make the page durable and read it from the disk, if its file exists; from a thread that may wait. Raises OSError."""
        try:
            file = self._handles.get(self.path)
        except FileNotFoundError:
            return
        offset = self.page * PAGE_BYTES
        try:
            file.datasync()
        finally:
            # Also after an error: what could not be written must not be treated as stored because memory still holds it.
            file.drop_cached(offset, PAGE_BYTES)
        file.pread(PAGE_BYTES, offset)

    def withhold(self, error: Exception) -> None:
        """The page is not durable: treat it as unreadable until the next attempt."""
        self._handles.unreadable.withhold(self.path, self.page, self.delay_seconds, error)


@dataclass(eq=False, repr=False, slots=True)
class IndexFiles:
    """The files of one index: which there are, and writing them. Entries in memory are `DenseIndex`'s."""

    _handles: HandleCache
    folder: str
    """Where its files are; no other index uses it at the same time."""
    entry_bytes: int
    _segment_entries: int
    firsts: list[int] = field(default_factory=list, init=False)
    """The first sequences of its files, ascending; the first file's may be below `begin`."""

    def _path(self, first: int) -> str:
        return _path(self.folder, first)

    def read_files(self, segments: Sequence[tuple[int, int]], begin: int, stop: int, *, may_wait: bool) -> list[bytes]:
        """Entries [begin, stop), all of them in files; `segments` are (first, end) of those, ascending. For any thread.

        Raises LogError when a file can't be opened or read, for another reason than unreadable pages.
        """
        parts, size = [], self.entry_bytes
        for first, end in segments:
            at, until = max(begin, first), min(stop, end)
            if at >= until:
                continue
            wanted = (until - at) * size
            try:
                data = _read_file(self._handles, self._path(first), wanted, (at - first) * size, may_wait)
            except OSError as error:
                raise LogError(f"index {self.folder}: {error}", code="log.index_unreadable") from error
            # A file that was cut reads as zeros: such entries fail their check and are made again from the log.
            parts.append(data.ljust(wanted, b"\0"))
        return parts

    def _segments_of(self, begin: int, end: int) -> list[tuple[int, int]]:
        """(first, end) of the files that hold entries [begin, end)."""
        found = []
        while begin < end:
            first = self._first_of(begin)
            found.append((first, self._end_of(first)))
            begin = found[-1][1]
        return found

    def _first_of(self, sequence: int) -> int:
        return self.firsts[bisect_right(self.firsts, sequence) - 1]

    def _end_of(self, first: int) -> int:
        """The sequence behind the last that a file may hold: the next file's first, or its full size."""
        place = self.firsts.index(first)
        return self.firsts[place + 1] if place + 1 < len(self.firsts) else first + self._segment_entries

    def _place(self, sequence: int) -> tuple[str, int]:
        """The file of an entry that is in one, and the offset there."""
        first = self._first_of(sequence)
        return self._path(first), (sequence - first) * self.entry_bytes

    def _write_entries(self, sequence: int, data: Buffer) -> None:
        """Write entries from `sequence` on, which is where the files end. Raises OSError."""
        size = self.entry_bytes
        while data:
            if not self.firsts or sequence >= self.firsts[-1] + self._segment_entries:
                self._create(sequence)
            first = self._first_of(sequence)
            count = min(len(data) // size, self._end_of(first) - sequence)
            path, offset, part = self._path(first), (sequence - first) * size, data[: count * size]
            try:
                self._handles.get(path).pwritev([part], offset)
            except OSError as error:
                self._end_unreadable_page(path, part, offset, error)
            self._handles.unsynced.add(path)
            sequence, data = sequence + count, data[count * size :]

    def _create(self, first: int) -> None:
        """Add a file. Files from there on are of a process that died before a checkpoint counted on them: they are deleted."""
        self._handles.disk.add_dir(self.folder)
        known = firsts_in(self._handles.disk, self.folder)
        delete_files(self._handles, self.folder, [other for other in known if other >= first])
        self._handles.get(self._path(first), create=True)
        self.firsts.append(first)

    def _write_pages(self, path: str, data: bytes, offset: int) -> None:
        """As `write_whole_pages`. The next start cuts off zeros behind the last entry."""
        write_whole_pages(self._handles.get(path), [data], offset)
        self._pages_written(path, offset, offset + len(data))

    def _pages_written(self, path: str, begin: int, end: int) -> None:
        for page in pages_of(begin, end):
            self._handles.unreadable.remove(path, page)
        self._handles.unsynced.add(path)

    def _end_unreadable_page(self, path: str, data: Buffer, offset: int, error: OSError) -> None:
        """End the file with `data` at `offset`, after an error of doing so because the kernel can't read the rest of that page.

        The page's other entries become zeros: they fail their checks, as they did unreadable. Raises OSError: `error` if the
        page can be read, or the error of writing.
        """
        lost = end_file(self._handles.get(path), [data], offset, error)
        self._pages_written(path, offset - lost, offset + len(data))
        logger.error(
            "index %s: page %d is unreadable; it was rewritten, and its entries are to be repaired",
            path,
            offset // PAGE_BYTES,
        )

    def _truncate_files(self, end: int) -> None:
        """Delete files that begin at or behind `end`, and cut the one before there."""
        self._remove([first for first in self.firsts if first >= end])
        if self.firsts:
            path, size = self._path(self.firsts[-1]), (end - self.firsts[-1]) * self.entry_bytes
            try:
                self._handles.get(path).truncate(size)
            except OSError as error:
                self._end_unreadable_page(path, b"", size, error)
            self._handles.unreadable.forget(path)
            self._handles.unsynced.add(path)

    def _rename(self, by: int) -> None:
        """Add `by` to the first sequence of each file. Raises OSError: some have their new names."""
        # The last one first, so that no name is in use.
        for place, first in reversed(list(enumerate(self.firsts))):
            old, new = self._path(first), self._path(first + by)
            self._handles.drop(old)
            self._handles.disk.rename(old, new)
            self._handles.unsynced.add(new)
            self.firsts[place] = first + by

    def _remove(self, firsts: list[int]) -> None:
        for first in firsts:
            delete_files(self._handles, self.folder, [first])
            self.firsts.remove(first)
