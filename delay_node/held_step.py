"""A forward step of the wall clock that was not accepted, in a file: a restart of the node must not accept it.

The file `clock` in the node's folder is i64 milliseconds ahead, i64 trusted time when it began, u32 CRC of both. It exists while a
step is held, and is replaced whole.
"""

from dataclasses import dataclass
from struct import Struct
from zlib import crc32

from qmq.log.atomic_file import replace_file
from qmq.log.disk import Disk

CHANGE_MS = 100
"""A change of the step by less is not written: the two clocks always drift apart a little."""
_STEP = Struct(">qq")
_CRC = Struct(">I")


@dataclass(frozen=True, slots=True)
class HeldStep:
    """The wall clock is ahead by a step that was not accepted."""

    ahead_ms: int
    since_ms: int
    """Trusted time when it was seen first."""


class HeldStepFile:
    """The step on disk. One thread at a time."""

    NAME = "clock"

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._path = f"{folder}/{self.NAME}"
        self._kept: HeldStep | None = None
        self._is_known = False
        """Whether the file is as `_kept` says: not after a call that failed."""

    def load(self) -> HeldStep | None:
        """Return the step that was held when the node ended; None when there was none.

        Raises:
            OSError: the file can't be read, or is damaged.
        """
        if self.NAME not in self._disk.list_dir(self._folder):
            self._is_known = True
            return None
        file = self._disk.open(self._path, writable=False)
        try:
            data = file.pread(_STEP.size + _CRC.size, 0)
        finally:
            file.close()
        if len(data) < _STEP.size + _CRC.size or _CRC.unpack_from(data, _STEP.size)[0] != crc32(data[: _STEP.size]):
            raise OSError(f"{self._path} is damaged: its check does not match")
        self._kept, self._is_known = HeldStep(*_STEP.unpack_from(data)), True
        return self._kept

    def is_kept(self, step: HeldStep | None) -> bool:
        """Return whether the file has this step already, as exactly as CHANGE_MS demands."""
        kept = self._kept
        if not self._is_known or kept is None or step is None:
            return self._is_known and kept is step
        return kept.since_ms == step.since_ms and abs(kept.ahead_ms - step.ahead_ms) < CHANGE_MS

    def keep(self, step: HeldStep | None) -> None:
        """Write the step, or remove the file; durable when this returns.

        Raises:
            OSError: the file has the old step or the new one; the next call writes it again.
        """
        self._is_known = False
        if step is not None:
            data = _STEP.pack(step.ahead_ms, step.since_ms)
            replace_file(self._disk, self._path, [data, _CRC.pack(crc32(data))])
        elif self.NAME in self._disk.list_dir(self._folder):
            self._disk.remove(self._path)
            self._disk.sync_dir(self._folder)
        self._kept, self._is_known = step, True
