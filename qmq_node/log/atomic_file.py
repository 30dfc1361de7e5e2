"""Small files: replaced as a whole, or one of two pages."""

import errno
import os
import threading
from collections.abc import Sequence
from contextlib import closing
from struct import Struct

from qmq.checksum import crc32
from qmq_node.log.disk import Buffer, Disk

_CRC = Struct(">I")
_SLOT = Struct(">qq")
_SLOT_BYTES = 4096


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


class BeginFile:
    """The offset where a log begins, beside the log's folder: without it, a lost first segment looks like retention.

    A file of two pages, each i64 log offset, i64 number, u32 CRC of both. The page with the higher number counts. A write
    replaces the other page, so a crash leaves one of them. The space is allocated once: retention works on a full disk. For one
    thread at a time.
    """

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._path = f"{folder}.begin"
        self._folder = folder.rpartition("/")[0] or "."
        self._number = 0

    def read(self) -> int | None:
        """The recorded begin; None when there is none that can be read."""
        try:
            data = read_file(self._disk, self._path, 2 * _SLOT_BYTES) or b""
        except OSError:
            return None
        found = [self._slot(data[at : at + _SLOT.size + _CRC.size]) for at in (0, _SLOT_BYTES)]
        number, begin = max((slot for slot in found if slot is not None), default=(0, -1))
        self._number = number
        return begin if number else None

    @property
    def exists(self) -> bool:
        """Whether a begin is recorded."""
        return self._number > 0

    @staticmethod
    def _slot(data: bytes) -> tuple[int, int] | None:
        if len(data) < _SLOT.size + _CRC.size or _CRC.unpack_from(data, _SLOT.size)[0] != crc32(data[: _SLOT.size]):
            return None
        begin, number = _SLOT.unpack_from(data)
        return number, begin

    def write(self, begin: int) -> None:
        """Record the begin, durably. Raises OSError."""
        try:
            file = self._disk.open(self._path, writable=True)
        except FileNotFoundError:
            file = self._disk.create(self._path, 2 * _SLOT_BYTES)
        with closing(file):
            number = self._number + 1
            slot = _SLOT.pack(begin, number)
            file.pwritev([slot + _CRC.pack(crc32(slot))], number % 2 * _SLOT_BYTES)
            file.datasync()
        if number == 1:
            self._disk.sync_dir(self._folder)
        self._number = number
