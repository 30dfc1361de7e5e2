"""What a broker does when a range of its log was repaired: it serves again what was withheld, and knows the ages of segments."""

import asyncio

from broker_node.storage.actions import RecordKind, decode_action, decode_messages_head
from broker_node.storage.consume_log import withheld_ranges
from broker_node.storage.store import MessageStore
from qmq_node.log.record import EPOCH_KIND, iter_records
from qmq_node.log.recovery import Commit
from qmq_node.log.segment import SegmentInfo
from qmq_node.log.stored import StoredSegments


async def serve_repaired(store: MessageStore, begin: int, end: int) -> None:
    """Serve messages again whose log offsets are in [begin, end)."""
    store.repaired_log(begin, end)
    for info in store.log.stored.segments():
        # Lost as a whole, so nothing of it was replayed.
        if begin <= info.base < end and info.base not in store.segment_newest_ms:
            newest = await asyncio.to_thread(newest_ms, store.log.stored, info)
            if newest is not None and store.log.stored.segment_at(info.base) == info:
                store.note_age(info.base, newest)
    # Their entries say where they are, unless they were missing when the log was replayed.
    for subject in [subject for subject in store.subjects.values() if subject.withheld]:
        for withheld in list(subject.withheld):
            left = await asyncio.to_thread(withheld_ranges, subject.consume_log.view(*withheld))
            subject.replace_withheld(withheld, left)


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
