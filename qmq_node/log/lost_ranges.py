"""class LostRanges: the parts of a log that its broker group has lost, as far as is known."""

import json
import logging
import threading
from collections.abc import Iterable

from qmq.errors import LogError
from qmq_node.log.atomic_file import CheckedFile
from qmq_node.log.checkpoint import as_number
from qmq_node.log.disk import Disk

logger = logging.getLogger("qmq_node.log")

LOST_RANGES_MAX = 1_000
"""Ranges that a log may have lost. A log with more can't be copied, nor can a member with more be promoted."""
_FILE_BYTES_MAX = 64 << 10

Range = tuple[int, int]
"""Log offsets [begin, end): the end of a commit, and the begin of the next one that is whole. Equal ones: a commit does not follow
the one before it."""


class LostRanges:
    """A file beside the log's folder.

    A range is in the file before a commit behind it is written here: recovery then accepts exactly this range as damage, also where
    it would truncate a copy at its first bad place. A range is a permission, it does not claim that there is damage: the bytes may
    be repaired, or may never have been damaged on this disk. Without the file, or if it can't be read, recovery accepts nothing: a
    copy is truncated and continued, and a member that is in use is not promoted.

    Changes are for threads that may wait for the disk, `ranges` is for any.
    """

    def __init__(self, disk: Disk, folder: str) -> None:
        parent, _, name = folder.rpartition("/")
        self._file = CheckedFile(disk, parent or ".", f"{name}.lost", _FILE_BYTES_MAX)
        self._lock = threading.Lock()
        self.ranges: tuple[Range, ...] = ()
        """In order."""

    @classmethod
    def load(cls, disk: Disk, folder: str) -> "LostRanges":
        """Return what the file has; nothing, which is logged, if it can't be read."""
        lost = cls(disk, folder)
        try:
            if (data := lost._file.load()) is not None:
                lost.ranges = tuple((as_number(begin), as_number(end)) for begin, end in json.loads(data))
        except (OSError, ValueError, TypeError, RecursionError) as error:
            logger.error("the ranges that the log has lost can't be read: %s", error)
        return lost

    def covers(self, begin: int, end: int) -> bool:
        """Whether all of a range is lost."""
        return any(low <= begin and end <= high for low, high in self.ranges)

    def add(self, found: Iterable[Range], log_begin: int) -> None:
        """Record durably that ranges are lost; those below the log's begin are dropped.

        Raises LogError for more than LOST_RANGES_MAX, or OSError; nothing is changed then.
        """
        with self._lock:
            new = [one for one in found if not self.covers(*one)]
            if not new:
                return
            ranges = sorted({*self._kept(log_begin), *new})
            if len(ranges) > LOST_RANGES_MAX:
                raise LogError(
                    f"the log has lost {len(ranges)} ranges, the maximum is {LOST_RANGES_MAX}", code="log.too_damaged"
                )
            self._save(ranges)

    def forget_from(self, offset: int) -> None:
        """Drop, durably, all ranges that end above a log offset: what is there is removed, or will be written. Raises OSError."""
        with self._lock:
            ranges = [one for one in self.ranges if one[1] <= offset and one[0] < offset]
            if len(ranges) < len(self.ranges):
                self._save(ranges)

    def _kept(self, log_begin: int) -> list[Range]:
        return [one for one in self.ranges if one[1] > log_begin]

    def _save(self, ranges: list[Range]) -> None:
        self._file.save(json.dumps(ranges).encode())
        self.ranges = tuple(ranges)
