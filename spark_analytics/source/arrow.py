"""Entries as they lie on nodes' disks to Arrow columns, a page at once. Pure: bytes in, columns out.

Three formats: index entries (`broker_node.storage.consume_log`), progress entries (`broker_node.storage.progress_log`),
schedule entries (`delay_node.schedule_log`). Executors run without the nodes' code, so the layouts stand here again;
tests hold them together.

Damage never passes in silence: whatever fails its check is left out of the columns and named in `is_damaged`.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from qmq.checksum import crc32
from qmq.protocol.bulk_read import INDEX_ENTRY_BYTES, PROGRESS_ENTRY_BYTES, SCHEDULE_ENTRY_BYTES, SCHEDULE_STATES
from qmq.protocol.messages import KEY_ATTEMPT, KEY_RETRY_CAUSE
from qmq.protocol.values import TIME_MS_MAX, TIME_MS_MIN
from spark_analytics.source.raw_messages import RawMessages

INDEX = np.dtype(
    [("log_offset", ">i8"), ("size", ">u4"), ("stored_at_ms", ">i8"), ("tag_bits", ">u8"), ("check", ">u4")]
)
PROGRESS = np.dtype(
    [
        ("at_ms", ">i8"),
        ("consumer_key", ">u8"),
        ("begin", ">i8"),
        ("end", ">i8"),
        ("next_sequence", ">i8"),
        ("kind", "u1"),
        ("layout", "u1"),
        ("zero", "u1", 2),
        ("check", ">u4"),
    ]
)
SCHEDULE = np.dtype(
    [("place", "<u8"), ("due", "<i8"), ("size", "<u4"), ("id", "<u4"), ("subject", "<u4"), ("check", "<u4")]
)
for _layout, _bytes in ((INDEX, INDEX_ENTRY_BYTES), (PROGRESS, PROGRESS_ENTRY_BYTES), (SCHEDULE, SCHEDULE_ENTRY_BYTES)):
    assert _layout.itemsize == _bytes, "the nodes' formats do not change"

WITHHELD = bytes(28) + crc32(bytes(28)).to_bytes(4, "big")
"""The index entry of a message that is lost."""

KINDS = {2: "pull", 3: "ack", 4: "offline", 5: "start", 6: "forget", 7: "settle"}
"""What the kind byte of a progress entry means."""
PROGRESS_LAYOUT = 1
"""The one layout of progress entries that is read; before it a pull was one entry whatever it took, which no release wrote."""

HOUR_MS = 3_600_000

CAUSE_CONSUMER_LEFT, CAUSE_UNKNOWN = "consumer_left", "unknown"

_SCHEDULE_ODD = np.array(
    [0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1, 0xB5297A4D, 0x68E31DA5], dtype=np.uint32
)
_SCHEDULE_NOTHING = np.uint32(0x51D7348D)

_TIME = pa.timestamp("us", tz="UTC")

Columns = dict[str, pa.Array]
Flags = NDArray[np.bool_]
Whole = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Page:
    """Columns of those entries of a page that are whole, and where the others are.

    `is_damaged` has a flag for each entry of the page, `numbers` the sequences, positions or numbers of the whole ones.
    """

    columns: Columns
    numbers: Whole
    is_damaged: Flags

    def __len__(self) -> int:
        return len(self.numbers)

    def damaged_ranges(self, first: int) -> list[tuple[int, int]]:
        """Stretches [begin, end) of damaged entries, in a page that begins with number `first`."""
        edges = np.flatnonzero(np.diff(np.concatenate(([False], self.is_damaged, [False])).astype(np.int8)))
        return [(first + int(begin), first + int(end)) for begin, end in edges.reshape(-1, 2)]

    def filtered(self, keep: Flags) -> "Page":
        """Only these of the whole entries."""
        if keep.all():
            return self
        chosen = pa.array(keep)
        return Page(
            {name: col.filter(chosen) for name, col in self.columns.items()}, self.numbers[keep], self.is_damaged
        )

    def to_batch(self, schema: pa.Schema, constants: dict[str, str | bool]) -> pa.RecordBatch:
        """A batch with exactly this schema; what is the same in every row comes from `constants`."""
        count = len(self.numbers)
        arrays = [
            self.columns[field.name].cast(field.type)
            if field.name in self.columns
            else pa.repeat(pa.scalar(constants[field.name], field.type), count)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _made(wanted: Collection[str], **makers: Callable[[], pa.Array]) -> Columns:
    """Make the columns that are wanted, and no other."""
    return {name: make() for name, make in makers.items() if name in wanted}


def times(ms: Whole, is_null: Flags | None = None) -> pa.Array:
    """Return milliseconds since the epoch as a column of times; null where requested, and beyond the years 1 to 9999."""
    beyond = (ms < TIME_MS_MIN) | (ms > TIME_MS_MAX)
    mask = beyond if is_null is None else beyond | is_null
    if not mask.any():
        return pa.array(ms * 1000).cast(_TIME)
    return pa.array(np.where(mask, 0, ms) * 1000, mask=mask).cast(_TIME)


# --- index entries --------------------------------------------------------------------------------------------------


def index_page(data: bytes | memoryview, first: int, wanted: Collection[str], previous_end: int = -1) -> Page:
    """Columns of table `index` for entries from consume sequence `first` on, but those that all rows of a page share.

    An entry's own check covers its message too, so it can't be made without it. Instead of it: a subject's messages lie in
    the log in the order of their sequences and don't overlap. Entries that break that are damaged (both, as either may be
    the wrong one), and so are those with an impossible time or size. `previous_end`: where the last message of the page before
    ended in the log, -1 if that is not known.
    """
    entries = np.frombuffer(data, dtype=INDEX)
    is_damaged, is_withheld = _check_index(entries, previous_end)
    return _index_page(entries, first, wanted, is_damaged, is_withheld)


def log_end(data: bytes | memoryview, otherwise: int) -> int:
    """Where the last message of these index entries ends in the log: the `previous_end` of the next page."""
    entries = np.frombuffer(data, dtype=INDEX)
    known = np.flatnonzero(entries["size"])
    if not len(known):
        return otherwise
    last = entries[known[-1]]
    return int(last["log_offset"]) + int(last["size"])


def _check_index(entries: NDArray[np.void], previous_end: int) -> tuple[Flags, Flags]:
    """Which entries are damaged, which withheld."""
    offsets = entries["log_offset"].astype(np.int64)
    sizes = entries["size"].astype(np.int64)
    stored = entries["stored_at_ms"].astype(np.int64)
    is_withheld: Flags = sizes == 0
    is_damaged: Flags = (offsets < 0) | (sizes > 0x7FFFFFFF) | (stored < 0) | (stored > TIME_MS_MAX)
    empty = np.flatnonzero(is_withheld)
    if len(empty):
        is_damaged[empty] |= entries[empty] != np.frombuffer(WITHHELD, dtype=INDEX)[0]
    known = np.flatnonzero(~is_withheld & ~is_damaged)
    begins, ends = offsets[known], (offsets + sizes)[known]
    if len(known):
        is_before = begins[1:] < ends[:-1]
        is_damaged[known[1:][is_before]] = True
        is_damaged[known[:-1][is_before]] = True
        if begins[0] < previous_end:
            is_damaged[known[0]] = True
    return is_damaged, is_withheld & ~is_damaged


def _index_page(
    entries: NDArray[np.void], first: int, wanted: Collection[str], is_damaged: Flags, is_withheld: Flags
) -> Page:
    numbers = np.arange(first, first + len(entries), dtype=np.int64)
    if is_damaged.any():
        keep = ~is_damaged
        entries, numbers, is_withheld = entries[keep], numbers[keep], is_withheld[keep]
    columns = _made(
        wanted,
        sequence=lambda: pa.array(numbers),
        stored_at=lambda: times(entries["stored_at_ms"].astype(np.int64), is_withheld),
        size=lambda: pa.array(entries["size"].astype(np.int32)),
        log_offset=lambda: pa.array(entries["log_offset"].astype(np.int64)),
        tag_bits=lambda: pa.array(entries["tag_bits"].astype(np.uint64).view(np.int64)),
        is_withheld=lambda: pa.array(is_withheld),
    )
    return Page(columns, numbers, is_damaged)


# --- messages -------------------------------------------------------------------------------------------------------


def messages_page(
    entries_data: bytes | memoryview, raws: bytes | memoryview, first: int, wanted: Collection[str]
) -> Page:
    """Columns of table `messages`: index entries, and their messages back to back."""
    page, found = _messages(entries_data, raws, first, wanted)
    made = _made(
        wanted,
        message_id=lambda: found.message_id,
        created_at=lambda: times(found.created_at_ms, found.is_withheld | found.is_damaged),
        tags=lambda: found.tags,
        properties=lambda: found.properties,
    )
    page.columns.update(made)
    return _without_damaged(page, found)


def failures_page(
    entries_data: bytes | memoryview,
    raws: bytes | memoryview,
    first: int,
    wanted: Collection[str],
    stored_subject: str,
    is_dead: bool,
) -> Page:
    """Columns of the tables `retries` and `dead_letters`: messages of the retry or dead-letter subject `stored_subject`.

    Consumers send the next attempt under the retry subject's name; the broker moves the bytes as they were. So a message
    that still names another subject was moved because its consumer left. A second move can't be distinguished from the first.
    """
    page, found = _messages(entries_data, raws, first, wanted)
    columns = page.columns
    if "message_id" in wanted:
        columns["message_id"] = found.message_id
    if "attempt" in wanted:
        text = found.property_text(KEY_ATTEMPT)
        is_number = pc.match_substring_regex(text, "^[0-9]{1,9}$")
        named = pc.if_else(is_number, text, None).cast(pa.int32())
        # What says nothing is a first attempt. A dead letter names the one that was not made any more.
        attempt = pc.fill_null(named, 1)
        if is_dead:
            attempt = pc.max_element_wise(pc.subtract(attempt, 1), 1)
        unread = pa.array(found.is_withheld | found.is_damaged)
        columns["attempt"] = pc.if_else(unread, pa.scalar(None, pa.int32()), attempt.cast(pa.int32()))
    if "cause" in wanted:
        given = found.property_text(KEY_RETRY_CAUSE)
        given = pc.if_else(pc.equal(given, ""), pa.scalar(None, pa.string()), given)
        cause = pc.fill_null(given, CAUSE_UNKNOWN)
        if not is_dead:
            is_moved = pc.fill_null(pc.not_equal(found.subject, stored_subject), False)
            cause = pc.if_else(is_moved, CAUSE_CONSUMER_LEFT, cause)
        columns["cause"] = cause
    return _without_damaged(page, found)


def _messages(
    entries_data: bytes | memoryview, raws: bytes | memoryview, first: int, wanted: Collection[str]
) -> tuple[Page, RawMessages]:
    """The index's part of the columns with a row for every entry, and the messages.

    The node has compared every message with its entry; a size of 0 is one that it could not serve, and one that was
    permanently lost has no time either.
    """
    entries = np.frombuffer(entries_data, dtype=INDEX)
    sizes = entries["size"].astype(np.int64)
    begins = np.cumsum(sizes) - sizes
    is_lost: Flags = (sizes == 0) & (entries["stored_at_ms"] == 0)
    page = _index_page(entries, first, wanted, np.zeros(len(entries), dtype=np.bool_), is_lost)
    return page, RawMessages(raws, begins, sizes)


def _without_damaged(page: Page, found: RawMessages) -> Page:
    return Page(page.columns, page.numbers, found.is_damaged).filtered(~found.is_damaged)


# --- progress entries -----------------------------------------------------------------------------------------------


@lru_cache
def _texts(*values: str) -> pa.StringArray:
    """Not made at import: with its first array pyarrow imports pandas, and a process that only plans spends most of its start on
    that."""
    return pa.array(values)


def progress_page(data: bytes | memoryview, first: int, wanted: Collection[str], consumers: dict[int, str]) -> Page:
    """Columns of table `progress` for entries from position `first` on; `consumers` are consumer ids by key."""
    entries = np.frombuffer(data, dtype=PROGRESS)
    numbers = np.arange(first, first + len(entries), dtype=np.int64)
    at_ms = entries["at_ms"].astype(np.int64)
    is_damaged: Flags = progress_checks(data) != entries["check"]
    is_damaged |= ~np.isin(entries["kind"], list(KINDS)) | (entries["layout"] != PROGRESS_LAYOUT)
    is_damaged |= (at_ms < 0) | (at_ms > TIME_MS_MAX)
    if is_damaged.any():
        keep = ~is_damaged
        entries, numbers, at_ms = entries[keep], numbers[keep], at_ms[keep]
    keys = entries["consumer_key"].astype(np.uint64)
    columns = _made(
        wanted,
        position=lambda: pa.array(numbers),
        at=lambda: times(at_ms),
        kind=lambda: _texts(*KINDS.values()).take(pa.array(_KIND_PLACES[entries["kind"]])),
        consumer_key=lambda: pa.array(keys.view(np.int64)),
        consumer_id=lambda: _names_of(keys, consumers),
        begin=lambda: pa.array(entries["begin"].astype(np.int64)),
        end=lambda: pa.array(entries["end"].astype(np.int64)),
        next_sequence=lambda: pa.array(entries["next_sequence"].astype(np.int64)),
    )
    return Page(columns, numbers, is_damaged)


_KIND_PLACES = np.zeros(256, dtype=np.int64)
_KIND_PLACES[list(KINDS)] = np.arange(len(KINDS))


def _names_of(keys: NDArray[np.uint64], names: dict[int, str]) -> pa.StringArray:
    known = np.array(sorted(names), dtype=np.uint64)
    if not len(known):
        return pa.nulls(len(keys), pa.string())
    places = np.searchsorted(known, keys).clip(max=len(known) - 1)
    texts = pa.array([names[key] for key in known.tolist()], pa.string())
    return texts.take(pa.array(places, mask=known[places] != keys))


def progress_checks(data: bytes | memoryview) -> NDArray[np.uint32]:
    """The CRC that each progress entry should have.

    CRC-32 is linear: that of bytes of a fixed length is that of as many zeros, changed for each byte by what a table says of
    its place and value. So it takes as many look-ups as an entry has bytes, for all entries at once.
    """
    octets = np.frombuffer(data, dtype=np.uint8).reshape(-1, PROGRESS_ENTRY_BYTES)
    zeros, table = _crc_table(PROGRESS_ENTRY_BYTES - 4)
    checks = np.full(len(octets), zeros, dtype=np.uint32)
    for place, of_value in zip(np.ascontiguousarray(octets.T), table, strict=False):
        checks ^= np.take(of_value, place)
    return checks


@lru_cache(maxsize=4)
def _crc_table(size: int) -> tuple[int, NDArray[np.uint32]]:
    zeros = crc32(bytes(size))
    table = np.empty((size, 256), dtype=np.uint32)
    for place in range(size):
        behind = bytes(size - place - 1)
        for value in range(256):
            table[place, value] = crc32(bytes(place) + bytes((value,)) + behind) ^ zeros
    return zeros, table


# --- schedule entries -----------------------------------------------------------------------------------------------


def schedule_page(
    data: bytes | memoryview,
    states: bytes | memoryview,
    hour: int,
    first: int,
    wanted: Collection[str],
    subjects: pa.StringArray,
) -> Page:
    """Columns of table `delayed` for messages from number `first` of an hour on; `subjects` are the node's, by number.

    An entry that fails its check says nothing but its state, which the node keeps elsewhere: it has the begin of its hour, no
    subject and no bytes, and is counted so.
    """
    entries = np.frombuffer(data, dtype=SCHEDULE)
    numbers = np.arange(first, first + len(entries), dtype=np.int64)
    due = entries["due"].astype(np.int64)
    is_whole: Flags = schedule_checks(data) == entries["check"]
    is_whole &= due // HOUR_MS == hour
    places = entries["subject"].astype(np.int64)
    is_known = is_whole & (places < len(subjects))
    columns = _made(
        wanted,
        subject=lambda: subjects.take(pa.array(np.where(is_known, places, 0), mask=~is_known)),
        due_at=lambda: times(np.where(is_whole, due, hour * HOUR_MS)),
        number=lambda: pa.array(numbers),
        size=lambda: pa.array(np.where(is_whole, entries["size"], 0).astype(np.int32)),
        state=lambda: _texts(*_STATES).take(pa.array(_STATE_PLACES[np.frombuffer(states, dtype=np.uint8)])),
    )
    return Page(columns, numbers, np.zeros(len(entries), dtype=np.bool_))


_STATES = (*(state.value for state in SCHEDULE_STATES.values()), "unknown")
_STATE_PLACES = np.full(256, len(SCHEDULE_STATES), dtype=np.int64)
_STATE_PLACES[list(SCHEDULE_STATES)] = np.arange(len(SCHEDULE_STATES))


def schedule_checks(data: bytes | memoryview) -> NDArray[np.uint32]:
    """The check words that schedule entries should have."""
    words = np.frombuffer(data, dtype="<u4").reshape(-1, SCHEDULE_ENTRY_BYTES // 4)[:, :7]
    total: NDArray[np.uint32] = (words * _SCHEDULE_ODD).sum(axis=1, dtype=np.uint32) ^ _SCHEDULE_NOTHING
    return total
