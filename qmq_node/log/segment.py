"""A log's segment files: their names, and reading from them."""

import contextlib
import threading
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass

from qmq.errors import LogError, ReadFailed
from qmq_node.log.disk import Disk, File

NAME_DIGITS = 20
UNFINISHED = ".new"
"""Suffix of a segment that is being created. A process killed meanwhile leaves the file; the next start deletes it
(`remove_unfinished`)."""
OPEN_SEGMENTS_MAX = 64
"""Segment files kept open for reading."""
FIRST_SEGMENT_BYTES = 64 << 20
"""Size of a new log's first segment. Each segment is as large as everything written before it, up to `segment_bytes`, so the
disk space that a log sets aside grows with its use."""


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """One segment: the log offset of its first byte, and its size in bytes as set aside."""

    base: int
    bytes: int

    @property
    def end(self) -> int:
        return self.base + self.bytes


class Segments:
    """The segments of one log folder, oldest first. Reading is safe from any thread."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self.folder = folder
        self._infos: list[SegmentInfo] = []
        self._bases: list[int] = []
        self._open: OrderedDict[int, File] = OrderedDict()
        self._lock = threading.Lock()
        self.end = 0
        """The log offset behind the newest segment; 0 when there is no segment."""
        self._unfinished: list[str] = []
        for name in disk.list_dir(folder):
            if name.endswith(UNFINISHED):
                self._unfinished.append(f"{folder}/{name}")
            elif len(name) == NAME_DIGITS and name.isdigit():
                file = disk.open(f"{folder}/{name}", writable=False)
                self._add(SegmentInfo(int(name), file.size()))
                self._keep_open(int(name), file)

    def remove_unfinished(self) -> None:
        """Delete what a process left that was killed while it created a segment."""
        while self._unfinished:
            self._disk.remove(self._unfinished.pop())

    def _add(self, info: SegmentInfo) -> None:
        # Behind the others, unless one that was lost is created again.
        place = bisect_right(self._bases, info.base)
        self._infos.insert(place, info)
        self._bases.insert(place, info.base)
        self.end = self._infos[-1].end

    def infos(self) -> list[SegmentInfo]:
        """All segments, oldest first."""
        return list(self._infos)

    @property
    def begin(self) -> int | None:
        """The log offset of the oldest segment's first byte; None when there is no segment."""
        with self._lock:
            return self._bases[0] if self._bases else None

    def path(self, base: int) -> str:
        return f"{self.folder}/{base:0{NAME_DIGITS}d}"

    def create(self, base: int, size: int) -> SegmentInfo:
        """Create a segment, durably. Raises OSError when there is no space; nothing is left then.

        The file gets its name when all of its space is allocated: after a crash a segment has its full size or does not
        exist. A shorter one would look like a gap before the next segment, which is corruption.
        """
        path = self.path(base)
        file = self._disk.create(path + UNFINISHED, size)
        try:
            # The size is metadata that a later fdatasync need not write: it is made durable here, once.
            file.datasync()
            self._disk.rename(path + UNFINISHED, path)
        except OSError:
            with contextlib.suppress(OSError):
                self._disk.remove(path + UNFINISHED)
            raise
        finally:
            file.close()
        self._disk.sync_dir(self.folder)
        info = SegmentInfo(base, size)
        with self._lock:
            self._add(info)
        # Readers that must not wait for the disk find it open.
        with contextlib.suppress(OSError):
            self.file(base)
        return info

    def remove(self, base: int) -> None:
        """Delete a segment; durable after the folder's next sync."""
        self._disk.remove(self.path(base))
        self.hide(base)

    def hide(self, base: int) -> None:
        """Forget a segment; its file stays."""
        with self._lock:
            place = self._bases.index(base)
            del self._infos[place], self._bases[place]
            self._open.pop(base, None)
            self.end = self._infos[-1].end if self._infos else 0

    def holding(self, offset: int) -> SegmentInfo | None:
        """The segment with a log offset."""
        with self._lock:
            place = bisect_right(self._bases, offset) - 1
            if place < 0:
                return None
            info = self._infos[place]
        return info if offset < info.end else None

    def file(self, base: int) -> File:
        """The segment's file for reading, opened outside the lock: a slow open holds up no use of another segment."""
        with self._lock:
            file = self._open.get(base)
            if file is not None:
                self._open.move_to_end(base)
                return file
        file = self._disk.open(self.path(base), writable=False)
        with self._lock:
            if base not in self._bases:
                # Removed in between: only this caller still reads it.
                return file
            return self._keep_open(base, file)

    def _keep_open(self, base: int, file: File) -> File:
        kept = self._open.setdefault(base, file)
        if len(self._open) > OPEN_SEGMENTS_MAX:
            self._open.popitem(last=False)
        return kept

    def locate(self, offset: int, size: int) -> tuple[File, int]:
        """The file and place of a range of the log. Raises LogError unless it is in one segment that is still there."""
        info = self.holding(offset)
        if info is None or offset + size > info.end:
            raise _not_kept(offset, size)
        try:
            return self.file(info.base), offset - info.base
        except OSError as error:
            raise ReadFailed(f"the segment of log offset {offset} can't be opened: {error}") from error

    def opened(self, offset: int, size: int) -> tuple[File, int] | None:
        """As `locate`, but None when the segment's file would have to be opened.

        Raises:
            LogError: the range is not in one segment that is still there.
        """
        with self._lock:
            at = bisect_right(self._bases, offset) - 1
            if at < 0 or offset + size > self._infos[at].end:
                raise _not_kept(offset, size)
            base = self._bases[at]
            file = self._open.get(base)
            if file is None:
                return None
            self._open.move_to_end(base)
            return file, offset - base

    def close(self) -> None:
        """Let go of all files."""
        with self._lock:
            self._open.clear()


class NewSegments:
    """Creates the segments of one log; from any thread.

    Args:
        segment_bytes: size of a full-sized segment.
    """

    def __init__(self, segments: Segments, segment_bytes: int) -> None:
        self._segments = segments
        self.segment_bytes = segment_bytes
        self.lock = threading.Lock()
        """Held by who looks for a segment and creates it."""

    def size_of(self, base: int) -> int:
        """The size of a segment to be created at `base`.

        It follows from the base alone: the appending thread plans a roll with the same number that another thread creates the file
        with.
        """
        return min(self.segment_bytes, max(FIRST_SEGMENT_BYTES, base))

    def create(self, base: int) -> None:
        """Create a segment, durably. Raises OSError as `Segments.create`."""
        self._segments.create(base, self.size_of(base))

    def create_missing(self, base: int) -> None:
        """As `create`, unless it is there."""
        with self.lock:
            if not any(info.base == base for info in self._segments.infos()):
                self.create(base)


def _not_kept(offset: int, size: int) -> LogError:
    return LogError(f"log offsets [{offset}, {offset + size}) are not in one kept segment", code="log.not_kept")
