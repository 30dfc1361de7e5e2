"""Finds messages by their ID alone, in the part of the message log that was written in a window of time.

The log is in the order of time, so that the window is found by bisection and read once, however many subjects there are.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from broker_node.storage.actions import RecordKind, decode_action, decode_messages_head
from broker_node.storage.message_log import stored_run
from broker_node.storage.store import MessageStore
from qmq.protocol.messages import decode_raw
from qmq.protocol.primitives import encode_str
from qmq_node.log.record import EPOCH_KIND, iter_records
from qmq_node.log.recovery import Commit
from qmq_node.log.stored import StoredSegments

FIND_BYTES_MAX = 128 << 20
"""Bytes of the log after which one request ends; the answer contains the offset to continue from."""
FIND_SLICE_BYTES = 8 << 20
"""Bytes that a thread reads before the event loop continues; at least one commit."""
FOUND_PLACES_MAX = 50
"""Places of one answer. More messages with the same ID in the same slice of the log are left out."""
BISECTED_BYTES = 1 << 20
"""The begin of the window is found to within this many bytes."""


@dataclass(slots=True)
class Found:
    """The result of one request."""

    reached: int
    """Log offset up to which the log was read."""
    places: list[dict[str, Any]] = field(default_factory=list)
    scanned_bytes: int = 0
    time_ms: int | None = None
    """Of the last record that was read."""
    is_complete: bool = False
    """The window ends here."""


async def find(store: MessageStore, message_id: str, from_ms: int, to_ms: int, offset: int | None) -> Found:
    """Search the log for messages with an ID that were stored in a window of time.

    Store times step with the wall clock: the window begins and ends at a place where they cross its times.

    Args:
        offset: where an earlier request ended; None: at the window's begin.
    """
    log = store.message_log.log
    stored, end = log.stored, log.high_watermark
    if offset is None:
        offset = await asyncio.to_thread(_offset_at, stored, end, from_ms)
    found = Found(max(offset, stored.begin))
    while not found.is_complete and found.scanned_bytes < FIND_BYTES_MAX and len(found.places) < FOUND_PLACES_MAX:
        await asyncio.to_thread(_look, stored, end, message_id, (from_ms, to_ms), found)
    return found


def _look(stored: StoredSegments, end: int, message_id: str, window: tuple[int, int], found: Found) -> None:
    """Search one slice of the log, up to offset `end`. For any thread."""
    from_ms, to_ms = window
    needle = encode_str(message_id)
    begin = at = max(found.reached, stored.begin)
    is_stopped = False

    def visit(commit: Commit) -> None:
        if commit.end > end:
            return
        may_hold = bytes(commit.body).find(needle) >= 0
        for offset, kind, payload in iter_records(commit.body, commit.body_offset):
            if kind != RecordKind.MESSAGES:
                continue
            head, entries_at = decode_messages_head(payload)
            found.time_ms = head.stored_at_ms
            found.is_complete = found.is_complete or head.stored_at_ms >= to_ms
            if not may_hold or not from_ms <= head.stored_at_ms < to_ms:
                continue
            entries = payload[entries_at:]
            run = stored_run(entries, head, offset)
            for number, (raw_begin, size) in enumerate(zip(run.raw_begins, run.raw_sizes(), strict=True)):
                raw = bytes(entries[raw_begin : raw_begin + size])
                if len(found.places) == FOUND_PLACES_MAX:
                    return
                if needle in raw and decode_raw(raw)[0].message_id == message_id:
                    place = {"subject": head.subject, "sequence": head.first_sequence + number}
                    found.places.append({**place, "stored_at_ms": head.stored_at_ms})

    def stop(offset: int) -> bool:
        nonlocal at, is_stopped
        at = offset
        is_stopped = found.is_complete or offset >= end or offset - begin >= FIND_SLICE_BYTES
        return is_stopped

    stored.walk(begin, visit, stop)
    # Otherwise the walk came to the end of what is written.
    found.is_complete = found.is_complete or not is_stopped or at >= end
    found.scanned_bytes += at - begin
    found.reached = at


def _offset_at(stored: StoredSegments, end: int, at_ms: int) -> int:
    """Return the offset of a commit shortly before the first one that was written at or after a wall time. For any thread."""
    segments = [info for info in stored.segments() if info.base < end]
    if not segments:
        return end
    later = bisect_left(range(len(segments)), at_ms, key=_or_later(lambda i: _time_at(stored, segments[i].base, end)))
    segment = segments[max(0, later - 1)]
    low, high = segment.base, min(segment.end, end)
    while high - low > BISECTED_BYTES:
        middle = (low + high) // 2
        commit = stored.next_commit(middle)
        time_ms = _time_at(stored, commit.offset, end) if commit is not None and commit.offset < high else None
        if commit is None or time_ms is None or time_ms >= at_ms:
            high = middle
        else:
            low = commit.offset
    return low


def _or_later(of: Callable[[int], int | None]) -> Callable[[int], int]:
    def key(index: int) -> int:
        found = of(index)
        return 1 << 62 if found is None else found

    return key


def _time_at(stored: StoredSegments, begin: int, end: int) -> int | None:
    """Return the wall time of the first record at or behind the commit at `begin`; None if there is none below `end`."""
    found: int | None = None

    def visit(commit: Commit) -> None:
        nonlocal found
        for _, kind, payload in iter_records(commit.body, commit.body_offset):
            if found is None and kind == RecordKind.MESSAGES:
                found = decode_messages_head(payload)[0].stored_at_ms
            elif found is None and kind != EPOCH_KIND:
                found = decode_action(kind, payload).at_ms

    stored.walk(begin, visit, stop=lambda offset: found is not None or offset >= end)
    return found
