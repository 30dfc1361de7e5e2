"""A small file with a check, replaced whole: the content, then u32 CRC of it."""

import threading
from struct import Struct
from zlib import crc32

from qmq.log.atomic_file import replace_file
from qmq.log.disk import Disk

_CRC = Struct(">I")


class CheckedFile:
    """What a process has to know again after a restart. May be used from several threads (a cancelled job leaves one)."""

    def __init__(self, disk: Disk, folder: str, name: str, bytes_max: int) -> None:
        self._disk = disk
        self._folder = folder
        self._name = name
        self.path = f"{folder}/{name}"
        self._bytes_max = bytes_max
        self._lock = threading.Lock()

    def load(self) -> bytes | None:
        """Return the content; None when there is no file. Raises OSError for one that can't be read, or is damaged."""
        if self._name not in self._disk.list_dir(self._folder):
            return None
        file = self._disk.open(self.path, writable=False)
        try:
            size = file.size()
            if not _CRC.size <= size <= self._bytes_max + _CRC.size:
                raise OSError(f"{self.path} is damaged: it has {size} bytes")
            data = file.pread(size, 0)
        finally:
            file.close()
        content = data[: -_CRC.size]
        if _CRC.pack(crc32(content)) != data[-_CRC.size :]:
            raise OSError(f"{self.path} is damaged: its check does not match")
        return content

    def save(self, content: bytes) -> None:
        """Replace the content, durable when this returns. Raises OSError: the old content is there, or the new one."""
        with self._lock:
            replace_file(self._disk, self.path, [content, _CRC.pack(crc32(content))])

    def remove(self) -> None:
        """Remove the file if there is one, durable when this returns. Raises OSError: it is there, or not."""
        with self._lock:
            if self._name in self._disk.list_dir(self._folder):
                self._disk.remove(self.path)
                self._disk.sync_dir(self._folder)
