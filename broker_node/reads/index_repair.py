"""Make damaged consume log entries again from the message log.

The log has no pointers back, so the segments that must hold the messages are walked by their records; good neighbours in the
index say which. All entries of a damaged page of the index file are found by one walk, in a thread. Only entries of synced messages
are in an index, so nothing is written that the log does not hold on disk.
"""

import logging
from collections.abc import Sequence

from broker_node.storage.actions import RecordKind, decode_messages_head
from broker_node.storage.consume_log import ENTRY, ENTRY_BYTES, Entry, encode_run, entry_at
from broker_node.storage.disk_work import DiskWork
from broker_node.storage.message_log import MessageLog, stored_run
from broker_node.storage.oldest_sequence import adjust_begin
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Subject
from qmq.errors import LogError
from qmq_node.log.index import IndexView
from qmq_node.log.index_files import RewrittenPage
from qmq_node.log.record import iter_records
from qmq_node.log.recovery import Commit, Damage

logger = logging.getLogger("qmq.broker.index")

PAGE_ENTRIES = 128
"""Entries of a 4 KiB page of an index file: they are damaged together, and made again together."""
REPAIR_ENTRIES_MAX = 8 * PAGE_ENTRIES
"""Most entries made again at a time, and the rest of their last page: writing them takes the event loop's time."""
EMPTY_ENTRY = bytes(ENTRY_BYTES)
"""What an entry reads as that the disk can't read, or that a file lacks."""
NEIGHBOURS_MAX = 4096
"""How far to look for a good entry before and behind the damaged ones, to know where in the log to begin and to end."""


class BeingRepaired(LogError):
    """Messages are damaged, and are about to be read from another member: the same read may succeed in a moment."""

    code = "log.repairing"
    retriable = True


def check_repairs(store: MessageStore) -> None:
    """Raise BeingRepaired if damage of the log is about to be repaired: its messages are not passed over."""
    if store.repairs_soon():
        raise BeingRepaired("messages are damaged on this disk, and are read from another member: try again")


class DamagedEntries(DiskWork):
    """Messages fail their checks: `read` finds their entries in the log, `finish` writes them back or withholds the messages.

    Made on the event loop. Every damaged sequence in reach is either repaired or withheld afterwards. A page of the index file that
    the disk can't read is written whole, and `RewrittenPages` then syncs it and reads it back.
    """

    def __init__(self, store: MessageStore, subject: Subject, sequences: Sequence[int]) -> None:
        super().__init__()
        index = subject.consume_log
        self._store = store
        self._subject = subject
        self._begin = max(index.begin, index.page_of(sequences[0]).start)
        last = min(sequences[-1], self._begin + REPAIR_ENTRIES_MAX - 1)
        self._end = min(index.page_of(last).stop, index.end)
        self.reach = self._end
        """First sequence behind those that are repaired or withheld."""
        self._sequences = [sequence for sequence in sequences if self._begin <= sequence < self._end]
        self._unreadable = {sequence for sequence in self._sequences if index.is_unreadable(sequence)}
        self._view = index.view(self._begin - NEIGHBOURS_MAX, self._end + NEIGHBOURS_MAX)
        self._stored = b""
        self._changed: dict[int, bytes] | None = None
        self._begin_search: DiskWork | None = None
        self._damage: list[Damage] = []
        """Damage of the log that was met. A place that the disk can't read now is none."""

    def read(self) -> None:
        """Find the entries; from a thread that may wait for the disk. Raises LogError for an unreadable index file or record."""
        if self._begin_search is not None:
            self._begin_search.read()
            return
        log = self._store.message_log
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
                entries = encode_run(stored_run(payload[at:], head, offset), offset + at, head.stored_at_ms)
                for sequence in range(max(first, wanted.start), min(end, wanted.stop)):
                    found[sequence] = entry_at(entries, sequence - first)

        begin, end = self._bounds(log)
        met = log.log.stored.walk(begin, on_commit, stop=lambda offset: len(found) == len(wanted) or offset > end)
        self._damage = [damage for damage in met if log.log.stored.is_readable(damage.begin, damage.end)]
        self._stored = self._view.read(wanted.start, wanted.stop)
        self._changed = {sequence: entry for sequence, entry in found.items() if self._stored_entry(sequence) != entry}

    def _stored_entry(self, sequence: int) -> bytes:
        return entry_at(self._stored, sequence - self._begin)

    def _bounds(self, log: MessageLog) -> tuple[int, int]:
        """Where in the log to begin (a segment's base) and the last offset that can hold the messages."""
        view, segments = self._view, log.log.stored.segments()
        begin, end = segments[0].base, log.log.high_watermark
        for entry in reversed(_entries(view, view.begin, self._begin)):
            if not entry.is_withheld and log.is_message_whole(entry.log_offset, entry.size):
                begin = entry.log_offset
                break
        for entry in _entries(view, self._end, view.end):
            if not entry.is_withheld and log.is_message_whole(entry.log_offset, entry.size):
                end = entry.log_offset
                break
        return max((segment.base for segment in segments if segment.base <= begin), default=segments[0].base), end

    def finish(self) -> DiskWork | None:
        """Write what was found to the index, and withhold messages that were not; on the event loop.

        Raises LogError when `read` failed, BeingRepaired, or OSError when an entry can't be written.
        """
        changed, store, subject = self._changed, self._store, self._subject
        if changed is None:
            raise LogError(f"damaged entries of {subject.name} can't be made again", code="log.index_unreadable")
        # Also when only other subjects lost messages to it.
        store.found_damage(self._damage)
        if self._damage:
            check_repairs(store)
        index = subject.consume_log
        # Retention may have deleted messages during the search: those are not lost to damage.
        try:
            if self._begin_search is not None:
                self._begin_search.finish()
            adjust_begin(store, subject)
        except DiskWork as search:
            self._begin_search = search
            return self
        # Pages that could be read in the thread, or were repaired for another pull, are not judged: their entries may be right. Nor
        # are those that got entries meanwhile, which are not known here.
        unjudged = {n for n in self._unreadable if not index.is_unreadable(n)}
        changed = {n: entry for n, entry in changed.items() if n >= index.begin}
        lost = {n for n in self._sequences if n >= index.begin and n not in changed and n not in unjudged}
        repaired, pages = 0, []
        for sequences in {index.page_of(n) for n in lost | changed.keys() if index.is_unreadable(n)}:
            held = range(max(sequences.start, self._begin), min(sequences.stop, self._end))
            if min(sequences.stop, index.flushed_end) > held.stop:
                lost.difference_update(held)
                changed = {n: entry for n, entry in changed.items() if n not in held}
                continue
            entries = {n: changed.pop(n, b"") or self._stored_entry(n) for n in held}
            entries = {n: entry for n, entry in entries.items() if entry != EMPTY_ENTRY}
            # The other messages of the page are lost as well: each pull would look for some of them again.
            lost.update(n for n in held if n not in entries and n >= index.begin)
            page = index.rewrite_page(entries) if entries else None
            if page is not None:
                pages.append(page)
                repaired += len(entries)
        for sequence, entry in changed.items():
            index.repair(sequence, entry)
        repaired += len(changed)
        store.counters.repaired_entries += repaired
        if repaired:
            logger.warning("subject %s: %d index entries were damaged and made again", subject.name, repaired)
        store.withhold(subject.name, sorted(lost))
        if not pages:
            return None
        return RewrittenPages(pages)


class RewrittenPages(DiskWork):
    """Sync rewritten pages of an index and read them back; `finish` withholds those that are not on disk."""

    def __init__(self, pages: Sequence[RewrittenPage]) -> None:
        super().__init__()
        self._pages = pages
        self._failed: list[tuple[RewrittenPage, OSError]] = []

    def read(self) -> None:
        """Sync and read; from a thread that may wait for the disk."""
        for page in self._pages:
            try:
                page.sync_and_read_back()
            except OSError as error:
                self._failed.append((page, error))

    def finish(self) -> DiskWork | None:
        """Withhold what is not on disk."""
        for page, error in self._failed:
            page.withhold(error)
        return None


def _entries(view: IndexView, begin: int, end: int) -> list[Entry]:
    return list(map(Entry._make, ENTRY.iter_unpack(view.read(begin, end))))
