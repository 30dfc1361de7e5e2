"""DenseIndex: fixed-size entries, entry n at n x size. Derived from a log, never the truth.

An index is a folder of files of `segment_entries` entries each, named by their first sequence. New entries gather in memory
and are written when somebody says `flush`; `sync` makes them durable. An index at rest holds no file handle: handles come
from a cache that all indexes share.
"""

import logging
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.errors import LogError
from qmq.log.disk import Disk, File
from qmq.log.unreadable_pages import PAGE_BYTES, UnreadablePages, is_read_error

logger = logging.getLogger("qmq.log.index")

SEGMENT_ENTRIES = 1 << 20
OPEN_FILES_MAX = 256
"""Index files open at a time, over all indexes of a node."""
_NAME_DIGITS = 20
SYNC_ONE_BY_ONE_MAX = 500
"""Above this many files the whole file system is synced at once: a sync of one small file costs 0.5 ms."""


class HandleCache:
    """Open files by path, the longest unused dropped first. A dropped file is closed by its last user. For any thread.

    Files are opened outside the lock: a slow open of one file holds up no use of another.
    """

    def __init__(self, disk: Disk, open_files_max: int = OPEN_FILES_MAX, clock: Clock = SYSTEM_CLOCK) -> None:
        self.unreadable = UnreadablePages(clock)
        self._disk = disk
        self._most = open_files_max
        self._open: OrderedDict[str, File] = OrderedDict()
        self._drops = 0
        """Calls of `drop` so far: a file opened before one may be the one that was removed, and is not kept."""
        self._lock = threading.Lock()

    def get(self, path: str, *, create: bool = False) -> File:
        """The file, opened when it is not. Raises OSError."""
        with self._lock:
            file = self._open.get(path)
            if file is not None:
                self._open.move_to_end(path)
                return file
            drops = self._drops
        file = self._open_file(path, create)
        with self._lock:
            if self._drops != drops:
                return file
            kept = self._open.setdefault(path, file)
            if len(self._open) > self._most:
                self._open.popitem(last=False)
            return kept

    def opened(self, path: str) -> File | None:
        """The file if it is open; never waits for the disk."""
        with self._lock:
            file = self._open.get(path)
            if file is not None:
                self._open.move_to_end(path)
            return file

    def _open_file(self, path: str, create: bool) -> File:
        try:
            return self._disk.open(path, writable=True)
        except FileNotFoundError:
            if not create:
                raise
        try:
            return self._disk.create(path, 0)
        except FileExistsError:
            # Another thread made it in between.
            return self._disk.open(path, writable=True)

    def drop(self, path: str) -> None:
        """Let go of a file that is about to be removed."""
        with self._lock:
            self._drops += 1
            self._open.pop(path, None)
        self.unreadable.forget(path)


def _read_files(
    handles: HandleCache,
    folder: str,
    entry_bytes: int,
    segments: Sequence[tuple[int, int]],
    begin: int,
    stop: int,
    *,
    may_wait: bool,
) -> list[bytes]:
    """Entries [begin, stop), all of them in files; `segments` are (first, end) of those, ascending.

    Raises:
        LogError: a file can't be opened or read, for another reason than unreadable pages.
    """
    parts = []
    for first, end in segments:
        at, until = max(begin, first), min(stop, end)
        if at >= until:
            continue
        wanted = (until - at) * entry_bytes
        try:
            data = _read_file(handles, _path(folder, first), wanted, (at - first) * entry_bytes, may_wait)
        except OSError as error:
            raise LogError(f"index {folder}: {error}", code="log.index_unreadable") from error
        # A file that was cut reads as zeros: such entries fail their check and are made again from the log.
        parts.append(data.ljust(wanted, b"\0"))
    return parts


def _read_file(handles: HandleCache, path: str, size: int, offset: int, may_wait: bool) -> bytes:
    """Bytes of a file, zeros in place of pages that the disk can't read.

    With `may_wait` each page is read alone after an error. Without it, one read error is as long as the caller is held up: all
    pages that the failed read covers are zeros until a caller that may wait has read them, or they are due again.
    """
    unreadable, file, end = handles.unreadable, handles.get(path), offset + size
    if not unreadable or not unreadable.has_any(path, _pages(offset, end)):
        try:
            return file.pread(size, offset)
        except OSError as error:
            if not is_read_error(error):
                raise
            if not may_wait:
                unreadable.add(path, _pages(offset, end), error, is_checked=False)
                return b""
    pages, data = _pages(offset, end), bytearray(size)
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


def _pages(begin: int, end: int) -> range:
    """The pages of a file that hold bytes [begin, end)."""
    return range(begin // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1)


@dataclass(frozen=True, slots=True)
class RewrittenPage:
    """A page of an index file that was unreadable and was written whole. The checks of its entries show whether they are right."""

    path: str
    page: int
    delay_seconds: float

    def sync_and_read_back(self, handles: HandleCache) -> None:
        """Make the page durable and read it from the disk; from a thread that may wait. Nothing when its file was removed.

        Raises:
            OSError: the disk could not write or read it.
        """
        try:
            file = handles.get(self.path)
        except FileNotFoundError:
            return
        offset = self.page * PAGE_BYTES
        try:
            file.datasync()
        finally:
            # Also after an error: what could not be written must not be taken for stored because memory still holds it.
            file.drop_cached(offset, PAGE_BYTES)
        file.pread(PAGE_BYTES, offset)

    def withhold(self, handles: HandleCache, error: Exception) -> None:
        """The page is not durable: treat it as unreadable until the next attempt."""
        handles.unreadable.withhold(self.path, self.page, self.delay_seconds, error)


def _path(folder: str, first: int) -> str:
    return f"{folder}/{first:0{_NAME_DIGITS}d}"


class IndexView:
    """An index as it was at one moment, to be read from any thread while the index goes on.

    Files that the index drops meanwhile can't be read any more: who reads compares with its `begin` afterwards.
    """

    __slots__ = (
        "_entry_bytes",
        "_flushed_end",
        "_folder",
        "_handles",
        "_segments",
        "_tail",
        "_tail_begin",
        "begin",
        "end",
    )

    def __init__(
        self,
        handles: HandleCache,
        folder: str,
        entry_bytes: int,
        segments: tuple[tuple[int, int], ...],
        bounds: tuple[int, int, int],
        tail_begin: int,
        tail: bytes,
    ) -> None:
        self._handles = handles
        self._folder = folder
        self._entry_bytes = entry_bytes
        self._segments = segments
        self.begin, self._flushed_end, self.end = bounds
        self._tail_begin = tail_begin
        self._tail = tail

    def read(self, begin: int, end: int) -> bytes:
        """Entries [begin, end), clipped to what the view holds; zeros for those that the disk can't read.

        Raises:
            LogError: a file can't be opened, or is gone.
        """
        begin, end = max(begin, self.begin), min(end, self.end)
        if begin >= end:
            return b""
        size, parts = self._entry_bytes, []
        if begin < self._flushed_end:
            stop = min(end, self._flushed_end)
            parts = _read_files(self._handles, self._folder, size, self._segments, begin, stop, may_wait=True)
        if end > self._flushed_end:
            at = max(begin, self._tail_begin) - self._tail_begin
            parts.append(self._tail[at * size : (end - self._tail_begin) * size])
        return parts[0] if len(parts) == 1 else b"".join(parts)


class DenseIndex:
    """Entries [begin, end); those from `flushed_end` on are in memory only."""

    __slots__ = (
        "_disk",
        "_entry_bytes",
        "_firsts",
        "_folder",
        "_handles",
        "_needs_parent_sync",
        "_segment_entries",
        "_tail",
        "_unsynced",
        "begin",
        "flushed_end",
    )

    def __init__(
        self,
        disk: Disk,
        folder: str,
        entry_bytes: int,
        *,
        handles: HandleCache,
        segment_entries: int = SEGMENT_ENTRIES,
        begin: int | None = None,
    ) -> None:
        """Open the entries in the folder's files; or with `begin`, an index without entries that ignores those files.

        Files that are ignored must all begin below `begin`; the index that they belong to may still read and delete them.
        """
        self._disk = disk
        self._folder = folder
        self._entry_bytes = entry_bytes
        self._handles = handles
        self._segment_entries = segment_entries
        self._tail = bytearray()
        self._unsynced: set[str] = set()
        self._needs_parent_sync = True
        """By this process nobody was told yet to sync the folders above its own, which may be new."""
        names = disk.list_dir(folder) if begin is None else []
        self._firsts = [int(n) for n in names if len(n) == _NAME_DIGITS and n.isdigit()]
        self.begin = self._firsts[0] if self._firsts else begin or 0
        self.flushed_end = self.begin
        if self._firsts:
            self.flushed_end = self._firsts[-1] + handles.get(self._path(self._firsts[-1])).size() // entry_bytes

    def _path(self, first: int) -> str:
        return _path(self._folder, first)

    @property
    def end(self) -> int:
        return self.flushed_end + len(self._tail) // self._entry_bytes

    @property
    def firsts(self) -> Sequence[int]:
        """The first sequences of its files, ascending; the first file's may be below `begin`."""
        return self._firsts

    @property
    def tail_bytes(self) -> int:
        """Bytes in memory only."""
        return len(self._tail)

    def start_at(self, sequence: int) -> None:
        """Forget everything and begin at a sequence."""
        self._tail.clear()
        self._remove(list(self._firsts))
        self.begin = self.flushed_end = sequence

    def append(self, entries: bytes) -> None:
        """Add whole entries behind the last."""
        self._tail += entries

    def read(self, begin: int, end: int) -> bytes:
        """Entries [begin, end), clipped to what there is; zeros for those that the disk can't read.

        Raises:
            LogError: a file can't be opened.
        """
        begin, end = max(begin, self.begin), min(end, self.end)
        if begin >= end:
            return b""
        size = self._entry_bytes
        if begin >= self.flushed_end:
            at = (begin - self.flushed_end) * size
            return bytes(self._tail[at : at + (end - begin) * size])
        stop = min(end, self.flushed_end)
        segments = self._segments_of(begin, stop)
        parts = _read_files(self._handles, self._folder, size, segments, begin, stop, may_wait=False)
        if end > self.flushed_end:
            parts.append(bytes(self._tail[: (end - self.flushed_end) * size]))
        return b"".join(parts)

    def read_cached(self, begin: int, end: int) -> bytes | None:
        """As `read`, but None when the disk would have to be asked: then a `view` reads them in a thread."""
        begin, end = max(begin, self.begin), min(end, self.end)
        if begin >= end:
            return b""
        size, flushed_end = self._entry_bytes, self.flushed_end
        if begin >= flushed_end:
            at = (begin - flushed_end) * size
            return bytes(self._tail[at : at + (end - begin) * size])
        parts, stop = [], min(end, flushed_end)
        for first, until in self._segments_of(begin, stop):
            at, until = max(begin, first), min(stop, until)
            part = self._read_file_cached(self._path(first), (until - at) * size, (at - first) * size)
            if part is None:
                return None
            parts.append(part)
        if end > flushed_end:
            parts.append(bytes(self._tail[: (end - flushed_end) * size]))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_file_cached(self, path: str, size: int, offset: int) -> bytes | None:
        unreadable = self._handles.unreadable
        if unreadable and unreadable.has_any(path, _pages(offset, offset + size)):
            return None
        file = self._handles.opened(path)
        try:
            return file.pread_cached(size, offset) if file is not None else None
        except OSError:
            # The thread reads it again, and records what the disk can't read.
            return None

    def view(self, begin: int, end: int) -> IndexView:
        """Entries [begin, end) as they are now, clipped to what there is; only those in memory are copied."""
        begin, end = max(begin, self.begin), min(end, self.end)
        tail_begin, tail = max(begin, self.flushed_end), b""
        if end > tail_begin:
            at = (tail_begin - self.flushed_end) * self._entry_bytes
            tail = bytes(self._tail[at : at + (end - tail_begin) * self._entry_bytes])
        segments = tuple(self._segments_of(begin, min(end, self.flushed_end)))
        bounds = (begin, self.flushed_end, max(begin, end))
        return IndexView(self._handles, self._folder, self._entry_bytes, segments, bounds, tail_begin, tail)

    def _segments_of(self, begin: int, end: int) -> list[tuple[int, int]]:
        """(first, end) of the files that hold entries [begin, end)."""
        found = []
        while begin < end:
            first = self._first_of(begin)
            found.append((first, self._end_of(first)))
            begin = found[-1][1]
        return found

    def _first_of(self, sequence: int) -> int:
        return self._firsts[bisect_right(self._firsts, sequence) - 1]

    def _end_of(self, first: int) -> int:
        """The sequence behind the last that a file may hold: the next file's first, or its full size."""
        place = self._firsts.index(first)
        return self._firsts[place + 1] if place + 1 < len(self._firsts) else first + self._segment_entries

    def flush(self) -> None:
        """Write what is in memory to the files; on OSError it stays in memory and can be tried again."""
        size = self._entry_bytes
        while self._tail:
            if not self._firsts or self.flushed_end >= self._firsts[-1] + self._segment_entries:
                self._disk.add_dir(self._folder)
                self._handles.get(self._path(self.flushed_end), create=True)
                self._firsts.append(self.flushed_end)
            first = self._firsts[-1]
            room = (first + self._segment_entries - self.flushed_end) * size
            part = bytes(self._tail[:room])
            path = self._path(first)
            offset = (self.flushed_end - first) * size
            try:
                self._handles.get(path).pwritev([part], offset)
            except OSError as error:
                self._end_unreadable_page(path, part, offset, error)
            self._unsynced.add(path)
            self.flushed_end += len(part) // size
            del self._tail[:room]

    def unsynced_files(self) -> list[str]:
        """Paths written since they were last asked for; the caller syncs them, and their folder, in its own time."""
        paths = sorted(self._unsynced)
        self._unsynced.clear()
        return paths

    def take_parent_sync(self) -> bool:
        """Whether the folders above the index's have to be synced before a checkpoint counts on it; said once, at first.

        Also of a folder that was there: a process that was killed may have made it a moment before.
        """
        is_needed, self._needs_parent_sync = self._needs_parent_sync, False
        return is_needed

    def truncate(self, end: int) -> None:
        """Forget entries from `end` on, and delete files that begin there or behind it."""
        if end < self.flushed_end or (self._firsts and self._firsts[-1] >= end):
            self._tail.clear()
            keep = [first for first in self._firsts if first < end]
            self._remove([first for first in self._firsts if first >= end])
            if keep:
                path = self._path(keep[-1])
                size = (end - keep[-1]) * self._entry_bytes
                try:
                    self._handles.get(path).truncate(size)
                except OSError as error:
                    self._end_unreadable_page(path, b"", size, error)
                self._handles.unreadable.forget(path)
                self._unsynced.add(path)
            self.flushed_end = max(end, self.begin)
        elif end < self.end:
            del self._tail[(end - self.flushed_end) * self._entry_bytes :]

    def hide_before(self, sequence: int) -> None:
        """Forget entries below `sequence`; their files stay until `drop_before`."""
        self.begin = max(self.begin, min(sequence, self.end))

    def drop_before(self, sequence: int) -> None:
        """Forget entries below `sequence`; files that hold nothing else are deleted."""
        self.hide_before(sequence)
        self._remove([first for first in self._firsts[:-1] if self._end_of(first) <= sequence])

    def repair(self, sequence: int, entry: bytes) -> None:
        """Rewrite one entry, in memory or in a page that can be read."""
        if sequence >= self.flushed_end:
            at = (sequence - self.flushed_end) * self._entry_bytes
            self._tail[at : at + self._entry_bytes] = entry
            return
        path, offset = self._place(sequence)
        self._handles.get(path).pwritev([entry], offset)
        self._unsynced.add(path)

    # --- unreadable pages; for indexes whose entries don't cross pages -----------------------------------------------

    def page_of(self, sequence: int) -> range:
        """The sequences that share a page of a file with this one, held or not."""
        first = self._first_of(sequence) if self._firsts else self.flushed_end
        first += (sequence - first) // self._segment_entries * self._segment_entries
        entries = PAGE_BYTES // self._entry_bytes
        begin = first + (sequence - first) // entries * entries
        return range(begin, min(begin + entries, first + self._segment_entries))

    def is_unreadable(self, sequence: int) -> bool:
        """Whether an entry's page could not be read, and was neither read nor repaired since."""
        unreadable = self._handles.unreadable
        if not unreadable or not self.begin <= sequence < self.flushed_end:
            return False
        path, offset = self._place(sequence)
        page = offset // PAGE_BYTES
        return unreadable.has_any(path, range(page, page + 1))

    def is_withheld(self, sequence: int) -> bool:
        """Whether an entry's page is unreadable, its repair failed and is not due again."""
        unreadable = self._handles.unreadable
        if not unreadable or not self.begin <= sequence < self.flushed_end:
            return False
        path, offset = self._place(sequence)
        return unreadable.is_withheld(path, offset // PAGE_BYTES)

    def rewrite_page(self, entries: Mapping[int, bytes]) -> RewrittenPage | None:
        """Write an unreadable page whole: the entries given, zeros for others. None when the write failed: it is withheld.

        The write waits for no disk. In a thread, the caller then calls `sync_and_read_back`. It must know all entries of the page
        that are in the file: see `flushed_end`.
        """
        sequences = self.page_of(next(iter(entries)))
        path, offset = self._place(sequences.start)
        page = offset // PAGE_BYTES
        held = range(sequences.start, min(sequences.stop, self.flushed_end))
        empty = bytes(self._entry_bytes)
        delay = self._handles.unreadable.delay_seconds(path, page)
        try:
            self._write_pages(path, b"".join(entries.get(sequence, empty) for sequence in held), offset)
        except OSError as error:
            self._handles.unreadable.withhold(path, page, delay, error)
            return None
        return RewrittenPage(path, page, delay)

    def _place(self, sequence: int) -> tuple[str, int]:
        """The file of an entry that is in one, and the offset there."""
        first = self._first_of(sequence)
        return self._path(first), (sequence - first) * self._entry_bytes

    def _write_pages(self, path: str, data: bytes, offset: int) -> None:
        """Write from the begin of a page on, without reading what the last page holds; nothing in use lies behind `data`.

        A kill between write and truncation leaves zeros behind the last entry: the next start cuts them off.
        """
        file, end, spare = self._handles.get(path), offset + len(data), -len(data) % PAGE_BYTES
        file.pwritev([data, bytes(spare)], offset)
        if spare:
            file.truncate(end)
        for page in range(offset // PAGE_BYTES, (end + spare) // PAGE_BYTES):
            self._handles.unreadable.remove(path, page)
        self._unsynced.add(path)

    def _end_unreadable_page(self, path: str, data: bytes, offset: int, error: OSError) -> None:
        """End the file with `data` at `offset`, after an error of doing so because the kernel can't read the rest of that page.

        The page's other entries become zeros: they fail their checks, as they did unreadable.

        Raises:
            OSError: `error`, when the page can be read, or the file can't be written.
        """
        begin = offset // PAGE_BYTES * PAGE_BYTES
        if begin == offset or not is_read_error(error) or self._is_page_readable(path, begin):
            raise error
        self._write_pages(path, bytes(offset - begin) + data, begin)
        logger.error(
            "index %s: page %d is unreadable; it was rewritten, and its entries are to be repaired",
            path,
            begin // PAGE_BYTES,
        )

    def _is_page_readable(self, path: str, offset: int) -> bool:
        try:
            self._handles.get(path).pread(PAGE_BYTES, offset)
        except OSError as error:
            return not is_read_error(error)
        return True

    def _remove(self, firsts: list[int]) -> None:
        for first in firsts:
            path = self._path(first)
            self._handles.drop(path)
            self._unsynced.discard(path)
            self._disk.remove(path)
            self._firsts.remove(first)


def sync_files(disk: Disk, paths: Sequence[str], changed_folders: Sequence[str] = ()) -> None:
    """Make files, their folders and `changed_folders` durable; from a thread that may wait.

    Files deleted meanwhile are passed over.
    """
    if len(paths) > SYNC_ONE_BY_ONE_MAX and disk.sync_file_system(paths[0].rsplit("/", 1)[0]):
        return
    folders = dict.fromkeys(changed_folders)
    for path in paths:
        try:
            file = disk.open(path, writable=True)
        except FileNotFoundError:
            continue
        try:
            file.datasync()
        finally:
            file.close()
        folders[path.rsplit("/", 1)[0]] = None
    for folder in folders:
        disk.sync_dir(folder)
