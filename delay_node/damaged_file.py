"""class DamagedFile: a file of the data folder that names damaged ranges of hours, as a start would not find them soon."""

import json
import logging
from collections.abc import Iterable

from qmq_node.log.atomic_file import CheckedFile
from qmq_node.log.checkpoint import as_number, as_text
from qmq_node.log.disk import Disk
from qmq_node.repair.ranges import DamagedRange

FILE_NAME = "damaged_hours"
FILE_BYTES_MAX = 4 << 20
"""Largest file that is read."""

logger = logging.getLogger("qmq.delay.repair")


class DamagedFile:
    """The file. Its methods are for threads that may wait for the disk."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._file = CheckedFile(disk, root, FILE_NAME, FILE_BYTES_MAX)

    def load(self) -> list[DamagedRange]:
        """Return the ranges; none if the file can't be read, which is logged: they are found again when they are read."""
        try:
            data = self._file.load()
            return [_decoded(*entry) for entry in json.loads(data)] if data is not None else []
        except (OSError, ValueError, TypeError, RecursionError) as error:
            logger.error("which hours are damaged is not known: %s can't be read: %s", self._file.path, error)
            return []

    def save(self, ranges: Iterable[DamagedRange]) -> None:
        """Replace the ranges, durably. Raises OSError."""
        self._file.save(json.dumps([[*damaged.place, damaged.why] for damaged in ranges]).encode())


def _decoded(file: str, since: int, begin: int, end: int, why: str) -> DamagedRange:
    return DamagedRange(as_text(file), as_number(since), as_number(begin), as_number(end), as_text(why))
