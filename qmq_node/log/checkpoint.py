"""Small state, written atomically. The two newest are kept.

A file: u32 magic · u16 version · u16 0 · i64 log offset · i64 chain · i64 synced_to · u64 state bytes · u32 CRC of all before
it and of the state · state.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from struct import Struct

from qmq.checksum import crc32
from qmq.errors import LogError
from qmq_node.log.atomic_file import replace_file
from qmq_node.log.disk import Disk, File
from qmq_node.log.record import Position

logger = logging.getLogger("qmq_node.log")

_MAGIC = 0x514D514B  # "QMQK"
_VERSION = 1
_HEAD = Struct(">IHHqqqQ")
_CRC = Struct(">I")
KEEP = 2
STATE_BYTES_MAX = 1 << 31
"""Largest state that is believed when read."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State that holds everything of the log below `log_position`; up to `synced_to` the log was known synced."""

    state: bytes
    log_position: Position
    synced_to: int


def as_number(value: object, minimum: int = 0) -> int:
    """A whole number of a checkpoint's JSON. Raises ValueError for others, or out of the range of sequences, offsets and times."""
    if type(value) is not int or not minimum <= value < 1 << 63:
        raise ValueError(f"{value!r} where a number from {minimum} on belongs")
    return value


def as_text(value: object) -> str:
    """A name of a checkpoint's JSON. Raises ValueError for anything but a text with a UTF-8 form."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} where a text belongs")
    value.encode()
    return value


class CheckpointStore:
    """Checkpoints of one name in one folder, numbered upwards."""

    def __init__(self, disk: Disk, folder: str, name: str) -> None:
        self._disk = disk
        self._folder = folder
        self._name = name

    def _numbers(self) -> list[int]:
        prefix = f"{self._name}."
        tails = [n[len(prefix) :] for n in self._disk.list_dir(self._folder) if n.startswith(prefix)]
        return sorted(int(tail) for tail in tails if tail.isdigit())

    def _path(self, number: int) -> str:
        return f"{self._folder}/{self._name}.{number:012d}"

    def save(self, state: Sequence[bytes], log_position: Position, synced_to: int) -> None:
        """Save a state, given in parts. Durable when it returns. Raises OSError; the older checkpoints are untouched then."""
        self._disk.make_dir(self._folder)
        numbers = self._numbers()
        head = _HEAD.pack(_MAGIC, _VERSION, 0, log_position.offset, log_position.chain, synced_to, sum(map(len, state)))
        crc = crc32(head)
        for part in state:
            crc = crc32(part, crc)
        replace_file(
            self._disk,
            self._path(numbers[-1] + 1 if numbers else 1),
            [head, _CRC.pack(crc), *state],
            temporary=f"{self._folder}/{self._name}.tmp",
        )
        for number in numbers[: -(KEEP - 1)]:
            self._disk.remove(self._path(number))

    def load(self) -> Checkpoint | None:
        """The newest whole one; others are logged."""
        for number in reversed(self._numbers()):
            found = self._read(self._path(number))
            if isinstance(found, Checkpoint):
                return found
            logger.error("a corrupted checkpoint was skipped: %s: %s", self._path(number), found)
        return None

    def open_newest(self) -> "CheckpointFile | None":
        """Open the newest one, to be sent to another node as it is; None if there is none. Raises OSError."""
        numbers = self._numbers()
        if not numbers:
            return None
        file = self._disk.open(self._path(numbers[-1]), writable=False)
        _, _, _, offset, chain, _, _ = _HEAD.unpack(file.pread(_HEAD.size, 0).ljust(_HEAD.size, b"\0"))
        return CheckpointFile(file, Position(offset, chain), file.size())

    def _read(self, path: str) -> Checkpoint | str:
        with closing(self._disk.open(path, writable=False)) as file:
            size = file.size()
            return decode_checkpoint(file.pread(size, 0)) if size <= STATE_BYTES_MAX else f"claims {size} bytes"


def decode_checkpoint(data: bytes) -> Checkpoint | str:
    """Return the checkpoint of a file with this content, or what is wrong with it."""
    head_bytes = _HEAD.size + _CRC.size
    if len(data) < head_bytes:
        return "cut short"
    magic, version, _, offset, chain, synced_to, size = _HEAD.unpack_from(data)
    if magic != _MAGIC or version != _VERSION:
        return f"magic {magic:#x}, version {version}"
    if size > len(data):
        return f"claims {size} bytes"
    state = data[head_bytes : head_bytes + size]
    if len(state) != size or crc32(state, crc32(data[: _HEAD.size])) != _CRC.unpack_from(data, _HEAD.size)[0]:
        return "its CRC does not match"
    return Checkpoint(state, Position(offset, chain), synced_to)


def save_copied(
    files: CheckpointStore, data: bytes, own_state: Callable[[Checkpoint], tuple[Sequence[bytes], int]]
) -> tuple[int, int]:
    """Save the checkpoint of another member as the one of this node.

    Args:
        data: the content of its file.
        own_state: returns the state that this node is to have, in parts, and the log offset up to which that may hold records.
            Raises LogError if the state of the other member can't be read.

    Returns:
        The log offset where the checkpoint stands, and the one up to which it may hold records.

    Raises:
        LogError: it can't be read.
        OSError: nothing is lost, try again.
    """
    found = decode_checkpoint(data)
    if not isinstance(found, Checkpoint):
        raise LogError(f"the checkpoint of the master: {found}", code="log.damaged")
    state, records_end = own_state(found)
    files.save(state, found.log_position, found.synced_to)
    return found.log_position.offset, records_end


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """A checkpoint's file, open. It can be read from any thread, also when it is removed. The last reference closes it."""

    _file: File
    position: Position
    """Of the checkpoint, as the file says; its CRC was not checked."""
    size: int

    def read(self, begin: int, size: int) -> bytes:
        """Return bytes of the file. Raises OSError."""
        return self._file.pread(size, begin)
