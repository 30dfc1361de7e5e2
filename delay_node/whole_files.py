"""class WholeFiles: a file of the data folder that says what of the files of hours is whole while a node copies them.

Sizes of files say nothing after a power cut, and names are used again. So the file has for each hour where its use began, and how
many bytes of its three files are synced. It is there from when a copy begins until the store is opened with what was copied.
"""

import json
import logging
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from delay_node.checkpoint import HourRow
from delay_node.schedule_log import DISPATCH_BYTES, INDEX_BYTES, hour_name
from qmq_node.log.atomic_file import CheckedFile
from qmq_node.log.checkpoint import as_number
from qmq_node.log.disk import Disk
from qmq_node.log.epochs import NO_EPOCHS, EpochChain

FILE_NAME = "copied"
FILE_BYTES_MAX = 64 << 20
"""Largest file that is read: 1.8 million hours."""
_ROW = Struct(">IQQQQ")
"""hour, log offset of its first record, bytes of index, dispatch log and data."""

logger = logging.getLogger("qmq.delay.copying")


@dataclass(slots=True)
class WholeBytes:
    """Of the files of one use of an hour: how many bytes from the first on are whole."""

    begins_at: int
    index: int = 0
    dispatch: int = 0
    data: int = 0

    @classmethod
    def counted(cls, row: HourRow) -> "WholeBytes":
        """Return what a checkpoint counts."""
        return cls(row.begins_at, row.messages * INDEX_BYTES, row.dispatch_count * DISPATCH_BYTES, row.data_bytes)

    def limited(self, to: "WholeBytes") -> "WholeBytes":
        """Return what both have."""
        return WholeBytes(
            self.begins_at, min(self.index, to.index), min(self.dispatch, to.dispatch), min(self.data, to.data)
        )

    @property
    def total(self) -> int:
        return self.index + self.dispatch + self.data


class Part(NamedTuple):
    """A file of an hour, as slaves name it."""

    name: str
    field: str
    """Of `WholeBytes`, which counts its bytes."""
    bytes: int
    """How many a checkpoint counts."""


def parts_of(row: HourRow) -> tuple[Part, Part, Part]:
    """Return the files of an hour in the order in which they are copied: messages are checked by the index."""
    name, counted = hour_name(row.hour), WholeBytes.counted(row)
    return (
        Part(f"schedule/{name}.index", "index", counted.index),
        Part(f"dispatch/{name}", "dispatch", counted.dispatch),
        Part(f"schedule/{name}.data", "data", counted.data),
    )


@dataclass(slots=True)
class Whole:
    """What is whole. Files have it when the log is applied up to an offset."""

    log_end: int = 0
    """That offset."""
    epochs: EpochChain = NO_EPOCHS
    """Of that log."""
    applied_to: int = 0
    """Records below this offset may have changed files: some of them may belong to a later use of their hour."""
    hours: dict[int, WholeBytes] = field(default_factory=dict)

    def of_state(self, log_end: int, epochs: EpochChain, counted: dict[int, WholeBytes]) -> "Whole":
        """Return what of it belongs to another state: that of a log up to `log_end`, whose checkpoint counts `counted`."""
        epochs = epochs.truncated(log_end)
        common = self.epochs.truncated(self.log_end).common_end(self.log_end, epochs, log_end)
        fits = common is not None and common >= min(self.log_end, log_end) and log_end >= self.applied_to
        known = self.hours if fits else {}
        hours = {
            hour: whole.limited(counted[hour])
            for hour, whole in known.items()
            if hour in counted and whole.begins_at == counted[hour].begins_at
        }
        return Whole(log_end, epochs, 0, hours)

    def encode(self) -> bytes:
        head = {"log_end": self.log_end, "epochs": list(self.epochs), "applied_to": self.applied_to}
        rows = (_ROW.pack(hour, w.begins_at, w.index, w.dispatch, w.data) for hour, w in self.hours.items())
        return json.dumps(head).encode() + b"\n" + b"".join(rows)

    @classmethod
    def decode(cls, data: bytes) -> "Whole":
        """Raises ValueError, LookupError, TypeError, struct.error."""
        line, _, rows = data.partition(b"\n")
        head = json.loads(line)
        epochs = EpochChain.of((as_number(epoch), as_number(begin)) for epoch, begin in head["epochs"])
        hours = {hour: WholeBytes(*numbers) for hour, *numbers in _ROW.iter_unpack(rows)}
        return cls(as_number(head["log_end"]), epochs, as_number(head["applied_to"]), hours)


class WholeFiles:
    """The file. Its methods are for threads that may wait for the disk."""

    def __init__(self, disk: Disk, root: str) -> None:
        self._file = CheckedFile(disk, root, FILE_NAME, FILE_BYTES_MAX)

    def load(self) -> Whole | None:
        """Return what is whole; None without a file, or with one that can't be read, which is logged: then nothing is known."""
        try:
            data = self._file.load()
            return Whole.decode(data) if data is not None else None
        except (OSError, ValueError, LookupError, TypeError, RecursionError, StructError) as error:
            logger.error("what was copied is copied again: %s can't be read: %s", self._file.path, error)
            return Whole()

    def save(self, whole: Whole) -> None:
        """Replace the file, durably. What it says must be synced before. Raises OSError."""
        self._file.save(whole.encode())

    def remove(self) -> None:
        """Remove the file, durably, before a file of an hour changes in another way than by copying. Raises OSError."""
        self._file.remove()
