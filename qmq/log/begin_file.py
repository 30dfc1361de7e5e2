"""The offset where a log begins, in a file beside the log's folder: without it, a lost first segment looks like retention.

A file of two pages, each i64 log offset, i64 number, u32 CRC of both. The page with the higher number counts. A write replaces
the other page, so a crash leaves one of them. The space is allocated once: retention works on a full disk.
"""

from struct import Struct
from zlib import crc32

from qmq.log.atomic_file import read_file
from qmq.log.disk import Disk

SUFFIX = ".begin"
"""What its name has behind the folder's."""
_SLOT = Struct(">qq")
_CRC = Struct(">I")
_SLOT_BYTES = 4096


class BeginFile:
    """The recorded begin of one log. One thread at a time."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._path = folder + SUFFIX
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
        try:
            number = self._number + 1
            slot = _SLOT.pack(begin, number)
            file.pwritev([slot + _CRC.pack(crc32(slot))], number % 2 * _SLOT_BYTES)
            file.datasync()
        finally:
            file.close()
        if number == 1:
            self._disk.sync_dir(self._folder)
        self._number = number
