"""One subject's dense index: consume sequence to place in the message log.

Entry *n* is at *n* x 32 bytes: i64 log offset and u32 size of the raw message, i64 stored_at_ms, u64 tag digest
(`qmq.protocol.scan.tag_digest`), u32 check. The check is the CRC of the entry's other bytes, started from the message's
own CRC, so one comparison before a message is handed out proves entry and message both, and that they belong together.
Derived from the message log, never the truth: an entry that fails its check is made again from the log.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

from qmq.checksum import crc32
from qmq.protocol.scan import Run
from qmq_node.log.index import DenseIndex, IndexView

ENTRY = Struct(">qIqQI")
ENTRY_BYTES = ENTRY.size
assert ENTRY_BYTES == 32, "Spark and the inspector rely on the entry's size"

_HEAD_FIELDS = "qIqQ"
_HEAD = Struct(">" + _HEAD_FIELDS)
_CHECK = Struct(">I")
ENTRY_HEAD_BYTES = _HEAD.size
"""The part of an entry that its check covers."""
_HEAD_BYTES_FIELD = f"{ENTRY_HEAD_BYTES}s"
CHECKED_FIELDS = f"{ENTRY_HEAD_BYTES}sI"
"""Of an entry, what its check covers, and the check."""
PLACE_FIELDS = "qI20x"
"""Of an entry, where its message lies."""
BLOCK_ENTRIES = 256
"""Entries encoded or decoded in one call. Formats are kept for each number up to it: 10 MB in all."""
ENCODED_TOGETHER_MIN = 15
"""Fewer entries are encoded one by one, which takes less time."""
KNOWN_LOOK = 64
"""Entries searched first for one whose message is known."""
KNOWN_LOOK_MAX = 256
"""Entries searched in all: more than a page of the file, which reads as zeros when the disk can't read it."""


class Entry(NamedTuple):
    """Where a message lies. A size of 0 marks a sequence whose message is withheld: its commit was damaged."""

    log_offset: int
    size: int
    stored_at_ms: int
    tag_bits: int
    check: int

    @property
    def is_withheld(self) -> bool:
        return self.size == 0


@lru_cache(4 * (BLOCK_ENTRIES + 1))
def _block(fields: str, count: int) -> Struct:
    return Struct(">" + fields * count)


def entry_fields(fields: str, index_bytes: bytes) -> Sequence[Any]:
    """Return two fields of each index entry, one after the other."""
    if (count := len(index_bytes) // ENTRY_BYTES) <= BLOCK_ENTRIES:
        return _block(fields, count).unpack(index_bytes)
    found: list[Any] = []
    for at in range(0, len(index_bytes), BLOCK_ENTRIES * ENTRY_BYTES):
        found += entry_fields(fields, index_bytes[at : at + BLOCK_ENTRIES * ENTRY_BYTES])
    return found


def entry_at(index_bytes: bytes, place: int) -> bytes:
    """Return one entry of several."""
    return index_bytes[place * ENTRY_BYTES : (place + 1) * ENTRY_BYTES]


def encode_run(run: Run, entries_offset: int, stored_at_ms: int) -> bytes:
    """Return the entries of a run whose messages begin at log offset `entries_offset`."""
    if run.count >= ENCODED_TOGETHER_MIN:
        return _encode_together(run, entries_offset, stored_at_ms)
    head, pack_check = _HEAD.pack, _CHECK.pack
    base = entries_offset - run.begin
    parts: list[bytes] = []
    add = parts.append
    for begin, size, bits, crc in zip(run.raw_begins, run.raw_sizes(), run.tag_bits, run.crcs, strict=True):
        entry = head(base + begin, size, stored_at_ms, bits)
        add(entry)
        add(pack_check(crc32(entry, crc)))
    return b"".join(parts)


def _encode_together(run: Run, entries_offset: int, stored_at_ms: int) -> bytes:
    """As `encode_run`, with three calls for all entries of a block."""
    count, base = run.count, entries_offset - run.begin
    if count > BLOCK_ENTRIES:
        parts = (run.part(first, min(first + BLOCK_ENTRIES, count)) for first in range(0, count, BLOCK_ENTRIES))
        return b"".join([encode_run(part, base + part.begin, stored_at_ms) for part in parts])
    fields = [stored_at_ms] * (4 * count)
    fields[::4] = [base + begin for begin in run.raw_begins]
    fields[1::4] = run.raw_sizes()
    fields[3::4] = run.tag_bits
    heads = _block(_HEAD_BYTES_FIELD, count).unpack(_block(_HEAD_FIELDS, count).pack(*fields))
    checked: list[Any] = [0] * (2 * count)
    checked[::2] = heads
    checked[1::2] = map(crc32, heads, run.crcs)
    return _block(CHECKED_FIELDS, count).pack(*checked)


def encode_withheld(count: int) -> bytes:
    """Entries for sequences whose messages can't be served."""
    entry = _HEAD.pack(0, 0, 0, 0)
    return (entry + _CHECK.pack(crc32(entry, 0))) * count


def withheld_ranges(view: IndexView, begin: int, end: int) -> list[tuple[int, int]]:
    """The ranges of sequences in [begin, end) that a view holds, without an entry that says where the message is.

    From a thread. Raises LogError.
    """
    found: list[tuple[int, int]] = []
    end = min(end, view.end)
    for first in range(max(begin, view.begin), end, BLOCK_ENTRIES):
        entries = view.read(first, min(first + BLOCK_ENTRIES, end))
        for sequence, entry in enumerate(map(Entry._make, ENTRY.iter_unpack(entries)), first):
            if entry.is_withheld and found and found[-1][1] == sequence:
                found[-1] = found[-1][0], sequence + 1
            elif entry.is_withheld:
                found.append((sequence, sequence + 1))
    return found


def _known(index: DenseIndex | IndexView, sequence: int) -> Entry | None:
    """The first entry from `sequence` on whose message is not withheld; None when there is none near."""
    for begin, end in ((sequence, sequence + KNOWN_LOOK), (sequence + KNOWN_LOOK, sequence + KNOWN_LOOK_MAX)):
        if (entry := first_known(index.read(begin, end))) is not None:
            return entry
    return None


def first_known(entries: bytes) -> Entry | None:
    """The first entry whose message is not withheld."""
    return next((entry for entry in map(Entry._make, ENTRY.iter_unpack(entries)) if not entry.is_withheld), None)


def stored_at_ms(index: DenseIndex | IndexView, sequence: int) -> int | None:
    """When a message was stored; for a withheld one, when the next known one was. Of a view from any thread."""
    entry = _known(index, sequence)
    return entry.stored_at_ms if entry is not None else None


def find_time(index: DenseIndex | IndexView, at_ms: int) -> int:
    """The first sequence stored at or after a wall time; `end` when there is none. Of a view from any thread.

    Store times may step back with the wall clock; then this finds one place where they cross the time asked for.
    """
    return _first(index, at_ms, lambda entry: entry.stored_at_ms)


def find_offset(index: DenseIndex | IndexView, log_offset: int) -> int:
    """The first sequence whose message lies at or above a log offset; `end` when there is none. Of a view from any thread."""
    return _first(index, log_offset, lambda entry: entry.log_offset)


def _first(index: DenseIndex | IndexView, value: int, of: Callable[[Entry], int]) -> int:
    """The first sequence whose entry, or the next known one, has at least this value; `end` when there is none."""

    def found(sequence: int) -> int:
        entry = _known(index, sequence)
        return value if entry is None else of(entry)

    return index.begin + bisect_left(range(index.begin, index.end), value, key=found)
