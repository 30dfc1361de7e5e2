"""The files of an hour of due time: the schedule log, entries with a dense index over them, and the dispatch log.

    schedule/YYYYMMDDHH.data     entries back to back, as they came: CRC of the raw message (i64), raw message
    schedule/YYYYMMDDHH.index    entry n at n x 32 bytes, little-endian:
        u64 place in the data file · i64 due, ms since the epoch · u32 entry bytes · u32 CRC32 of the message id ·
        u32 subject (its number on this node) · u32 check
    dispatch/YYYYMMDDHH          what left the schedule and how; the last entry of a number applies. Entry n at n x 24 bytes:
        u32 number in the hour · u8 what (`records.State`) · 3 x 0 · i64 when, ms · u32 hour it moved to, else 0 · u32 check

The check is a sum of the words before it, each times an odd number of its own: it can be made and tested for a whole
array at once, and no changed word leaves it the same. The CRC of the message itself stands in the data file.

Up to the last checkpoint these files are the only home of a message; what came later is replayed from the message log.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import mul
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from delay_node.records import HOUR_MS, ref_of
from qmq.checksum import crc32
from qmq.errors import LogError
from qmq.protocol.raw import SUBJECT_AT, TIME_AT, RawView
from qmq.protocol.scan import CRC_BYTES
from qmq_node.log.append_file import AppendFile

INDEX = np.dtype(
    [("place", "<u8"), ("due", "<i8"), ("size", "<u4"), ("id", "<u4"), ("subject", "<u4"), ("check", "<u4")]
)
INDEX_BYTES = INDEX.itemsize
DISPATCH = np.dtype(
    [("number", "<u4"), ("what", "u1"), ("zero", "u1", (3,)), ("at", "<i8"), ("to_hour", "<u4"), ("check", "<u4")]
)
DISPATCH_BYTES = DISPATCH.itemsize
assert (INDEX_BYTES, DISPATCH_BYTES) == (32, 24), "a format never changes"
_ENTRY = Struct("<QqIIII")
_WORDS = Struct("<8I")
assert _ENTRY.size == _WORDS.size == INDEX_BYTES
_FACTORS = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1, 0xB5297A4D, 0x68E31DA5)
_ODD = np.array(_FACTORS, dtype=np.uint32)
_CHECK_OF_NOTHING = 0x51D7348D
"""So that zeros are no valid entry."""
_CHECKS_OF_NOTHING = {INDEX: np.uint32(_CHECK_OF_NOTHING), DISPATCH: np.uint32(0x2545F491)}

EntryArray = NDArray[np.void]


def checks_of(entries: EntryArray) -> NDArray[np.uint32]:
    """The check words that entries of an index or a dispatch log should have."""
    words = entries.view("<u4").reshape(-1, entries.itemsize // 4)[:, :-1].astype(np.uint32)
    total: NDArray[np.uint32] = (words * _ODD[: words.shape[1]]).sum(axis=1, dtype=np.uint32)
    return total ^ _CHECKS_OF_NOTHING[entries.dtype]


def is_valid(entry: bytes) -> bool:
    """Whether one index entry has the check word that `checks_of` gives it; for a single one numpy takes ten times as long."""
    if len(entry) != INDEX_BYTES:
        return False
    *words, check = _WORDS.unpack(entry)
    expected: int = (sum(map(mul, words, _FACTORS)) & 0xFFFFFFFF) ^ _CHECK_OF_NOTHING
    return bool(expected == check)


def make_index(
    places: NDArray[np.int64], dues: NDArray[np.int64], sizes: NDArray[np.int64], ids: NDArray[np.uint32], subject: int
) -> EntryArray:
    """Index entries of one subject's messages."""
    entries = np.empty(len(dues), dtype=INDEX)
    entries["place"], entries["due"], entries["size"] = places, dues, sizes
    entries["id"], entries["subject"] = ids, subject
    entries["check"] = checks_of(entries)
    return entries


def lost_index(count: int) -> bytes:
    """Entries that stand for messages that damage of the log took: they fail their check."""
    return bytes(INDEX_BYTES * count)


def hour_name(hour: int) -> str:
    """The hour as it stands in file names: YYYYMMDDHH, UTC."""
    return datetime.fromtimestamp(hour * HOUR_MS / 1000, UTC).strftime("%Y%m%d%H")


def hour_number(name: str) -> int | None:
    """The hour of a file's name; None when it is none."""
    try:
        moment = datetime.strptime(name, "%Y%m%d%H").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp() * 1000) // HOUR_MS


def id_digests(data: memoryview, raw_begins: NDArray[np.int64]) -> NDArray[np.uint32]:
    """CRC32 of the ids of raw messages of one subject; equal ids have equal digests, and the entry itself decides."""
    octets = np.frombuffer(data, dtype=np.uint8)
    subject_at = raw_begins + SUBJECT_AT
    lengths_at = subject_at + 2 + (octets[subject_at].astype(np.int64) << 8 | octets[subject_at + 1])
    begins = lengths_at + 2
    ends = begins + (octets[lengths_at].astype(np.int64) << 8 | octets[lengths_at + 1])
    digests = [crc32(data[begin:end]) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    return np.array(digests, dtype=np.uint32)


def flags_and_times(data: memoryview, raw_begins: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The flag and the second time (the due time, when the flag says delayed) of raw messages."""
    octets = np.frombuffer(data, dtype=np.uint8)
    flags = octets[raw_begins]
    eights = octets[(raw_begins + TIME_AT)[:, None] + np.arange(8)]
    return flags, eights.view(">i8").reshape(-1).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Entry:
    """A scheduled message read back. `data` is None when its bytes fail their checks, or with `is_unread` were left out."""

    ref: int
    due_ms: int
    subject: int
    data: bytes | None
    is_unread: bool = False


class ScheduleLog:
    """The two files of one hour."""

    __slots__ = ("count", "data", "index", "next_number", "next_place")

    def __init__(self, data: AppendFile, index: AppendFile) -> None:
        self.data = data
        self.index = index
        self.count = index.end // INDEX_BYTES
        """Messages in it, gone ones included."""
        self.next_number = self.count
        """Number of the next message; above `count` while messages wait to be synced."""
        self.next_place = data.end

    def append(self, index: bytes, data: bytes | memoryview, number: int) -> None:
        """Add messages as `make_index` made them, the first with this number. Raises LogError if another number comes next."""
        if self.count != number:
            raise LogError(
                f"the schedule of an hour holds {self.count} messages where number {number} should come next"
            )
        self.count = number + len(index) // INDEX_BYTES
        self.index.append(index)
        self.data.append(data)

    def read_index(self, begin: int, end: int) -> EntryArray:
        """Index entries [begin, end); from any thread. Raises LogError."""
        return np.frombuffer(self.index.read(begin * INDEX_BYTES, end * INDEX_BYTES), dtype=INDEX)

    def read_entry(self, hour: int, number: int, bytes_max: int) -> Entry:
        """A message by number, its body only when it has at most `bytes_max` bytes; from any thread. Raises LogError."""
        index = self.index.read(number * INDEX_BYTES, (number + 1) * INDEX_BYTES)
        ref = ref_of(hour, number)
        if not is_valid(index):
            return Entry(ref, -1, -1, None)
        place, due_ms, size, _, subject, _ = _ENTRY.unpack(index)
        if size > bytes_max:
            return Entry(ref, due_ms, subject, None, is_unread=True)
        data = self.data.read(place, place + size)
        return Entry(ref, due_ms, subject, data if is_whole(data) else None)


@dataclass(eq=False, slots=True)
class DispatchLog:
    file: AppendFile

    @property
    def count(self) -> int:
        return self.file.end // DISPATCH_BYTES

    def append(self, numbers: Sequence[int], what: int, at_ms: int, to_hour: int = 0) -> None:
        """Record what became of messages."""
        entries = np.zeros(len(numbers), dtype=DISPATCH)
        entries["number"], entries["what"], entries["at"], entries["to_hour"] = numbers, what, at_ms, to_hour
        entries["check"] = checks_of(entries)
        self.file.append(entries.tobytes())

    def read(self, begin: int, end: int) -> tuple[EntryArray, int]:
        """Entries [begin, end) that pass their check, in order, and how many do not; from any thread. Raises LogError."""
        entries = np.frombuffer(self.file.read(begin * DISPATCH_BYTES, end * DISPATCH_BYTES), dtype=DISPATCH)
        good = entries["check"] == checks_of(entries)
        return entries[good], int(len(entries) - good.sum())


def is_whole(entry: bytes | memoryview) -> bool:
    """Whether a stored entry's message matches the CRC before it."""
    view = memoryview(entry)
    return len(view) > CRC_BYTES and int.from_bytes(view[:CRC_BYTES], "big") == crc32(view[CRC_BYTES:])


def message_id_of(entry: bytes | memoryview) -> str:
    """The message id of an entry that is whole."""
    return RawView(entry, CRC_BYTES).message_id
