"""Small files: replaced as a whole, or one of two pages."""

import errno
import os
import threading
from collections.abc import Sequence
from contextlib import closing
from struct import Struct
from typing import Any

from qmq.checksum import crc32
from qmq_node.log.disk import Buffer, Disk

_CRC = Struct(">I")
_PAGE_BYTES = 4096


def replace_file(disk: Disk, path: str, parts: Sequence[Buffer], *, temporary: str = "") -> None:
    """Replace a file, or create it; durable when this returns. The folder must exist.

    A power cut at any moment leaves the old file or the new one, whole. A temporary file of an interrupted call is removed by
    the next call.

    Args:
        parts: the content, written one after the other.
        temporary: path of the temporary file, in the same folder; default: `path` with `.tmp`.

    Raises:
        OSError: the old file is unchanged, except when only the sync of the folder failed.
    """
    temporary = temporary or f"{path}.tmp"
    folder = os.path.dirname(temporary) or "."
    if os.path.basename(temporary) in disk.list_dir(folder):
        disk.remove(temporary)
    with closing(disk.create(temporary, 0)) as file:
        file.pwritev(parts, 0)
        file.datasync()
    disk.rename(temporary, path)
    disk.sync_dir(folder)


def read_file(disk: Disk, path: str, bytes_max: int) -> bytes | None:
    """Return the content of a file; None when there is no file. Raises OSError, also for more than `bytes_max` bytes."""
    try:
        file = disk.open(path, writable=False)
    except FileNotFoundError:
        return None
    with closing(file):
        size = file.size()
        if size > bytes_max:
            raise OSError(errno.EFBIG, f"{path} has {size} bytes, at most {bytes_max} belong there")
        return file.pread(size, 0)


class CheckedFile:
    """A file with a u32 CRC behind its content. May be used from several threads (a cancelled job leaves one)."""

    def __init__(self, disk: Disk, folder: str, name: str, bytes_max: int) -> None:
        self._disk = disk
        self.path = f"{folder}/{name}"
        self._bytes_max = bytes_max
        self._lock = threading.Lock()

    def load(self) -> bytes | None:
        """Return the content; None when there is no file. Raises OSError for one that can't be read, or is damaged."""
        data = read_file(self._disk, self.path, self._bytes_max + _CRC.size)
        if data is None:
            return None
        content, check = data[: -_CRC.size], data[-_CRC.size :]
        if check != _CRC.pack(crc32(content)):
            raise OSError(f"{self.path} is damaged: its check does not match")
        return content

    def save(self, content: bytes) -> None:
        """Replace the content, durable when this returns. Raises OSError: the old content is there, or the new one."""
        with self._lock:
            replace_file(self._disk, self.path, [content, _CRC.pack(crc32(content))])

    def remove(self) -> None:
        """Remove the file if there is one, durable when this returns. Raises OSError: it is there, or not."""
        folder, _, name = self.path.rpartition("/")
        with self._lock:
            if name in self._disk.list_dir(folder):
                self._disk.remove(self.path)
                self._disk.sync_dir(folder)


class TwoPageFile:
    """A small record that is replaced by one write and one sync; for one thread at a time. A file that may be there has
    to be read before it is written.

    A file of two pages, each the record, an i64 number, and a u32 CRC of both. The page with the higher number counts.
    A write replaces the other page, so a crash leaves one of them. The space is allocated once, so a write works on a
    full disk.
    """

    def __init__(self, disk: Disk, path: str, record: Struct) -> None:
        self._disk = disk
        self.path = path
        self._folder = path.rpartition("/")[0] or "."
        self._record = record
        self._page = Struct(f"{record.format}q")
        self._number = 0
        self._is_there = False

    def read(self) -> tuple[Any, ...] | None:
        """Return the record; None if there is none, or a crash interrupted the first write.

        Raises OSError if the disk can't read the file, or both pages are damaged.
        """
        data = read_file(self._disk, self.path, 2 * _PAGE_BYTES)
        self._is_there = data is not None
        pages = [(data or b"")[at : at + self._page.size + _CRC.size] for at in (0, _PAGE_BYTES)]
        found = max(filter(None, map(self._decoded, pages)), key=lambda values: values[-1], default=None)
        if found is None and all(any(page) for page in pages):
            raise OSError(f"{self.path} is damaged: the checks of both pages do not match")
        self._number = found[-1] if found is not None else 0
        return found[:-1] if found is not None else None

    @property
    def exists(self) -> bool:
        """Whether there is a record."""
        return self._number > 0

    def _decoded(self, page: bytes) -> tuple[Any, ...] | None:
        size = self._page.size
        if len(page) < size + _CRC.size or _CRC.unpack_from(page, size)[0] != crc32(page[:size]):
            return None
        values: tuple[Any, ...] = self._page.unpack_from(page)
        return values if values[-1] else None

    def write(self, *record: int) -> None:
        """Replace the record, durably. Raises OSError: the old record is there, or the new one."""
        try:
            file = self._disk.open(self.path, writable=True)
        except FileNotFoundError:
            file = self._disk.create(self.path, 2 * _PAGE_BYTES)
        self._is_there = True
        with closing(file):
            number = self._number + 1
            page = self._page.pack(*record, number)
            file.pwritev([page + _CRC.pack(crc32(page))], number % 2 * _PAGE_BYTES)
            file.datasync()
        if number == 1:
            self._disk.sync_dir(self._folder)
        self._number = number

    def remove(self) -> None:
        """Remove the file if there is one, durably. Raises OSError: it is there, or not."""
        if self._is_there:
            self._disk.remove(self.path)
            self._disk.sync_dir(self._folder)
            self._number, self._is_there = 0, False


class BeginFile(TwoPageFile):
    """The offset where a log begins, beside the log's folder: without it, a lost first segment looks like retention."""

    def __init__(self, disk: Disk, folder: str) -> None:
        super().__init__(disk, f"{folder}.begin", Struct(">q"))

    def load(self) -> int | None:
        """Return the recorded begin; None when there is none that can be read."""
        try:
            record = self.read()
        except OSError:
            return None
        return record[0] if record is not None else None
