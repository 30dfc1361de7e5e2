"""DenseIndex: fixed-size entries, entry n at n x size. Derived from a log, never the truth.

New entries gather in memory. The event loop `take`s them, one other thread `write`s them to files, then the loop calls
`written`. An index at rest holds no file handle: handles come from a cache that all indexes share.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from qmq_node.log.append_file import Tail
from qmq_node.log.disk import Buffer
from qmq_node.log.handles import HandleCache
from qmq_node.log.index_files import SEGMENT_ENTRIES, IndexFiles, RewrittenPage, delete_files, firsts_in, pages_of
from qmq_node.log.unreadable_pages import PAGE_BYTES


@dataclass(frozen=True, slots=True)
class IndexCopy:
    """A view without its files, which another process can open."""

    folder: str
    entry_bytes: int
    segments: tuple[tuple[int, int], ...]
    begin: int
    flushed_end: int
    end: int
    tail_begin: int
    tail: bytes

    def open(self, handles: HandleCache) -> "IndexView":
        """Return the view, on files that are opened through `handles`."""
        files = IndexFiles(handles, self.folder, self.entry_bytes, SEGMENT_ENTRIES)
        return IndexView(
            files, self.segments, self.begin, self.flushed_end, self.end, self.tail_begin, self.tail
        )  # fmt: skip


@dataclass(slots=True, eq=False)
class IndexView:
    """An index as it was at one moment, to be read from any thread while the index grows.

    Files that the index drops meanwhile can't be read any more: who reads compares with its `begin` afterwards.
    """

    _files: IndexFiles
    _segments: tuple[tuple[int, int], ...]
    begin: int
    _flushed_end: int
    end: int
    _tail_begin: int
    _tail: bytes

    def read(self, begin: int, end: int) -> bytes:
        """Entries [begin, end), clipped to what the view holds; zeros for those that the disk can't read.

        Raises LogError when a file can't be opened, or is gone.
        """
        begin, end = max(begin, self.begin), min(end, self.end)
        if begin >= end:
            return b""
        size, parts = self._files.entry_bytes, []
        if begin < self._flushed_end:
            parts = self._files.read_files(self._segments, begin, min(end, self._flushed_end), may_wait=True)
        if end > self._flushed_end:
            at = max(begin, self._tail_begin) - self._tail_begin
            parts.append(self._tail[at * size : (end - self._tail_begin) * size])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def copy(self) -> IndexCopy:
        """Return what another process needs to read the same entries."""
        return IndexCopy(
            self._files.folder, self._files.entry_bytes, self._segments, self.begin, self._flushed_end, self.end,
            self._tail_begin, self._tail,
        )  # fmt: skip


class DenseIndex(IndexFiles):
    """Entries [begin, end); those from `flushed_end` on are in memory only."""

    __slots__ = ("begin", "tail")

    def __init__(
        self,
        handles: HandleCache,
        folder: str,
        entry_bytes: int,
        *,
        segment_entries: int = SEGMENT_ENTRIES,
        begin: int | None = None,
    ) -> None:
        """Open the entries in the folder's files; or with `begin`, an index without entries that ignores those files.

        Files that are ignored and begin at or behind `begin` are deleted when the index gets its own. Others are left: the index
        that they belong to may still read and delete them.
        """
        super().__init__(handles, folder, entry_bytes, segment_entries)
        if begin is None:
            self.firsts = firsts_in(handles.disk, folder)
        self.begin = flushed_end = begin or 0
        if self.firsts:
            self.begin, last = self.firsts[0], self.firsts[-1]
            flushed_end = last + handles.get(self._path(last)).size() // entry_bytes
        self.tail = Tail(flushed_end * entry_bytes)

    @property
    def flushed_end(self) -> int:
        """Where the entries in files end, as far as the event loop knows."""
        return self.tail.written_end // self.entry_bytes

    @property
    def end(self) -> int:
        return self.tail.end // self.entry_bytes

    @property
    def memory_bytes(self) -> int:
        """Bytes in memory only."""
        return self.tail.memory_bytes

    def start_at(self, sequence: int) -> None:
        """Forget everything and begin at a sequence; not while entries are being written."""
        self._remove(list(self.firsts))
        self.begin = sequence
        self.tail = Tail(sequence * self.entry_bytes)

    def move(self, begin: int) -> None:
        """Let the entries begin at a higher sequence; before a checkpoint counts on them, and not while they are being written.

        Raises OSError: the index is not usable.
        """
        by, size = begin - self.begin, self.entry_bytes
        written, parts = self.tail.memory(self.tail.written_end, self.tail.end)
        self._rename(by)
        self.begin, self.tail = begin, Tail(written + by * size)
        for part in parts:
            self.tail.append(part)

    def append(self, entries: Buffer) -> None:
        """Add whole entries behind the last."""
        self.tail.append(entries)

    def read(self, begin: int, end: int) -> bytes:
        """Entries [begin, end), clipped to what there is; zeros for those that the disk can't read. Raises LogError."""
        begin, stop, parts = self._in_memory(begin, end)
        if begin < stop:
            parts[:0] = self.read_files(self._segments_of(begin, stop), begin, stop, may_wait=False)
        return b"".join(parts)

    def read_cached(self, begin: int, end: int) -> bytes | None:
        """As `read`, but None when the disk would have to be asked: then a `view` reads them in a thread."""
        begin, stop, parts = self._in_memory(begin, end)
        size = self.entry_bytes
        for place, (first, until) in enumerate(self._segments_of(begin, stop) if begin < stop else ()):
            at, until = max(begin, first), min(stop, until)
            part = self._read_file_cached(self._path(first), (until - at) * size, (at - first) * size)
            if part is None:
                return None
            parts.insert(place, part)
        return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)

    def _in_memory(self, begin: int, end: int) -> tuple[int, int, list[Buffer]]:
        """What of entries [begin, end) has to be read from files, as (begin, end), and the rest, which is in memory."""
        size = self.entry_bytes
        if begin < self.begin:
            begin = self.begin
        end = min(end, self.end)
        if begin >= end:
            return begin, 0, []
        written, parts = self.tail.memory(begin * size, end * size)
        return begin, min(end, written // size), parts

    def _read_file_cached(self, path: str, size: int, offset: int) -> Buffer | None:
        unreadable = self._handles.unreadable
        if unreadable and unreadable.has_any(path, pages_of(offset, offset + size)):
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
        _, stop, parts = self._in_memory(begin, end)
        flushed_end = self.flushed_end
        return IndexView(
            self,
            tuple(self._segments_of(begin, stop)),
            begin,
            flushed_end,
            max(begin, end),
            max(begin, flushed_end),
            b"".join(parts),
        )

    # --- writing ---------------------------------------------------------------------------------------------------

    def take(self) -> bool:
        """Set aside what is in memory, to be written to files; whether there is anything."""
        return self.tail.take()

    def write(self) -> None:
        """Write what was taken; in one thread at a time, which may wait. Raises OSError: it can be tried again."""
        at, pieces = self.tail.taken
        for piece in pieces:
            self._write_entries(at // self.entry_bytes, piece)
            at += len(piece)

    def written(self) -> None:
        """What was taken is in the files now."""
        for place, entry in self.tail.written():
            self.repair(place // self.entry_bytes, entry)

    def restore(self, place: int, entries: bytes, number: int) -> None:
        """Take entries behind `place` bytes of others, which a `TailsFile` has by this number (0: none). Raises ValueError."""
        if place != self.tail.end:
            sequence = place // self.entry_bytes
            if self.firsts or self.tail.memory_bytes:
                self.truncate(sequence)
            else:
                self.start_at(sequence)
        if place < 0 or place != self.tail.end or len(entries) % self.entry_bytes:
            raise ValueError(f"index {self.folder}: {len(entries)} bytes at {place}, it ends at {self.tail.end}")
        self.tail.append(entries)
        self.tail.number, self.tail.saved_end = number, self.tail.end

    def truncate(self, end: int) -> None:
        """Forget entries from `end` on, and delete files that begin there or behind it; not while entries are being written."""
        size = self.entry_bytes
        if end < self.flushed_end or (self.firsts and self.firsts[-1] >= end):
            self._truncate_files(end)
            self.tail = Tail(max(end, self.begin) * size)
        elif end < self.end:
            kept = self.read(self.flushed_end, end)
            self.tail = Tail(self.flushed_end * size)
            self.tail.append(kept)

    def hide_before(self, sequence: int) -> None:
        """Forget entries below `sequence`; their files stay until `delete_before`."""
        self.begin = max(self.begin, min(sequence, self.end))

    @property
    def has_hidden_files(self) -> bool:
        """Whether it has files of which all entries are hidden."""
        return len(self.firsts) > 1 and self.firsts[1] <= self.begin

    def delete_before(self, sequence: int) -> None:
        """Delete files that hold only entries below `sequence`, all of them hidden; in the thread that writes. Raises OSError."""
        delete_files(self._handles, self.folder, self._firsts_before(sequence))

    def deleted_before(self, sequence: int) -> None:
        """The files of entries below `sequence` are deleted now."""
        del self.firsts[: len(self._firsts_before(sequence))]

    def _firsts_before(self, sequence: int) -> list[int]:
        return [first for first in self.firsts[:-1] if self._end_of(first) <= sequence]

    def repair(self, sequence: int, entry: bytes) -> None:
        """Rewrite one entry, in memory or in a page that can be read."""
        if sequence >= self.flushed_end:
            self.tail.replace(sequence * self.entry_bytes, entry)
            return
        path, offset = self._place(sequence)
        self._handles.get(path).pwritev([entry], offset)
        self._handles.unsynced.add(path)

    # --- unreadable pages; for indexes whose entries don't cross pages -----------------------------------------------

    def page_of(self, sequence: int) -> range:
        """The sequences that share a page of a file with this one, held or not."""
        first = self._first_of(sequence) if self.firsts else self.flushed_end
        first += (sequence - first) // self._segment_entries * self._segment_entries
        entries = PAGE_BYTES // self.entry_bytes
        begin = first + (sequence - first) // entries * entries
        return range(begin, min(begin + entries, first + self._segment_entries))

    def is_unreadable(self, sequence: int) -> bool:
        """Whether an entry's page could not be read, and was neither read nor repaired since."""
        place = self._unreadable_place(sequence)
        return place is not None and self._handles.unreadable.has_any(place[0], range(place[1], place[1] + 1))

    def is_withheld(self, sequence: int) -> bool:
        """Whether an entry's page is unreadable, its repair failed and is not due again."""
        place = self._unreadable_place(sequence)
        return place is not None and self._handles.unreadable.is_withheld(*place)

    def _unreadable_place(self, sequence: int) -> tuple[str, int] | None:
        """The file and page of an entry in a file; None for others, and while all pages can be read."""
        if not self._handles.unreadable or not self.begin <= sequence < self.flushed_end:
            return None
        path, offset = self._place(sequence)
        return path, offset // PAGE_BYTES

    def rewrite_page(self, entries: Mapping[int, bytes]) -> RewrittenPage | None:
        """Write an unreadable page whole: the entries given, zeros for others. None when the write failed: it is withheld.

        The write waits for no disk. In a thread, the caller then calls `sync_and_read_back`. It must know all entries of the page
        that are in the file: see `flushed_end`. Those being written to the page now are written here as well, with the same bytes.
        """
        sequences, size = self.page_of(next(iter(entries))), self.entry_bytes
        path, offset = self._place(sequences.start)
        page = offset // PAGE_BYTES
        held, empty = range(sequences.start, min(sequences.stop, self.flushed_end)), bytes(size)
        at, taken = self.tail.taken
        _, beyond = self.tail.memory(at, min(sequences.stop * size, at + sum(map(len, taken))))
        data = b"".join((*(entries.get(sequence, empty) for sequence in held), *beyond))
        delay = self._handles.unreadable.delay_seconds(path, page)
        try:
            self._write_pages(path, data, offset)
        except OSError as error:
            self._handles.unreadable.withhold(path, page, delay, error)
            return None
        return RewrittenPage(self._handles, path, page, delay)
