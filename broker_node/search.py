"""Find stored messages by what is in them, in a bounded window of a subject.

Messages are read, checked and decoded in a thread, a slice at a time; between slices the event loop serves clients. Messages that
fail their checks are repaired or recorded as damaged, as for a pull, and counted.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from broker_node.browse import shown
from broker_node.consume_log import ENTRY, ENTRY_BYTES, Entry
from broker_node.message_log import MessageLog
from broker_node.reader import damaged_entries
from broker_node.store import MessageStore
from broker_node.subject import Subject
from qmq.errors import QmqError
from qmq.protocol.primitives import encode_str
from qmq.protocol.scan import tag_digest

SCAN_MESSAGES = 2_000
"""Messages looked at in one request when no `scan_limit` is asked for."""
SCAN_MESSAGES_MAX = 20_000
"""Most messages looked at in one request."""
SCAN_BYTES_MAX = 64 << 20
"""Most bytes of messages read in one request; the answer says where to go on."""
SLICE_MESSAGES = 500
"""Most messages a thread looks at before the event loop hears of it."""
SLICE_BYTES = 1 << 20
"""Most bytes of them."""
FOUND_MESSAGES_MAX = 500
"""Most messages of one answer."""
FOUND_BYTES_MAX = 1 << 20
"""Most bytes of the messages of one answer (at least one is answered): making JSON of them holds the event loop."""
CRITERIA_MAX = 20
"""Most properties asked for at a time."""
SCANS_MAX = 2
"""Requests that scan at a time; they read in the threads that cold pulls read in."""


class TooManyScans(QmqError):
    """SCANS_MAX requests are scanning: ask again."""

    code = "scan.busy"
    retriable = True


@dataclass(slots=True)
class ScanSlots:
    """How many requests scan at the moment."""

    taken: int = 0

    @contextmanager
    def take(self) -> Iterator[None]:
        """Occupies a slot until the end of the block.

        Raises:
            TooManyScans: all slots are occupied.
        """
        if self.taken >= SCANS_MAX:
            raise TooManyScans(f"{SCANS_MAX} searches or traces are running on this node, the maximum; try again")
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a message has to have: all of it. Nothing asked for matches everything."""

    message_id: str = ""
    tag: str = ""
    properties: tuple[tuple[str, str], ...] = ()

    def needles(self) -> list[bytes]:
        """Bytes that a raw message must hold to match; finding them is ten times cheaper than decoding it."""
        found = [encode_str(key) + encode_str(value) for key, value in self.properties]
        found += [encode_str(text) for text in (self.message_id, self.tag) if text]
        return found

    def matches(self, message: dict[str, Any]) -> bool:
        """Whether a message, as `browse.shown` makes it, has it all."""
        if self.message_id and message["message_id"] != self.message_id:
            return False
        if self.tag and self.tag not in message["tags"]:
            return False
        properties = message["properties"]
        return all(properties.get(key) == value for key, value in self.properties)


@dataclass(slots=True)
class Scan:
    """How far a scan came: [begin, reached) was looked at, `end` is where its window ends."""

    begin: int
    reached: int
    end: int
    messages: list[dict[str, Any]] = field(default_factory=list)
    unreadable: int = 0
    """Messages whose stored bytes fail their checks: whether they match can't be told."""

    @property
    def next_sequence(self) -> int | None:
        """Where to go on; None when the window was looked through."""
        return self.reached if self.reached < self.end else None


@dataclass(slots=True)
class _Slice:
    seen: int = 0
    read_bytes: int = 0
    unreadable: list[int] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    found_bytes: int = 0
    is_full: bool = False
    """The next message found did not fit the answer any more."""


async def scan(
    store: MessageStore, subject: Subject, wanted: Wanted, begin: int, end: int, *, limit: int, scan_limit: int
) -> Scan:
    """Look at messages from `begin` on for those wanted, up to `end`, to `limit` found or to the limits above.

    Raises:
        LogError: the index can't be read.
    """
    loop = asyncio.get_running_loop()
    store.adjust_begin(subject)
    begin = max(begin, subject.begin)
    end = max(begin, min(end, subject.visible_end))
    done = Scan(begin, begin, end)
    stop = min(end, begin + min(max(1, scan_limit), SCAN_MESSAGES_MAX))
    limit = min(max(1, limit), FOUND_MESSAGES_MAX)
    needles = wanted.needles()
    tag_bits = tag_digest([wanted.tag.encode()]) if wanted.tag else 0
    read_bytes = found_bytes = 0
    repaired_from = -1
    while done.reached < stop and len(done.messages) < limit and read_bytes < SCAN_BYTES_MAX:
        at = done.reached
        index_bytes = subject.consume_log.index.read(at, min(stop, at + SLICE_MESSAGES))
        part = await loop.run_in_executor(
            None,
            _look,
            store.message_log,
            index_bytes,
            at,
            wanted,
            needles,
            tag_bits,
            limit - len(done.messages),
            FOUND_BYTES_MAX - found_bytes if done.messages else None,
        )
        read_bytes += part.read_bytes
        store.adjust_begin(subject)
        # Retention may have deleted messages during the read: those are not damaged.
        unreadable = [sequence for sequence in part.unreadable if sequence >= subject.begin]
        places = b"".join(_entry_at(index_bytes, sequence - at) for sequence in unreadable)
        damaged = damaged_entries(store, subject, unreadable, places, [None] * len(unreadable))
        if damaged is not None and repaired_from < at:
            # One repair for each slice: then it is read again.
            repaired_from = at
            await damaged.complete_in_thread(store.message_log)
            continue
        done.reached = at + part.seen
        done.messages += part.messages
        found_bytes += part.found_bytes
        done.unreadable += len(unreadable)
        if part.is_full:
            break
    return done


def _entry_at(index_bytes: bytes, place: int) -> bytes:
    return index_bytes[place * ENTRY_BYTES : (place + 1) * ENTRY_BYTES]


def _look(
    log: MessageLog,
    index_bytes: bytes,
    first: int,
    wanted: Wanted,
    needles: list[bytes],
    tag_bits: int,
    limit: int,
    room: int | None,
) -> _Slice:
    """Look at the messages of these index entries, from sequence `first` on; stops early at a limit. For any thread.

    `room` is how many bytes of messages the answer still takes; None when it is empty: one is taken whatever its size.
    """
    entries = list(map(Entry._make, ENTRY.iter_unpack(index_bytes)))
    # A digest proves that a tag is not there, but only if the entry is whole; a damaged message is looked at to be counted.
    chosen = [i for i, entry in enumerate(entries) if entry.is_withheld or entry.tag_bits & tag_bits == tag_bits]
    part = _Slice()
    places = b"".join(_entry_at(index_bytes, i) for i in chosen)
    raws = log.read_raws(places, cached_only=False, bytes_max=SLICE_BYTES)
    for i, raw in zip(chosen, raws, strict=False):
        sequence = first + i
        if raw is None:
            part.unreadable.append(sequence)
        else:
            part.read_bytes += len(raw)
            data = bytes(raw)
            if all(needle in data for needle in needles):
                message = shown(sequence, entries[i], raw)
                if wanted.matches(message):
                    if (part.messages or room is not None) and part.found_bytes + len(raw) > (room or FOUND_BYTES_MAX):
                        part.seen, part.is_full = i, True
                        return part
                    part.messages.append(message)
                    part.found_bytes += len(raw)
        if len(part.messages) >= limit:
            part.seen = i + 1
            return part
    part.seen = chosen[len(raws)] if len(raws) < len(chosen) else len(entries)
    return part
