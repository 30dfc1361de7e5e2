"""The dispatch log: per hour of due time, what left the schedule and how. With it an hour is known without the message log.

    dispatch/YYYYMMDDHH     entry n at n x 24 bytes, little-endian:
        u32 number in the hour · u8 what (`records.State`) · 3 x 0 · i64 when, ms · u32 hour it moved to, else 0 · u32 check

The last entry of a number is what holds. The check is as in `schedule_log`: a sum of the words before it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from qmq.log.append_file import AppendFile

DISPATCH = np.dtype(
    [("number", "<u4"), ("what", "u1"), ("zero", "u1", (3,)), ("at", "<i8"), ("to_hour", "<u4"), ("check", "<u4")]
)
DISPATCH_BYTES = DISPATCH.itemsize
assert DISPATCH_BYTES == 24, "the format is for ever"
_ODD = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1], dtype=np.uint32)
_CHECK_OF_NOTHING = np.uint32(0x2545F491)

DispatchArray = NDArray[np.void]


def dispatch_checks(entries: DispatchArray) -> NDArray[np.uint32]:
    """The check words that entries should have."""
    words = entries.view("<u4").reshape(-1, DISPATCH_BYTES // 4)[:, :5].astype(np.uint32)
    total: NDArray[np.uint32] = (words * _ODD).sum(axis=1, dtype=np.uint32) ^ _CHECK_OF_NOTHING
    return total


class DispatchLog:
    """The file of one hour."""

    __slots__ = ("file",)

    def __init__(self, file: AppendFile) -> None:
        self.file = file

    @property
    def count(self) -> int:
        return self.file.end // DISPATCH_BYTES

    def append(self, numbers: Sequence[int], what: int, at_ms: int, to_hour: int = 0) -> None:
        """Note what became of messages."""
        entries = np.zeros(len(numbers), dtype=DISPATCH)
        entries["number"], entries["what"], entries["at"], entries["to_hour"] = numbers, what, at_ms, to_hour
        entries["check"] = dispatch_checks(entries)
        self.file.append(entries.tobytes())

    def read(self, begin: int, end: int) -> tuple[DispatchArray, int]:
        """Entries [begin, end) that pass their check, in order, and how many do not; from any thread. Raises LogError."""
        entries = np.frombuffer(self.file.read(begin * DISPATCH_BYTES, end * DISPATCH_BYTES), dtype=DISPATCH)
        good = entries["check"] == dispatch_checks(entries)
        return entries[good], int(len(entries) - good.sum())
