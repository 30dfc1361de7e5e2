"""TailsFile: one file for the ends of many indexes, so that a checkpoint writes what is new in them, once.

An index writes to its own file when some KiB have gathered. Until then its entries are in memory, and checkpoints append them
to this file: 40,000 subjects with 3 groups would be 160,000 files to write and to sync.

    u64 number of an index · u64 place: bytes of the index before these · u32 bytes · the entries     and so on

Later bytes of an index replace what it has from their place on. A checkpoint says which file it counts on, up to which size, and
the CRC up to there; what is behind is of a process that died. When most of a file is of no use any more, the next checkpoint
begins another one with all entries. From any one thread at a time, except where a docstring says otherwise.
"""

from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from qmq.checksum import crc32
from qmq.errors import LogError
from qmq_node.log.checkpoint import as_number
from qmq_node.log.disk import Buffer, Disk
from qmq_node.log.index import DenseIndex

USELESS_BYTES_MIN = 16 << 20
"""A file with fewer bytes that are of no use is continued."""
READ_BYTES = 4 << 20
"""Read at a time, at start; and the most that the entries of one index can be."""
_HEAD = Struct(">QQI")
_NAME = "tails"


class TailsWrong(LogError):
    """The file does not hold what a checkpoint counts on."""

    code = "log.tails_wrong"


@dataclass(slots=True)
class TailsPosition:
    """What a checkpoint counts on."""

    file: int = 0
    size: int = 0
    crc: int = 0
    first: int = 1
    """Lower numbers belong to earlier files."""
    next: int = 1
    """The number for the next index that gets one."""

    @classmethod
    def decode(cls, state: Mapping[str, Any]) -> "TailsPosition":
        """From a checkpoint's head, which has the fields by name. Raises ValueError or LookupError."""
        return cls(*(as_number(state[name]) for name in ("file", "size", "crc", "first", "next")))


@dataclass(slots=True)
class TailsDraft:
    """New entries of indexes, to be written behind `begin`, after which the file is at `position`."""

    position: TailsPosition
    begin: int = 0
    parts: list[bytes] = field(default_factory=list)
    live_bytes: int = 0
    """Entries of indexes in all, written before or not."""
    _slice: list[Buffer] = field(default_factory=list)

    def add(self, index: DenseIndex) -> int:
        """Add what is new of an index's entries in memory. Returns the number they are found by; 0 if it has none in memory."""
        tail = index.tail
        begin, end = tail.written_end, tail.end
        if begin == end:
            return 0
        position = self.position
        if tail.number < position.first:
            tail.number, tail.saved_end = position.next, begin
            position.next += 1
        saved = tail.saved_end
        if saved < end:
            self._slice.append(_HEAD.pack(tail.number, saved, end - saved))
            self._slice += tail.memory(saved, end)[1]
            tail.saved_end = end
        self.live_bytes += end - begin
        return tail.number

    def end_slice(self) -> None:
        """Copy what was added: its owners change it further."""
        if self._slice:
            data, position = b"".join(self._slice), self.position
            position.size, position.crc = position.size + len(data), crc32(data, position.crc)
            self.parts.append(data)
            self._slice.clear()


class TailsFile:
    """The files of one folder. Drafts are made, and `saved`, on the thread of the indexes."""

    def __init__(self, disk: Disk, folder: str) -> None:
        self._disk = disk
        self._folder = folder
        self._position = TailsPosition()
        self._live_bytes = 0
        self._is_known = False
        """Whether a checkpoint is saved that counts on the file at this position, so that it can be continued."""
        self._kept = 0
        """The file that the checkpoint before counts on."""

    def _path(self, file: int) -> str:
        return f"{self._folder}/{_NAME}.{file:012d}"

    def _files(self) -> list[int]:
        names = [name.removeprefix(f"{_NAME}.") for name in self._disk.list_dir(self._folder)]
        return [int(name) for name in names if name.isdigit()]

    def draft(self) -> TailsDraft:
        """Begin a draft. One that is never `saved` makes the next one begin a file, as does a file of little use."""
        at = self._position
        if not self._is_known or at.size > 2 * self._live_bytes + USELESS_BYTES_MIN:
            self._position = at = TailsPosition(at.file + 1, first=at.next, next=at.next)
        self._is_known = False
        return TailsDraft(at, at.size)

    def write(self, draft: TailsDraft) -> None:
        """Make a draft durable; it counts when a checkpoint says so. Raises OSError."""
        if not draft.parts:
            return
        file, is_new = draft.position.file, not draft.begin
        if is_new:
            self._disk.make_dir(self._folder)
            # A checkpoint whose save failed may exist, and count on the file before.
            self._delete_all_but({file - 1, self._kept} - {file})
        path = self._path(file)
        try:
            with closing(self._disk.create(path, 0) if is_new else self._disk.open(path, writable=True)) as opened:
                opened.pwritev(draft.parts, draft.begin)
                opened.datasync()
        except OSError:
            if is_new:
                # No checkpoint counts on it, and on a full disk each byte counts.
                with suppress(OSError):
                    self._disk.remove(path)
            raise
        if is_new:
            self._disk.sync_dir(self._folder)

    def delete_others(self, draft: TailsDraft) -> None:
        """Delete files that neither the checkpoint of this draft counts on nor the one before. Raises OSError."""
        file = draft.position.file
        self._delete_all_but({file, self._kept, file if draft.begin else file - 1})

    def _delete_all_but(self, needed: set[int]) -> None:
        for file in self._files():
            if file not in needed:
                self._disk.remove(self._path(file))

    def saved(self, draft: TailsDraft) -> None:
        """A checkpoint that counts on this draft is saved."""
        self._live_bytes, self._is_known, self._kept = draft.live_bytes, True, draft.position.file

    def load(self, position: TailsPosition, indexes: Mapping[int, DenseIndex]) -> None:
        """Give indexes their entries, by number, and continue from this position; from a thread that may wait.

        Raises TailsWrong when the file does not hold what was written up to there, or its entries do not fit.
        """
        try:
            if max(indexes, default=0) >= position.next:
                raise ValueError(f"has no index {max(indexes)}, the next one is {position.next}")
            if position.size:
                self._read(position, indexes)
        except (OSError, ValueError) as error:
            raise TailsWrong(f"{self._path(position.file)}: {error}") from error
        self._live_bytes = sum(index.tail.end - index.tail.written_end for index in indexes.values())
        self._position, self._kept, self._is_known = position, position.file, position.file > 0

    def _read(self, position: TailsPosition, indexes: Mapping[int, DenseIndex]) -> None:
        crc, at, rest = 0, 0, b""
        with closing(self._disk.open(self._path(position.file), writable=False)) as file:
            while at < position.size:
                data = file.pread(min(READ_BYTES, position.size - at), at)
                if not data:
                    raise ValueError(f"ends at {at}, the checkpoint counts on {position.size} bytes")
                crc, at = crc32(data, crc), at + len(data)
                rest = _give(rest + data, indexes)
                if len(rest) > READ_BYTES + _HEAD.size:
                    raise ValueError(f"has entries of more than {READ_BYTES} bytes before {at}")
        if rest or crc != position.crc:
            raise ValueError("its CRC does not match the checkpoint's")


def _give(data: bytes, indexes: Mapping[int, DenseIndex]) -> bytes:
    """Give indexes the entries in `data`; what is behind the last whole ones. Raises ValueError for those that don't fit."""
    at, last = 0, len(data) - _HEAD.size
    while at <= last:
        number, place, size = _HEAD.unpack_from(data, at)
        begin = at + _HEAD.size
        end = begin + size
        if end > len(data):
            break
        index = indexes.get(number)
        if index is not None:
            index.restore(place, data[begin:end], number)
        at = end
    return data[at:]
