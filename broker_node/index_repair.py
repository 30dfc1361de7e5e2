"""Make damaged consume log entries again from the message log.

The log has no pointers back, so the segments that must hold the messages are walked by their records; good neighbours in the
index say which. All entries of a damaged page of the index file are found by one walk, in a thread.
"""

import logging
from collections.abc import Sequence
from struct import error as StructError

from broker_node.actions import RecordKind, decode_messages_head
from broker_node.consume_log import ENTRY, ENTRY_BYTES, Entry, encode_run
from broker_node.message_log import ColdRead, MessageLog
from broker_node.store import MessageStore
from broker_node.subject import Subject
from qmq.errors import LogError
from qmq.log.index import IndexView
from qmq.log.record import iter_records
from qmq.log.recovery import Commit
from qmq.protocol.scan import walk_stored

logger = logging.getLogger("qmq.broker.index")

PAGE_ENTRIES = 128
"""Entries of a 4 KiB page of an index file: they are damaged together, and made again together."""
REPAIR_ENTRIES_MAX = 8 * PAGE_ENTRIES
"""Most entries made again at a time: writing them takes the event loop's time."""
NEIGHBOURS_MAX = 4096
"""How far to look for a good entry before and behind the damaged ones, to know where in the log to begin and to end."""


class DamagedEntries(ColdRead):
    """Messages fail their checks: `read` finds their entries in the log, `finish` writes them back or withholds the messages.

    Made on the event loop. Every damaged sequence in reach is either repaired or withheld afterwards.
    """

    def __init__(self, store: MessageStore, subject: Subject, sequences: Sequence[int]) -> None:
        super().__init__(-1, 0, b"")
        index = subject.consume_log.index
        self._store = store
        self._subject = subject
        self._begin = max(index.begin, sequences[0] // PAGE_ENTRIES * PAGE_ENTRIES)
        end = (sequences[-1] // PAGE_ENTRIES + 1) * PAGE_ENTRIES
        self._end = min(end, self._begin + REPAIR_ENTRIES_MAX, index.end)
        self._sequences = [sequence for sequence in sequences if self._begin <= sequence < self._end]
        self._view = index.view(self._begin - NEIGHBOURS_MAX, self._end + NEIGHBOURS_MAX)
        self._changed: dict[int, bytes] | None = None

    def read(self, log: MessageLog) -> None:
        """Find the entries; from a thread that may wait for the disk.

        Raises:
            LogError: the index file or the log can't be read.
        """
        wanted = range(self._begin, self._end)
        found: dict[int, bytes] = {}

        def on_commit(commit: Commit) -> None:
            for offset, kind, payload in iter_records(commit.body, commit.body_offset):
                if kind != RecordKind.MESSAGES:
                    continue
                head, at = decode_messages_head(payload)
                first, end = head.first_sequence, head.first_sequence + head.count
                if head.subject != self._subject.name or end <= wanted.start or first >= wanted.stop:
                    continue
                try:
                    run = walk_stored(payload[at:], head.subject)
                except (StructError, IndexError) as error:
                    raise LogError(f"the message record at offset {offset} can't be read: {error}") from error
                entries = encode_run(run, offset + at, head.stored_at_ms)
                for sequence in range(max(first, wanted.start), min(end, wanted.stop)):
                    place = (sequence - first) * ENTRY_BYTES
                    found[sequence] = entries[place : place + ENTRY_BYTES]

        begin, end = self._bounds(log)
        log.log.walk(begin, on_commit, stop=lambda offset: len(found) == len(wanted) or offset > end)
        stored = self._view.read(wanted.start, wanted.stop)
        self._changed = {
            sequence: entry
            for sequence, entry in found.items()
            if stored[(sequence - wanted.start) * ENTRY_BYTES :][:ENTRY_BYTES] != entry
        }

    def _bounds(self, log: MessageLog) -> tuple[int, int]:
        """Where in the log to begin (a segment's base) and the last offset that can hold the messages."""
        view, segments = self._view, log.log.segments()
        begin, end = segments[0].base, log.log.synced_end
        for entry in reversed(_entries(view, view.begin, self._begin)):
            if not entry.is_withheld and log.is_message_whole(entry.log_offset, entry.size):
                begin = entry.log_offset
                break
        for entry in _entries(view, self._end, view.end):
            if not entry.is_withheld and log.is_message_whole(entry.log_offset, entry.size):
                end = entry.log_offset
                break
        return max((segment.base for segment in segments if segment.base <= begin), default=segments[0].base), end

    def finish(self) -> None:
        """Write what was found to the index, and withhold messages that were not; on the event loop.

        Raises:
            LogError: `read` found nothing out.
            OSError: an entry can't be written.
        """
        if self._changed is None:
            raise LogError(f"damaged entries of {self._subject.name} can't be made again", code="log.index_unreadable")
        store, subject = self._store, self._subject
        index = subject.consume_log.index
        for sequence, entry in self._changed.items():
            if sequence >= index.begin:
                index.repair(sequence, entry)
                store.counters.repaired_entries += 1
        if self._changed:
            logger.warning("subject %s: %d index entries were damaged and made again", subject.name, len(self._changed))
        for sequence in self._sequences:
            if sequence not in self._changed:
                store.withhold(subject.name, sequence)


def _entries(view: IndexView, begin: int, end: int) -> list[Entry]:
    return list(map(Entry._make, ENTRY.iter_unpack(view.read(begin, end))))
