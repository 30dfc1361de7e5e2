"""Reading what the disk holds, whatever is in memory: a bit that rots on the disk does not show in the page cache."""

from collections.abc import Iterator
from contextlib import contextmanager

from qmq_node.log.disk import File
from qmq_node.log.segment import SegmentInfo, Segments
from qmq_node.log.unreadable_pages import PAGE_BYTES

READ_BYTES = 256 << 10
"""Read at a time. A commit's sync that has to wait for the disk to finish a larger read takes longer (`WARM_BYTES`). So much is in
memory afterwards if all of it was before."""


@contextmanager
def from_disk(file: File, offset: int, size: int) -> Iterator[None]:
    """Have reads of a range come from the disk, and leave the page cache as it was: what was in memory stays if it was read again,
    other bytes do not."""
    if size <= 0:
        yield
        return
    end = offset + size
    cold = [at for at in range(offset, end, READ_BYTES) if not _is_cached(file, min(READ_BYTES, end - at), at)]
    _drop(file, offset, size)
    try:
        yield
    finally:
        for at in cold:
            _drop(file, at, min(READ_BYTES, end - at))


def _is_cached(file: File, size: int, offset: int) -> bool:
    try:
        return file.pread_cached(size, offset) is not None
    except OSError:
        return False


def _drop(file: File, offset: int, size: int) -> None:
    # Pages that a range covers in part are not dropped.
    begin = offset // PAGE_BYTES * PAGE_BYTES
    file.drop_cached(begin, -(-(offset + size - begin) // PAGE_BYTES) * PAGE_BYTES)


class UncachedFile:
    """Reads a file from the disk, up to an offset.

    The page that contains this offset is not dropped from the page cache: the next commit is written into it, and the kernel would
    have to read it from the disk first, which may fail.
    """

    def __init__(self, file: File, end: int) -> None:
        self._file, self._end = file, end

    def pread(self, size: int, offset: int) -> bytes:
        """As `File.pread`."""
        end = min(offset + size, self._end)
        with from_disk(self._file, offset, min(end, self._end // PAGE_BYTES * PAGE_BYTES) - offset):
            return b"".join(self._file.pread(min(READ_BYTES, end - at), at) for at in range(offset, end, READ_BYTES))

    def next_data(self, offset: int) -> int | None:
        """As `File.next_data`."""
        return self._file.next_data(offset)


class UncachedSegments:
    """The segments of a log, read from the disk, as if it ended at a log offset; as `qmq_node.log.recovery.ReadableSegments`."""

    def __init__(self, segments: Segments, end: int) -> None:
        self._segments, self._end = segments, end

    def infos(self) -> list[SegmentInfo]:
        """The segments, oldest first."""
        return [self._cut(info) for info in self._segments.infos() if info.base < self._end]

    def holding(self, offset: int) -> SegmentInfo | None:
        """The segment with a log offset."""
        info = self._segments.holding(offset) if offset < self._end else None
        return None if info is None else self._cut(info)

    def file(self, base: int) -> UncachedFile:
        """The segment's file. Raises OSError."""
        return UncachedFile(self._segments.file(base), self._end - base)

    def _cut(self, info: SegmentInfo) -> SegmentInfo:
        return SegmentInfo(info.base, min(info.end, self._end) - info.base)
