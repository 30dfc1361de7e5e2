"""The broker's write-ahead log: messages of all subjects and the actions on them, in the order they happened.

The one place where a wire batch becomes records and where stored bytes are checked before they leave.
"""

import asyncio
from collections.abc import Awaitable, Callable
from zlib import crc32

from broker_node.actions import (
    Action,
    MessagesHead,
    Origin,
    RecordKind,
    decode_messages_head,
    encode_action,
    encode_messages_head,
)
from broker_node.consume_log import ENTRY, ENTRY_BYTES, ENTRY_HEAD_BYTES
from broker_node.unreadable import UnreadablePlaces
from qmq.clock import Clock
from qmq.errors import LogError, ProtocolError, ReadFailed
from qmq.log.log import SegmentedLog
from qmq.log.record import iter_records
from qmq.protocol.scan import CRC_BYTES, Run, walk_stored

READ_GAP_BYTES_MAX = 4096
"""Neighbouring messages closer than this are read with one call."""
READ_SPAN_BYTES_MAX = 1 << 20
"""Most bytes of one read."""
COLD_READ_BYTES = 1 << 20
"""How much is read into memory for a cold read: what it asks for, or this, whichever is more."""
UNBOUNDED = 1 << 62
InThread = Callable[[Callable[["MessageLog"], None], "MessageLog"], Awaitable[None]]
"""Calls a function in a thread that may wait for the disk."""


class ColdRead(Exception):
    """The bytes are not in the page cache: read them elsewhere than on the event loop, then ask again."""

    def __init__(self, offset: int, size: int, index_bytes: bytes) -> None:
        super().__init__(offset, size)
        self.offset = offset
        self.size = size
        self.index_bytes = index_bytes
        """The index entries of the messages in the range."""

    def read(self, log: "MessageLog") -> None:
        """Bring the range, or COLD_READ_BYTES, into memory; from a thread that may wait for the disk.

        A read error withholds the messages concerned, so that the next pull does not wait for them again.
        """
        try:
            log.log.warm(self.offset, max(self.size, min(COLD_READ_BYTES, log.log.written_end - self.offset)))
        except LogError:
            log.read_raws(self.index_bytes, cached_only=False)

    def finish(self) -> "ColdRead | None":
        """Back on the event loop, after `read`; a further read that has to be done and finished before the bytes are asked for."""
        return None

    def complete(self, log: "MessageLog") -> None:
        """Do everything at once, waiting for the disk: for tools and tests."""
        cold: ColdRead | None = self
        while cold is not None:
            cold.read(log)
            cold = cold.finish()

    async def complete_in_thread(self, log: "MessageLog", in_thread: InThread = asyncio.to_thread) -> None:
        """Do everything, with the reads in a thread; called on the event loop."""
        cold: ColdRead | None = self
        while cold is not None:
            await in_thread(cold.read, log)
            cold = cold.finish()


class MessageLog:
    """Records on top of `qmq.log.SegmentedLog`."""

    def __init__(self, log: SegmentedLog, clock: Clock) -> None:
        self.log = log
        self.unreadable = UnreadablePlaces(clock)

    def append_run(
        self, run: Run, body: memoryview, first_sequence: int, stored_at_ms: int, origin: Origin, subject: str
    ) -> tuple[int, int]:
        """Add the entries of one run, as received, under `subject` (for a broker's retry not the one in the entries).

        Returns the log offset of the record's payload, and that of its first entry.
        """
        head = encode_messages_head(subject, first_sequence, stored_at_ms, run.count, origin)
        offset = self.log.append(RecordKind.MESSAGES, head, body[run.begin : run.end])
        return offset, offset + len(head)

    def append_action(self, action: Action) -> int:
        """Add an action; the offset of its record."""
        kind, payload = encode_action(action)
        return self.log.append(kind, payload)

    def read_raws(
        self, index_bytes: bytes, *, cached_only: bool, bytes_max: int = UNBOUNDED
    ) -> list[memoryview | None]:
        """The raw messages that index entries (`consume_log.ENTRY`) point at, each checked; None where a check failed.

        None also for a message that the disk can't read: it is withheld, see `unreadable`, and not read again for a while.
        Stops early, after at least one message, when the next would bring the total over `bytes_max`.

        Raises:
            ColdRead: with `cached_only`, when a stretch is not in memory.
        """
        entries = list(ENTRY.iter_unpack(index_bytes))
        heads = memoryview(index_bytes)
        raws: list[memoryview | None] = []
        count, at = _within(entries, bytes_max), 0
        has_unreadable = len(self.unreadable) > 0
        is_withheld = self.unreadable.is_withheld
        while at < count:
            begin, size, _stored_at, _bits, _check = entries[at]
            if has_unreadable and is_withheld(begin):
                raws.append(None)
                at += 1
                continue
            end = begin + size
            stop = at + 1
            while stop < count:
                offset, size, _stored_at, _bits, _check = entries[stop]
                if not 0 <= offset - end <= READ_GAP_BYTES_MAX or offset + size - begin > READ_SPAN_BYTES_MAX:
                    break
                if has_unreadable and is_withheld(offset):
                    break
                end = offset + size
                stop += 1
            places = index_bytes[at * ENTRY_BYTES : stop * ENTRY_BYTES]
            try:
                data = self._read_span(begin, end - begin, cached_only, places)
            except ReadFailed as error:
                data = None
                if stop - at == 1:
                    self.unreadable.add(begin, end - begin, error)
            if data is None and stop - at > 1:
                raws.extend(self._read_apart(places, cached_only))
                at = stop
                continue
            place = at * ENTRY_BYTES
            for offset, size, _stored_at, _bits, check in entries[at:stop]:
                raw = None if data is None or not size else data[offset - begin : offset - begin + size]
                if raw is not None and crc32(heads[place : place + ENTRY_HEAD_BYTES], crc32(raw)) != check:
                    raw = None
                place += ENTRY_BYTES
                if has_unreadable and raw is not None:
                    self.unreadable.remove(offset)
                raws.append(raw)
            at = stop
        return raws

    def _read_span(self, offset: int, size: int, cached_only: bool, index_bytes: bytes = b"") -> memoryview | None:
        """Bytes of the log; None for a place that is no longer kept, or never was.

        Raises:
            ColdRead: with `cached_only`, when they are not in memory.
            ReadFailed: the disk returned an error.
        """
        if size <= 0:
            return None
        try:
            data = self.log.read_cached(offset, size) if cached_only else self.log.read(offset, size)
        except ReadFailed:
            raise
        except LogError:
            return None
        if data is None:
            raise ColdRead(offset, size, index_bytes)
        return memoryview(data)

    def _read_apart(self, index_bytes: bytes, cached_only: bool) -> list[memoryview | None]:
        """Messages that could not be read as one span (a read error, the end of a segment), one by one."""
        raws: list[memoryview | None] = []
        for place in range(0, len(index_bytes), ENTRY_BYTES):
            raws += self.read_raws(index_bytes[place : place + ENTRY_BYTES], cached_only=cached_only)
        return raws

    def is_message_whole(self, offset: int, size: int) -> bool:
        """Whether the bytes at an index entry's place match the CRC stored before them."""
        try:
            data = self._read_span(offset - CRC_BYTES, size + CRC_BYTES, cached_only=False)
        except ReadFailed:
            return False
        return data is not None and int.from_bytes(data[:CRC_BYTES], "big") == crc32(data[CRC_BYTES:])


def _within(entries: list[tuple[int, ...]], bytes_max: int) -> int:
    """How many of the entries' messages fit `bytes_max`; at least one."""
    total = 0
    for i, entry in enumerate(entries):
        total += entry[1]
        if total > bytes_max and i:
            return i
    return len(entries)


def visit_records(
    body: memoryview,
    body_offset: int,
    on_messages: Callable[[int, MessagesHead, int, Run], None],
    on_action: Callable[[int, int, memoryview], None],
) -> None:
    """Call back for each record of a commit: (record offset, head, entries offset, run), or (offset, kind, payload)."""
    for offset, kind, payload in iter_records(body, body_offset):
        if kind != RecordKind.MESSAGES:
            on_action(offset, kind, payload)
            continue
        head, at = decode_messages_head(payload)
        try:
            run = walk_stored(payload[at:], head.subject)
        except ProtocolError as error:
            raise LogError(f"the message record at offset {offset} can't be read: {error}") from error
        on_messages(offset, head, offset + at, run)
