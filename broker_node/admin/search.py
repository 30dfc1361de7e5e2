"""Reads stored messages for operators: page by page, or those with an ID, within a bounded window of a subject. Searches with a
filter are in `filtered_search`.

Index entries and messages are read, checked and decoded in a thread, slice by slice; between slices the event loop serves
clients. Messages that fail their checks are repaired or recorded as damaged, as for a pull, and counted.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from broker_node.reads.message_reader import damaged_entries
from broker_node.storage.consume_log import ENTRY, Entry, entry_at
from broker_node.storage.message_log import MessageLog, Raw
from broker_node.storage.oldest_sequence import begin_adjusted
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Subject
from qmq.errors import LogError
from qmq.protocol.masking import NO_MASKS, Masks
from qmq.protocol.messages import decode_raw
from qmq.protocol.primitives import encode_str
from qmq_node.admin.shown_properties import shown_properties
from qmq_node.log.index import IndexView

SCAN_BYTES_MAX = 64 << 20
"""Most bytes of messages read by one page; the answer contains the sequence to continue from."""
ID_SCAN_MESSAGES_MAX = 200_000
"""Most messages scanned by one request for a message ID."""
ID_SCAN_BYTES_MAX = 640 << 20
"""Most bytes of messages read by one request for a message ID."""
SLICE_MESSAGES = 500
"""Most messages that a thread scans before the event loop continues."""
SLICE_BYTES = 1 << 20
"""Most bytes of messages that a thread reads before the event loop continues."""
FOUND_MESSAGES_MAX = 500
"""Most messages of one answer."""
FOUND_BYTES_MAX = 1 << 20
"""Most bytes of the messages of one answer; an answer contains at least one message, whatever its size."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """What messages must have. Without an ID every message matches."""

    message_id: str = ""
    with_unreadable: bool = False
    """Include messages whose stored bytes fail their checks; they are shown as withheld."""
    masks: Masks = NO_MASKS
    """Applied to what is shown; the ID itself is never masked."""

    def may_match(self, raw: bytes) -> bool:
        """Whether a message may match by its bytes; searching them is ten times cheaper than decoding the message."""
        return not self.message_id or encode_str(self.message_id) in raw

    def matches(self, message: dict[str, Any]) -> bool:
        """Whether a message, as returned by `shown`, matches."""
        return not self.message_id or bool(message["message_id"] == self.message_id)


@dataclass(slots=True)
class Scan:
    """The result of a scan: [begin, reached) was scanned; `end` is the end of its window."""

    begin: int
    reached: int
    end: int
    messages: list[dict[str, Any]] = field(default_factory=list)
    unreadable: int = 0
    """Messages whose stored bytes fail their checks: whether they match is unknown."""

    @property
    def next_sequence(self) -> int | None:
        """The sequence to continue from; None at the end of the window."""
        return self.reached if self.reached < self.end else None


@dataclass(slots=True)
class _Slice:
    index_bytes: bytes
    seen: int = 0
    read_bytes: int = 0
    unreadable: list[int] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    found_bytes: int = 0
    is_full: bool = False
    """The next match does not fit the answer."""


def shown(sequence: int, entry: Entry, raw: Raw | None, masks: Masks) -> dict[str, Any]:
    """Returns a message as JSON, masked; one whose bytes fail their checks (`raw` None) is marked as withheld. For any thread."""
    place = {"sequence": sequence, "log_offset": entry.log_offset, "bytes": entry.size}
    if raw is None:
        return {**place, "withheld": True, "reason": "the stored bytes fail their checks"}
    message, _ = decode_raw(raw)
    return {
        **place,
        "message_id": message.message_id,
        "stored_at_ms": entry.stored_at_ms,
        "created_at_ms": message.created_at_ms,
        "tags": sorted(message.tags),
        **shown_properties(message.properties, masks),
    }


async def scan(
    store: MessageStore,
    subject: Subject,
    criteria: Criteria,
    begin: int,
    end: int,
    *,
    limit: int,
    scan_limit: int,
    bytes_max: int | None = None,
) -> Scan:
    """Scans messages of [begin, end) up to `limit` matches, `scan_limit` messages or the limits above. Raises LogError."""
    await begin_adjusted(store, subject)
    begin = max(begin, subject.begin)
    end = max(begin, min(end, subject.visible_end))
    done = Scan(begin, begin, end)
    stop = min(end, begin + max(1, scan_limit))
    limit = min(max(1, limit), FOUND_MESSAGES_MAX)
    index = subject.consume_log
    bytes_max = SCAN_BYTES_MAX if bytes_max is None else bytes_max
    read_bytes = found_bytes = 0
    repaired_from = -1
    while done.reached < stop and len(done.messages) < limit and read_bytes < bytes_max:
        at = done.reached = max(done.reached, min(index.begin, end))
        if at >= stop:
            break
        view = index.view(at, min(stop, at + SLICE_MESSAGES))
        room = FOUND_BYTES_MAX - found_bytes if done.messages else None
        try:
            part = await asyncio.to_thread(
                _look, store.message_log, view, at, criteria, limit - len(done.messages), room
            )
        except LogError:
            if index.begin <= at:
                raise
            # Retention removed the file during the read.
            continue
        read_bytes += part.read_bytes
        await begin_adjusted(store, subject)
        # Retention may have deleted messages during the read: those are not damaged.
        unreadable = [sequence for sequence in part.unreadable if sequence >= subject.begin]
        places = b"".join(entry_at(part.index_bytes, sequence - at) for sequence in unreadable)
        damaged = damaged_entries(store, subject, unreadable, places, [None] * len(unreadable))
        if damaged is not None and repaired_from < at:
            # One repair for each slice, which is then read again.
            repaired_from = at
            await damaged.complete_in_thread()
            continue
        done.reached = at + part.seen
        done.messages += [m for m in part.messages if "withheld" not in m or m["sequence"] >= subject.begin]
        found_bytes += part.found_bytes
        done.unreadable += len(unreadable)
        if part.is_full:
            break
    return done


def _look(log: MessageLog, view: IndexView, first: int, criteria: Criteria, limit: int, room: int | None) -> _Slice:
    """Scans the messages of a view, from sequence `first` on; stops early at a limit. For any thread. Raises LogError.

    `room` is the space left in the answer in bytes; None while it is empty: then one message is included whatever its size.
    """
    part = _Slice(view.read(first, view.end))
    entries = list(map(Entry._make, ENTRY.iter_unpack(part.index_bytes)))
    raws = log.read_raws(part.index_bytes, cached_only=False, bytes_max=SLICE_BYTES)
    for i, raw in enumerate(raws):
        message: dict[str, Any] | None = None
        size = len(raw) if raw is not None else 0
        if raw is None:
            part.unreadable.append(first + i)
            if criteria.with_unreadable:
                message = shown(first + i, entries[i], None, criteria.masks)
        else:
            part.read_bytes += size
            if criteria.may_match(bytes(raw)):
                message = shown(first + i, entries[i], raw, criteria.masks)
                message = message if criteria.matches(message) else None
        if message is not None:
            if (part.messages or room is not None) and part.found_bytes + size > (room or FOUND_BYTES_MAX):
                part.seen, part.is_full = i, True
                return part
            part.messages.append(message)
            part.found_bytes += size
        if len(part.messages) >= limit:
            part.seen = i + 1
            return part
    part.seen = len(raws)
    return part
