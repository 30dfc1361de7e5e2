"""The broker's write-ahead log: messages of all subjects and the actions on them, in the order they happened.

The one place where a wire batch becomes records and where stored bytes are checked before they leave.
"""

from collections.abc import Callable
from struct import error as StructError
from typing import NamedTuple
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
from qmq.errors import LogError
from qmq.log.log import SegmentedLog
from qmq.log.record import iter_records
from qmq.protocol.scan import CRC_BYTES, Run, walk_stored

READ_GAP_BYTES_MAX = 4096
"""Neighbouring messages closer than this are read with one call."""
READ_SPAN_BYTES_MAX = 1 << 20
"""Most bytes of one read."""
UNBOUNDED = 1 << 62


class ColdRead(Exception):
    """The bytes are not in the page cache: read them elsewhere than on the event loop, then ask again."""

    def __init__(self, offset: int, size: int) -> None:
        super().__init__(offset, size)
        self.offset = offset
        self.size = size


class Appended(NamedTuple):
    """Where a message record went: its payload's offset, and the offset of its first entry."""

    record_offset: int
    entries_offset: int


class MessageLog:
    """Records on top of `qmq.log.SegmentedLog`."""

    def __init__(self, log: SegmentedLog) -> None:
        self.log = log

    def append_run(
        self, run: Run, body: memoryview, first_sequence: int, stored_at_ms: int, origin: Origin, subject: str
    ) -> Appended:
        """Add the entries of one run, as they came, under `subject` (for a broker's retry not the one they name)."""
        head = encode_messages_head(MessagesHead(subject, first_sequence, stored_at_ms, run.count, origin))
        offset = self.log.append(RecordKind.MESSAGES, head, body[run.begin : run.end])
        return Appended(offset, offset + len(head))

    def append_action(self, action: Action) -> int:
        """Add an action; the offset of its record."""
        kind, payload = encode_action(action)
        return self.log.append(kind, payload)

    def read_raws(
        self, index_bytes: bytes, *, cached_only: bool, bytes_max: int = UNBOUNDED
    ) -> list[memoryview | None]:
        """The raw messages that index entries (`consume_log.ENTRY`) point at, each checked; None where a check failed.

        Stops early, after at least one message, when the next would bring the total over `bytes_max`.

        Raises:
            ColdRead: with `cached_only`, when a stretch is not in memory.
        """
        entries = list(ENTRY.iter_unpack(index_bytes))
        heads = memoryview(index_bytes)
        raws: list[memoryview | None] = []
        count, at = _within(entries, bytes_max), 0
        while at < count:
            begin, size, *_ = entries[at]
            end = begin + size
            stop = at + 1
            while stop < count:
                offset, size, *_ = entries[stop]
                if not 0 <= offset - end <= READ_GAP_BYTES_MAX or offset + size - begin > READ_SPAN_BYTES_MAX:
                    break
                end = offset + size
                stop += 1
            data = self._read_span(begin, end - begin, cached_only)
            if data is None and stop - at > 1:
                raws.extend(self._read_apart(entries[at:stop], index_bytes, at, cached_only))
                at = stop
                continue
            for i in range(at, stop):
                offset, size, _stored_at, _bits, check = entries[i]
                raw = None if data is None or not size else data[offset - begin : offset - begin + size]
                place = i * ENTRY_BYTES
                if raw is not None and crc32(heads[place : place + ENTRY_HEAD_BYTES], crc32(raw)) != check:
                    raw = None
                raws.append(raw)
            at = stop
        return raws

    def _read_span(self, offset: int, size: int, cached_only: bool) -> memoryview | None:
        """Bytes of the log; None when they can't be read at all (a damaged place, a place no longer kept)."""
        if size <= 0:
            return None
        try:
            data = self.log.read_cached(offset, size) if cached_only else self.log.read(offset, size)
        except LogError:
            return None
        if data is None:
            raise ColdRead(offset, size)
        return memoryview(data)

    def _read_apart(
        self, entries: list[tuple[int, ...]], index_bytes: bytes, first: int, cached_only: bool
    ) -> list[memoryview | None]:
        """A span that could not be read as one (it touched damage or the end of a segment), message by message."""
        raws: list[memoryview | None] = []
        for i in range(first, first + len(entries)):
            place = i * ENTRY_BYTES
            raws += self.read_raws(index_bytes[place : place + ENTRY_BYTES], cached_only=cached_only)
        return raws

    def is_message_whole(self, offset: int, size: int) -> bool:
        """Whether the bytes at an index entry's place match the CRC stored before them."""
        data = self._read_span(offset - CRC_BYTES, size + CRC_BYTES, cached_only=False)
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
        except (StructError, IndexError) as error:
            raise LogError(f"the message record at offset {offset} can't be read: {error}") from error
        on_messages(offset, head, offset + at, run)
