"""The stored snapshot in chunks, so that a beat writes, and a reader reads and parses, what changed. No I/O.

Subjects and consumer groups are divided by subject into CHUNKS; one more chunk holds all other sections. A chunk is a base and
the deltas since, as a sequence of frames. It only grows, until the writer replaces it under a new key (a new *generation*). So the
first n bytes of a key never change, and a reader that has read n bytes reads on from there. The head names the generation
and the size of each chunk.
"""

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from console.snapshot.frames import NO_ENTRIES, SnapshotError, deltas, frames
from console.snapshot.state import Delta, Entry, State, divided, empty, encode

FORMAT = 1
"""Of the stored snapshot; one of another format is ignored."""
CHUNKS = 64
"""Chunks of subjects and consumer groups."""
REWRITES_MAX = 8
"""Chunks that one beat rewrites because their deltas outgrew them."""
GROWTH_BYTES_MIN = 4_096
"""Deltas up to this size cause no rewrite, however small the chunk is."""
CHUNK_BYTES_MAX = 16 << 20
"""Compressed bytes of one chunk that a reader accepts."""
SNAPSHOT_BYTES_MAX = 128 << 20
"""Compressed bytes of a snapshot that a reader accepts."""

_OF_SUBJECTS = ("subjects", "groups")


def chunk_of(section: str, key: str) -> int:
    """The chunk that holds an entry."""
    if section not in _OF_SUBJECTS:
        return 0
    return 1 + zlib.crc32(key.partition("\n")[0].encode(errors="surrogatepass")) % CHUNKS


# --- writing ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Written:
    """A chunk as it is stored."""

    generation: int = 0
    base_bytes: int = 0
    size: int = 0
    entries: State = field(default_factory=empty)

    @property
    def growth(self) -> int:
        return self.size - self.base_bytes

    def take(self, change: Delta, state: State) -> None:
        """Follow a delta, with the entries of the state behind it."""
        for section, parts in change.items():
            entries = self.entries[section]
            for key in parts["gone"]:
                entries.pop(key, None)
            for key in parts["set"]:
                entries[key] = state[section][key]


@dataclass(slots=True)
class Write:
    """What one beat writes: first `bases()`, each to its key, then `appended` with `head`."""

    stream: str
    version: int
    chunks: list[_Written]
    rewritten: list[int]
    appended: list[tuple[int, bytes]]
    """(chunk, frames)."""
    bytes_count: int = 0
    """Of bases and frames so far."""

    def bases(self) -> Iterator[tuple[str, bytes, str | None]]:
        """Yield (key, value, the replaced key; None: none) of each rewritten chunk, encoded on demand."""
        for index in self.rewritten:
            chunk = self.chunks[index]
            data = frames({section: {"gone": [], "set": entries} for section, entries in chunk.entries.items()})
            data = data or NO_ENTRIES
            replaced = chunk_key(self.stream, index, chunk.generation) if chunk.generation else None
            chunk.generation, chunk.base_bytes, chunk.size = self.version, len(data), len(data)
            self.bytes_count += len(data)
            yield chunk_key(self.stream, index, self.version), data, replaced

    @property
    def keys(self) -> list[str]:
        """Of all chunks."""
        return [chunk_key(self.stream, index, chunk.generation) for index, chunk in enumerate(self.chunks)]

    @property
    def sizes_before(self) -> list[int]:
        """The size of each chunk before the frames are appended."""
        added = {index: len(data) for index, data in self.appended}
        return [chunk.size - added.get(index, 0) for index, chunk in enumerate(self.chunks)]

    @property
    def places(self) -> list[tuple[int, int]]:
        """(generation, size) of each chunk afterwards."""
        return [(chunk.generation, chunk.size) for chunk in self.chunks]


def chunk_key(stream: str, index: int, generation: int) -> str:
    """The last part of a chunk's key."""
    return f"{stream}:{index}:{generation}"


class SnapshotWriter:
    """Decides what each beat writes. `forget` after a write that failed: the next one writes everything."""

    def __init__(self) -> None:
        self._stream = ""
        self._chunks: list[_Written] = []

    def forget(self) -> None:
        """Assume nothing of what is stored."""
        self._stream, self._chunks = "", []

    def write(self, stream: str, version: int, state: State, change: Delta) -> Write:
        """What stores `state`; `change` made it of the state that was written before."""
        if stream != self._stream:
            self._stream, self._chunks = stream, [_Written() for _ in range(CHUNKS + 1)]
            everything = {section: {"gone": [], "set": entries} for section, entries in state.items()}
            for index, part in divided(everything, chunk_of).items():
                self._chunks[index].take(part, state)
            return Write(stream, version, self._chunks, list(range(CHUNKS + 1)), [])
        rewritten = self._outgrown()
        appended = []
        for index, part in divided(change, chunk_of).items():
            chunk = self._chunks[index]
            chunk.take(part, state)
            if index not in rewritten:
                appended.append((index, frames(part)))
        write = Write(stream, version, self._chunks, rewritten, appended)
        for index, data in appended:
            self._chunks[index].size += len(data)
            write.bytes_count += len(data)
        return write

    def _outgrown(self) -> list[int]:
        """The chunks whose deltas are larger than their bases, the largest first."""
        found = [
            index for index, chunk in enumerate(self._chunks) if chunk.growth > max(chunk.base_bytes, GROWTH_BYTES_MIN)
        ]
        return sorted(found, key=lambda index: -self._chunks[index].growth)[:REWRITES_MAX]


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Head:
    """What a snapshot begins with."""

    stream: str
    version: int
    at: str
    at_ms: int
    chunks: list[tuple[int, int]]
    """(generation, size) of each chunk."""


def head_text(head: Mapping[str, Any], at_ms: int, places: Iterable[tuple[int, int]]) -> str:
    """A head as it is stored; `head` has stream, version, at."""
    return encode({"format": FORMAT, **head, "at_ms": at_ms, "chunks": list(places)})


def head_of(text: bytes | str | None) -> Head | None:
    """A stored head; None for none, for one of another format, and for one above the limits."""
    if text is None:
        return None
    try:
        found = json.loads(text)
        if found["format"] != FORMAT:
            return None
        chunks = [(int(generation), int(size)) for generation, size in found["chunks"]]
        head = Head(str(found["stream"]), int(found["version"]), str(found["at"]), int(found["at_ms"]), chunks)
    except (ValueError, KeyError, TypeError):
        return None
    sizes = [size for _, size in chunks]
    if len(sizes) != CHUNKS + 1 or min(sizes) < 0 or max(sizes) > CHUNK_BYTES_MAX or sum(sizes) > SNAPSHOT_BYTES_MAX:
        return None
    return head


@dataclass(frozen=True, slots=True)
class Missing:
    """Bytes [begin, end) of a chunk that a reader lacks."""

    index: int
    key: str
    begin: int
    end: int


@dataclass(slots=True)
class _Read:
    """A chunk as it was read."""

    generation: int = -1
    size: int = 0
    entries: State = field(default_factory=empty)


class SnapshotChunks:
    """What a reader has read so far. States that it returned are not changed: a new one shares all unchanged entries."""

    def __init__(self) -> None:
        self._begin("")

    def _begin(self, stream: str) -> None:
        self._stream = stream
        self._chunks = [_Read() for _ in range(CHUNKS + 1)]
        self._state = empty()

    def missing(self, head: Head) -> list[Missing]:
        """What has to be read for the snapshot of this head."""
        if head.stream != self._stream:
            self._begin(head.stream)
        found = []
        for index, (generation, size) in enumerate(head.chunks):
            chunk = self._chunks[index]
            begin = chunk.size if chunk.generation == generation else 0
            if begin > size:
                raise SnapshotError(f"chunk {index} became shorter")
            if begin < size or chunk.generation != generation:
                found.append(Missing(index, chunk_key(head.stream, index, generation), begin, size))
        return found

    def take(self, head: Head, read: Iterable[tuple[Missing, bytes]]) -> State:
        """The state of this head.

        Args:
            read: for each of `missing(head)` its bytes.

        Raises:
            SnapshotError: they are not what was written. This object can't be used any more.
        """
        state = dict(self._state)
        for missing, data in read:
            if len(data) != missing.end - missing.begin:
                raise SnapshotError(f"chunk {missing.index} is not stored in full")
            chunk = self._chunks[missing.index]
            if missing.begin == 0:
                entries = empty()
                for change in deltas(data):
                    _take(entries, change)
                _replace(state, self._state, chunk.entries, entries)
                chunk.entries = entries
            else:
                for change in deltas(data):
                    for section in change:
                        _own(state, self._state, section)
                    _take(chunk.entries, change, state)
            chunk.generation, chunk.size = head.chunks[missing.index]
        self._state = state
        return state


def _own(state: State, shared: State, section: str) -> dict[str, Entry]:
    """A section that may be changed: a copy, unless it is one already."""
    if state[section] is shared[section]:
        state[section] = dict(shared[section])
    return state[section]


def _take(entries: State, change: Delta, *others: State) -> None:
    """Apply a delta in place, to the entries of a chunk and to states that hold these too."""
    for section, parts in change.items():
        targets = [one[section] for one in (entries, *others)]
        for key in parts["gone"]:
            for target in targets:
                target.pop(key, None)
        for key, fields in parts["set"].items():
            before = targets[0].get(key)
            entry = fields if before is None else {**before, **fields}
            for target in targets:
                target[key] = entry


def _replace(state: State, shared: State, before: State, entries: State) -> None:
    """Put a chunk's new entries in the place of its old ones. Equal ones stay the same objects."""
    for section, new in entries.items():
        old = before[section]
        gone = [key for key in old if key not in new]
        changed = {}
        for key, entry in new.items():
            known = old.get(key)
            if known is not None and known == entry:
                new[key] = known
            else:
                changed[key] = entry
        if gone or changed:
            target = _own(state, shared, section)
            for key in gone:
                target.pop(key, None)
            target.update(changed)
