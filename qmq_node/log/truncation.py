"""Removing the end of a log so that a crash at any moment leaves it whole, or truncated to the offset that was meant.

The steps, each durable before the next: the record of what is going to be done, beside the log's folder; later segments are
removed, the newest first; the rest of the segment that remains last is zeroed; lost ranges behind the end are forgotten; the
record is removed. While there is a record, the log is not what it was and not yet what it will be: `inspect` refuses it, and
`finish_truncation` does the steps again. All of them can be repeated: a segment that is gone is passed over, and zeros are
zeroed again.

Without a record, a crash between two steps would leave a log that ends at a segment's end: commits in the middle of what was to be
removed would count again.
"""

import json
from contextlib import closing
from dataclasses import asdict, dataclass

from qmq.errors import LogError
from qmq_node.log.atomic_file import CheckedFile
from qmq_node.log.checkpoint import as_number, as_text
from qmq_node.log.disk import Disk
from qmq_node.log.lost_ranges import LostRanges
from qmq_node.log.record import UNKNOWN_CHAIN, Position
from qmq_node.log.recovery import Walker
from qmq_node.log.segment import Segments
from qmq_node.log.zeroing import zero

_FILE_BYTES_MAX = 4 << 10


@dataclass(frozen=True, slots=True)
class Truncation:
    """What a log is truncated to, and why."""

    end: int
    """The end of the last commit that stays; 0 for an empty log."""
    crc: int
    """CRC of that commit; 0 for an empty log."""
    epoch: int
    promotion_id: str
    """The promotion of the master whose log has other commits behind `end`."""


class TruncationFile:
    """The record of a truncation that has begun and is not complete, beside the log's folder."""

    def __init__(self, disk: Disk, folder: str) -> None:
        parent, _, name = folder.rpartition("/")
        self._file = CheckedFile(disk, parent or ".", f"{name}.truncation", _FILE_BYTES_MAX)

    def load(self) -> Truncation | None:
        """Return the record; None if no truncation has begun. Raises LogError for a record that can't be read."""
        try:
            data = self._file.load()
            if data is None:
                return None
            fields = json.loads(data)
            return Truncation(
                as_number(fields["end"]),
                as_number(fields["crc"]),
                as_number(fields["epoch"]),
                as_text(fields["promotion_id"]),
            )
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
            raise LogError(
                f"{self._file.path} can't be read: {error}. Part of the log may have been removed: move the data folder away, so"
                " that the node copies the log of its broker group",
                code="log.truncation_unreadable",
            ) from error

    def save(self, truncation: Truncation) -> None:
        """Record durably that a truncation begins. Raises OSError."""
        self._file.save(json.dumps(asdict(truncation)).encode())

    def remove(self) -> None:
        """Record durably that it is complete. Raises OSError."""
        self._file.remove()


def finish_truncation(disk: Disk, folder: str) -> Truncation | None:
    """Complete a truncation that a crash interrupted, and return what it was; None if there was none.

    To be called before anything else reads the log.

    Raises:
        LogError: the record can't be read, or the log has no such commit: the record is of another log.
        OSError: the disk refused; the next call continues.
    """
    record = TruncationFile(disk, folder)
    to = record.load()
    if to is None:
        return None
    segments = Segments(disk, folder)
    last = max((info.base for info in segments.infos() if info.base < max(1, to.end)), default=None)
    if last is None or (to.end and _crc_at(segments, last, to.end) != to.crc):
        raise LogError(
            f"the log in {folder} is to be truncated to offset {to.end}, where it has no commit with CRC {to.crc}: the record"
            " belongs to another log. Move the data folder away, so that the node copies the log of its broker group",
            code="log.truncation_unreadable",
        )
    for info in reversed(segments.infos()):
        if info.base > last:
            segments.remove(info.base)
            disk.sync_dir(folder)
    with closing(disk.open(segments.path(last), writable=True)) as file:
        zero(file, to.end - last, file.size())
        file.datasync()
    segments.close()
    LostRanges.load(disk, folder).forget_from(to.end)
    record.remove()
    return to


def _crc_at(segments: Segments, base: int, end: int) -> int | None:
    """Return the CRC of the commit of a segment that ends at a log offset; None if there is none."""
    # What is damaged before it stays.
    walker = Walker(segments, lambda _: None, synced_to=end, stop=lambda offset: offset >= end)
    position = walker.walk(Position(base, UNKNOWN_CHAIN)).position
    return position.chain if position.offset == end else None
