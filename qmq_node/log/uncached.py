"""Reading what the disk holds, whatever is in memory: a bit that rots on the disk does not show in the page cache."""

from qmq_node.log.disk import Disk, File
from qmq_node.log.segment import SegmentInfo, Segments

PAGE_BYTES = 4096
READ_BYTES = 256 << 10
"""Read at a time. A commit's sync that has to wait for the disk to finish a larger read takes longer (`WARM_BYTES`)."""


class UncachedFile:
    """Reads a file from the disk and leaves the page cache as it was: what was in memory is there again, other bytes are not."""

    def __init__(self, file: File) -> None:
        self._file = file

    @classmethod
    def open(cls, disk: Disk, path: str) -> "UncachedFile":
        """Open a file. Raises OSError."""
        return cls(disk.open(path, writable=False))

    def pread(self, size: int, offset: int) -> bytes:
        """As `File.pread`."""
        end = offset + size
        return b"".join(self._read(min(READ_BYTES, end - at), at) for at in range(offset, end, READ_BYTES))

    def pread_readable(self, size: int, offset: int) -> tuple[bytes, bool]:
        """Return bytes with zeros for pages that can't be read or are not there, and whether the disk could read all of them."""
        try:
            return self.pread(size, offset).ljust(size, b"\0"), True
        except OSError:
            pieces, end, at = [], offset + size, offset
            while at < end:
                stop = min(end, (at // PAGE_BYTES + 1) * PAGE_BYTES)
                try:
                    piece = self._read(stop - at, at)
                except OSError:
                    piece = b""
                pieces.append(piece.ljust(stop - at, b"\0"))
                at = stop
            return b"".join(pieces), False

    def next_data(self, offset: int) -> int | None:
        """As `File.next_data`."""
        return self._file.next_data(offset)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self, size: int, offset: int) -> bytes:
        # Pages that a range covers in part are not dropped.
        begin = offset // PAGE_BYTES * PAGE_BYTES
        pages = -(-(offset + size - begin) // PAGE_BYTES) * PAGE_BYTES
        was_cached = self._is_cached(size, offset)
        self._file.drop_cached(begin, pages)
        try:
            return self._file.pread(size, offset)
        finally:
            if not was_cached:
                self._file.drop_cached(begin, pages)

    def _is_cached(self, size: int, offset: int) -> bool:
        try:
            return self._file.pread_cached(size, offset) is not None
        except OSError:
            return False


class UncachedSegments:
    """The segments of a log, read past the page cache; as `qmq_node.log.recovery.ReadableSegments`."""

    def __init__(self, segments: Segments) -> None:
        self._segments = segments

    def infos(self) -> list[SegmentInfo]:
        """All segments, oldest first."""
        return self._segments.infos()

    def holding(self, offset: int) -> SegmentInfo | None:
        """The segment with a log offset."""
        return self._segments.holding(offset)

    def file(self, base: int) -> UncachedFile:
        """The segment's file. Raises OSError."""
        return UncachedFile(self._segments.file(base))
