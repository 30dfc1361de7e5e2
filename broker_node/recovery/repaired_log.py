"""What a broker does when a range of its log was repaired: it serves again what was withheld, and knows the ages of segments."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from broker_node.storage.actions import RecordKind, decode_action, decode_messages_head
from broker_node.storage.consume_log import encode_run, entry_at, withheld_ranges
from broker_node.storage.message_log import stored_run
from broker_node.storage.store import MessageStore
from qmq_node.log.index import IndexView
from qmq_node.log.record import BEGINNING, EPOCH_KIND, UNKNOWN_CHAIN, Position, iter_records
from qmq_node.log.recovery import Commit
from qmq_node.log.segment import SegmentInfo
from qmq_node.log.stored import StoredSegments

READ_BYTES = 4 << 20
"""Commits of a repaired range that are read at a time."""
WRITTEN_MAX = 1024
"""Index entries that are written before other work of the event loop gets its turn."""


async def serve_repaired(store: MessageStore, begin: int, end: int) -> None:
    """Serve messages again whose log offsets are in [begin, end)."""
    store.repaired_log(begin, end)
    for info in store.log.stored.segments():
        # Lost as a whole, so nothing of it was replayed.
        if begin <= info.base < end and info.base not in store.segment_newest_ms:
            newest = await asyncio.to_thread(newest_ms, store.log.stored, info)
            if newest is not None and store.log.stored.segment_at(info.base) == info:
                store.note_age(info.base, newest)
    await _restore_entries(store, begin, end)
    for subject in [subject for subject in store.subjects.values() if subject.withheld]:
        for withheld in list(subject.withheld):
            left = await asyncio.to_thread(withheld_ranges, subject.consume_log.view(*withheld), *withheld)
            subject.replace_withheld(withheld, left)


@dataclass(frozen=True, slots=True)
class _Restored:
    """The index entry of a message whose commit was missing when the log was replayed."""

    subject: str
    sequence: int
    entry: bytes


async def _restore_entries(store: MessageStore, begin: int, end: int) -> None:
    """Have the index say where repaired messages are that were missing when the log was replayed."""
    stored = store.log.stored
    position = await asyncio.to_thread(_position_at, stored, begin)
    while position is not None and position.offset < end:
        views = {
            subject.name: [subject.consume_log.view(*withheld) for withheld in subject.withheld]
            for subject in store.subjects.values()
            if subject.withheld
        }
        if not views:
            return
        restored, position = await asyncio.to_thread(_missing_entries, stored, position, end, views)
        for at in range(0, len(restored), WRITTEN_MAX):
            for one in restored[at : at + WRITTEN_MAX]:
                _restore(store, one)
            await asyncio.sleep(0)


def _restore(store: MessageStore, one: _Restored) -> None:
    """Write an entry, unless the message was removed meanwhile, or its page can't be read: that is made again when it is used."""
    subject = store.subjects.get(one.subject)
    if subject is None:
        return
    index = subject.consume_log
    if index.begin <= one.sequence < index.end and not index.is_unreadable(one.sequence):
        index.repair(one.sequence, one.entry)


def _position_at(stored: StoredSegments, begin: int) -> Position | None:
    """Return the position at which a range of whole commits begins; None if none begins there; in a thread."""
    if begin <= stored.begin:
        return Position(stored.begin, UNKNOWN_CHAIN) if stored.begin else BEGINNING
    chain = stored.read_crc_at(begin)
    return None if chain is None else Position(begin, chain)


def _missing_entries(
    stored: StoredSegments, position: Position, end: int, views: dict[str, list[IndexView]]
) -> tuple[list[_Restored], Position | None]:
    """Return entries of messages from a position on that the index withholds, and where to read on; in a thread.

    Args:
        views: of the withheld ranges, by subject.
    """
    commits, behind = stored.read_commits(position, end, READ_BYTES)
    found: list[_Restored] = []
    for commit in commits:
        for offset, kind, payload in iter_records(commit.body, commit.body_offset):
            if kind != RecordKind.MESSAGES:
                continue
            head, at = decode_messages_head(payload)
            first = head.first_sequence
            missing = list(_withheld(views.get(head.subject, ()), first, first + head.count))
            if missing:
                entries = encode_run(stored_run(payload[at:], head, offset), offset + at, head.stored_at_ms)
                found += [_Restored(head.subject, number, entry_at(entries, number - first)) for number in missing]
    return found, behind if behind.offset > position.offset else None


def _withheld(views: Iterable[IndexView], first: int, end: int) -> Iterator[int]:
    """Yield the sequences from `first` to `end` whose entries do not say where the message is."""
    for view in views:
        for begin, stop in withheld_ranges(view, first, end):
            yield from range(begin, stop)


def newest_ms(stored: StoredSegments, info: SegmentInfo) -> int | None:
    """Return the wall time of the newest record of a segment, None if it has none; from a thread that may wait for the disk."""
    newest: int | None = None

    def visit(commit: Commit) -> None:
        nonlocal newest
        if commit.header.segment_base != info.base:
            return
        for _, kind, payload in iter_records(commit.body, commit.body_offset):
            if kind == RecordKind.MESSAGES:
                newest = max(newest or 0, decode_messages_head(payload)[0].stored_at_ms)
            elif kind != EPOCH_KIND:
                newest = max(newest or 0, decode_action(kind, payload).at_ms)

    stored.walk(info.base, visit, stop=lambda offset: offset >= info.end)
    return newest
