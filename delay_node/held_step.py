"""A forward step of the wall clock that was not accepted, in a file: a restart of the node must not accept it.

The file `clock` in the node's folder is i64 milliseconds ahead, i64 trusted time when it began, u32 CRC of both. It exists while a
step is held, and is replaced whole.
"""

from dataclasses import dataclass
from struct import Struct

from qmq.log.checked_file import CheckedFile
from qmq.log.disk import Disk

CHANGE_MS = 100
"""A change of the step by less is not written: the two clocks always drift apart a little."""
_STEP = Struct(">qq")


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
        self._file = CheckedFile(disk, folder, self.NAME, _STEP.size)
        self._kept: HeldStep | None = None
        self._is_known = False
        """Whether the file is as `_kept` says: not after a call that failed."""

    def load(self) -> HeldStep | None:
        """Return the step that was held when the node ended; None when there was none.

        Raises:
            OSError: the file can't be read, or is damaged.
        """
        content = self._file.load()
        if content is not None and len(content) != _STEP.size:
            raise OSError(f"{self._file.path} is damaged: it has {len(content)} bytes")
        self._kept = HeldStep(*_STEP.unpack(content)) if content is not None else None
        self._is_known = True
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
            self._file.save(_STEP.pack(step.ahead_ms, step.since_ms))
        else:
            self._file.remove()
        self._kept, self._is_known = step, True
