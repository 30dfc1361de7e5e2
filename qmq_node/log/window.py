"""class Window: reads one segment's file in large pieces, also around places that the disk can't read."""

from contextlib import suppress
from typing import Protocol

from qmq.errors import ReadFailed

READ_AHEAD_BYTES = 1 << 20
SECTOR_BYTES = 4096
"""The place at which reading continues after one that the disk cannot read."""


class ReadableFile(Protocol):
    """What is read of a segment's file; as `qmq_node.log.disk.File`."""

    def pread(self, size: int, offset: int) -> bytes: ...

    def next_data(self, offset: int) -> int | None: ...


class Window:
    """Reads one segment's file in large pieces."""

    def __init__(self, file: ReadableFile, base: int) -> None:
        self._file = file
        self._base = base
        self._data = memoryview(b"")
        self._begin = 0

    def get(self, place: int, size: int) -> memoryview:
        """Up to `size` bytes at `place`; fewer at the end of the file. Raises ReadFailed."""
        at = place - self._begin
        if not (at >= 0 and at + size <= len(self._data)):
            self._data, self._begin, at = memoryview(self._read(place, size)), place, 0
        return self._data[at : at + size]

    def _read(self, place: int, size: int) -> bytes:
        if size < READ_AHEAD_BYTES:
            # A bad sector in what is read ahead is no error yet.
            with suppress(OSError):
                return self._file.pread(READ_AHEAD_BYTES, place)
        try:
            return self._file.pread(size, place)
        except OSError as error:
            raise ReadFailed(
                f"{size} bytes at log offset {self._base + place} ({place} in the segment's file) can't be read: {error}"
            ) from error

    def next_data(self, place: int) -> int | None:
        """The first place at or after `place` that may hold data. Raises ReadFailed."""
        try:
            return self._file.next_data(place)
        except OSError as error:
            raise ReadFailed(f"the segment at log offset {self._base} can't be searched: {error}") from error

    def readable(self, place: int) -> memoryview:
        """Bytes from `place` on, up to READ_AHEAD_BYTES, to the end of the file, or to the first sector that can't be read."""
        try:
            return self.get(place, READ_AHEAD_BYTES)
        except ReadFailed:
            parts: list[memoryview] = []
            at = place
            while at < place + READ_AHEAD_BYTES:
                size = SECTOR_BYTES - at % SECTOR_BYTES
                try:
                    parts.append(memoryview(self._file.pread(size, at)))
                except OSError:
                    break
                at += size
            return memoryview(b"".join(parts))
