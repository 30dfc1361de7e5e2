"""Bulk reads (LIST_RANGES, READ_INDEX, READ_PROGRESS, READ_MESSAGES) for Spark, in the format of the files on disk.

The event loop determines positions and copies entries that are only in memory; files are read in the gate's thread. Answers
contain synced entries only: a consume log has no others, and an answer with progress entries waits for the commit of the newest
action.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from broker_node.reads.message_reader import damaged_entries, unreadable_entries
from broker_node.storage import consume_log, progress_log
from broker_node.storage.consume_log import ENTRY_BYTES
from broker_node.storage.message_log import MessageLog, Raw
from broker_node.storage.oldest_sequence import begin_adjusted
from broker_node.storage.progress_log import PROGRESS_ENTRY_BYTES, consumer_key
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Group, Subject
from qmq.checksum import crc32
from qmq.errors import LogError, ReadRefused
from qmq.protocol.bulk_read import (
    GROUP_CURSOR,
    RANGES_PAGE_MAX,
    UNBOUNDED_MS,
    UNKNOWN_GROUP,
    UNKNOWN_SUBJECT,
    WRONG_RANGE,
    GroupRange,
    IndexPage,
    ListRangesRequest,
    MessagesPage,
    ProgressPage,
    RangesPage,
    ReadRequest,
    SubjectRange,
)
from qmq.protocol.codes import Command
from qmq.protocol.frames import Frame
from qmq.protocol.kinds import Part
from qmq_node.log.index import DenseIndex, IndexView
from qmq_node.node.node import Node
from qmq_node.server.connection import Connection

PAGE_BYTES = 1 << 20
"""Approximate size of a page of LIST_RANGES; the next group begins another page."""
SLICE_SUBJECTS = 50
"""Subjects read in one iteration of the event loop."""
MESSAGE_BYTES_GUESSED = 256
"""Assumed size of a message, for the number of index entries read for a page; a page of larger messages has fewer."""
_SUBJECT_BYTES = 150
_GROUP_BYTES = 200
_CHECK = Struct(">I")
_CHECK_BYTES = _CHECK.size
_SIZE_AT = 8
_SIZE_BYTES = 4


class _Group(NamedTuple):
    """The first fields of a `GroupRange`."""

    name: str
    broadcast: bool
    next_sequence: int
    begin: int
    end: int


@dataclass(slots=True)
class _Found:
    """A subject with some of its groups, as read on the event loop, and views of their entries."""

    name: str
    begin: int
    end: int
    origin: int
    entries: IndexView
    groups: list[tuple[_Group, tuple[tuple[int, str], ...], IndexView]]


@dataclass(eq=False, repr=False)
class BulkReads:
    """Answers bulk reads from a broker's store."""

    _node: Node
    _store: MessageStore

    def __post_init__(self) -> None:
        self._gate = self._node.bulk_reads

    def table(self) -> dict[int, Callable[[Connection, Frame], None]]:
        """The commands and their handlers."""
        handler = self._gate.handler
        return {
            Command.LIST_RANGES: handler(ListRangesRequest, self._ranges),
            Command.READ_INDEX: handler(ReadRequest, self._index),
            Command.READ_PROGRESS: handler(ReadRequest, self._progress),
            Command.READ_MESSAGES: handler(ReadRequest, self._messages),
        }

    # --- ranges ----------------------------------------------------------------------------------------------------

    async def _ranges(self, request: ListRangesRequest) -> list[Part]:
        now_ms = self._node.clock.wall_ms()
        # What was stored, or done, before now is in the answer: that makes `read_at_ms` a watermark.
        await self._synced(self._store.unsynced_offset)
        limit = max(1, min(request.limit, RANGES_PAGE_MAX))
        found, next_after, newest = await self._look(request, limit)
        await self._synced(newest)
        subjects = await self._gate.in_thread(_cut, found, request.from_ms, request.to_ms)
        broker_group, log_id = self._node.options.broker_group, self._node.folder.replica.state.log_id
        return [RangesPage(broker_group, self._node.node_id, now_ms, subjects, next_after, log_id).encode()]

    async def _look(self, request: ListRangesRequest, limit: int) -> tuple[list[_Found], str, int]:
        """Returns subjects after the cursor `after`, the next cursor, and the log offset of the newest action among them."""
        store = self._store
        subject_after, is_within, group_after = request.after.partition(GROUP_CURSOR)
        names = store.subject_names.page(subject_after, limit + 1)
        is_last = len(names) <= limit
        if is_within and subject_after in store.subjects:
            names.insert(0, subject_after)
        else:
            group_after = ""
        is_timed = (request.from_ms, request.to_ms) != (UNBOUNDED_MS, UNBOUNDED_MS)
        found: list[_Found] = []
        size, newest = 0, -1
        for at, subject_name in enumerate(names):
            if len(found) >= limit or size >= PAGE_BYTES:
                return found, names[at - 1], newest
            if len(found) % SLICE_SUBJECTS == SLICE_SUBJECTS - 1:
                await asyncio.sleep(0)
            subject = store.subjects.get(subject_name)
            if subject is None:
                # Removed since the names were looked up.
                continue
            await begin_adjusted(store, subject, self._gate.in_thread)
            index = subject.consume_log
            view = index.view(index.begin, index.end if is_timed else index.begin)
            item = _Found(subject.name, index.begin, index.end, subject.origin, view, [])
            found.append(item)
            size += _SUBJECT_BYTES + len(subject.name)
            for name in sorted(name for name in subject.groups if name > group_after):
                if size >= PAGE_BYTES and item.groups:
                    return found, f"{subject.name}{GROUP_CURSOR}{item.groups[-1][0].name}", newest
                group = subject.groups[name]
                progress, history = group.progress, group.history
                newest = max(newest, progress.applied_at)
                consumers = tuple((consumer_key(c), c) for c in {**group.departed, **progress.consumers})
                size += _GROUP_BYTES + len(name) + sum(10 + len(c) for _, c in consumers)
                row = _Group(name, progress.broadcast, progress.next_sequence, history.begin, history.end)
                # Without times only the oldest entry is read.
                view = history.view(history.begin, history.end if is_timed else history.begin + 1)
                item.groups.append((row, consumers, view))
            group_after = ""
        return found, "" if is_last else names[-1], newest

    async def _synced(self, offset: int) -> None:
        """Wait until the record at a log offset is on disk."""
        if offset >= 0:
            await self._node.committer.synced(offset)

    # --- entries ---------------------------------------------------------------------------------------------------

    async def _subject(self, request: ReadRequest) -> Subject:
        if not 0 <= request.begin <= request.end:
            raise ReadRefused(f"[{request.begin}, {request.end}) is not a valid range", code=WRONG_RANGE)
        subject = self._store.subjects.get(request.subject)
        if subject is None:
            raise ReadRefused(f"subject {request.subject[:120]!r} is not on this node", code=UNKNOWN_SUBJECT)
        await begin_adjusted(self._store, subject, self._gate.in_thread)
        return subject

    def _group(self, subject: Subject, name: str) -> Group:
        group = subject.groups.get(name)
        if group is None:
            raise ReadRefused(
                f"group {name[:120]!r} of subject {subject.name!r} is not on this node", code=UNKNOWN_GROUP
            )
        return group

    async def _index(self, request: ReadRequest) -> list[Part]:
        subject = await self._subject(request)
        index = subject.consume_log
        count = max(1, self._gate.piece_bytes(request.bytes_max) // ENTRY_BYTES)
        first, data = await self._consume_entries(subject, request.begin, request.end, count)
        return IndexPage(index.begin, index.end, first, data).parts()

    async def _progress(self, request: ReadRequest) -> list[Part]:
        subject = await self._subject(request)
        group = self._group(subject, request.group)
        count = max(1, self._gate.piece_bytes(request.bytes_max) // PROGRESS_ENTRY_BYTES)
        history, end = group.history, group.history.end
        await self._synced(group.progress.applied_at)
        last = max(request.begin, min(request.end, end))
        first, data = await self._entries(history, request.begin, last, count)
        if self._group(subject, request.group) is not group:
            raise ReadRefused("the group was deleted in the meantime and has been created again", code=UNKNOWN_GROUP)
        return ProgressPage(history.begin, end, first, data).parts()

    async def _consume_entries(self, subject: Subject, begin: int, end: int, count: int) -> tuple[int, bytes]:
        """As `_entries`, of a consume log, after entries that the disk can't read were repaired or withheld."""
        while True:
            first, data = await self._entries(subject.consume_log, begin, end, count)
            if (unreadable := unreadable_entries(self._store, subject, first, data)) is None:
                return first, data
            await unreadable.complete_in_thread(self._gate.in_thread)

    async def _entries(self, index: DenseIndex, begin: int, end: int, count: int) -> tuple[int, bytes]:
        """Up to `count` entries of [begin, end), and the number of the first: above `begin` where retention took some.

        Entries that the disk can't read are zeros.
        """
        while True:
            first = max(begin, min(index.begin, end))
            view = index.view(first, min(end, first + count))
            try:
                data = await self._gate.in_thread(view.read, view.begin, view.end)
            except LogError:
                if min(index.begin, end) <= first:
                    raise
                continue
            if min(index.begin, end) <= first:
                return first, data
            # Retention came in between: what it took is not handed out, be it still in the file or not.

    async def _messages(self, request: ReadRequest) -> list[Part]:
        subject = await self._subject(request)
        index = subject.consume_log
        bytes_max = self._gate.piece_bytes(request.bytes_max)
        count = max(1, bytes_max // (ENTRY_BYTES + MESSAGE_BYTES_GUESSED))
        while True:
            first, stored = await self._consume_entries(subject, request.begin, request.end, count)
            entries, raws, data = await self._gate.in_thread(_with_raws, self._store.message_log, stored, bytes_max)
            await begin_adjusted(self._store, subject, self._gate.in_thread)
            sequences = range(first, first + len(raws))
            if (damaged := damaged_entries(self._store, subject, sequences, stored, raws)) is None:
                break
            await damaged.complete_in_thread(self._gate.in_thread)
            # A repair walks segments of the log: one answer contains no more than one repair covers.
            count = max(1, min(count, damaged.reach - first))
        return MessagesPage(index.begin, index.end, first, entries, data).parts()


def _cut(found: list[_Found], from_ms: int, to_ms: int) -> tuple[SubjectRange, ...]:
    """Returns the ranges of subjects, narrowed to the requested times; from any thread. Raises LogError."""

    def within(row: _Group | _Found, view: IndexView, find: Callable[[IndexView, int], int]) -> tuple[int, int]:
        begin = row.begin if from_ms == UNBOUNDED_MS else find(view, from_ms)
        return begin, max(begin, row.end if to_ms == UNBOUNDED_MS else find(view, to_ms))

    subjects = []
    for item in found:
        groups = []
        for row, consumers, view in item.groups:
            cut = within(row, view, progress_log.find_time)
            at_ms = progress_log.time_of(view, row.begin) if row.end > row.begin else None
            groups.append(GroupRange(*row, *cut, consumers, -1 if at_ms is None else at_ms))
        cut = within(item, item.entries, consume_log.find_time)
        subjects.append(SubjectRange(item.name, item.begin, item.end, *cut, tuple(groups), item.origin))
    return tuple(subjects)


def _with_raws(log: MessageLog, index_bytes: bytes, bytes_max: int) -> tuple[bytes, list[Raw | None], bytes]:
    """Reads messages by their index entries, up to `bytes_max` of them; from any thread.

    Returns their entries, the messages (None for one that fails its check), and the messages as the answer contains them. The
    entry of a message that fails its check gets size 0.
    """
    raws = log.read_raws(index_bytes, cached_only=False, bytes_max=bytes_max)
    entries = bytearray(index_bytes[: len(raws) * ENTRY_BYTES])
    for i, raw in enumerate(raws):
        if raw is None:
            begin = i * ENTRY_BYTES
            entries[begin + _SIZE_AT : begin + _SIZE_AT + _SIZE_BYTES] = bytes(_SIZE_BYTES)
            check_at = begin + ENTRY_BYTES - _CHECK_BYTES
            _CHECK.pack_into(entries, check_at, crc32(entries[begin:check_at]))
    return bytes(entries), raws, b"".join(raw for raw in raws if raw is not None)
