"""The broker's write-ahead log: messages of all subjects and the actions on them, in the order they happened.

The one place where a wire batch becomes records and where stored bytes are checked before they leave.
"""

from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from struct import Struct
from typing import Any

from broker_node.storage.actions import (
    Action,
    MessagesHead,
    Origin,
    RecordKind,
    encode_action,
    encode_messages_head,
)
from broker_node.storage.consume_log import BLOCK_ENTRIES, CHECKED_FIELDS, ENTRY_BYTES, PLACE_FIELDS, entry_fields
from broker_node.storage.unreadable import UnreadablePlaces
from qmq.checksum import crc32
from qmq.clock import Clock
from qmq.errors import LogError, ProtocolError, ReadFailed
from qmq.protocol.scan import CRC_BYTES, Run, walk_stored
from qmq_node.log.disk import Buffer
from qmq_node.log.log import SegmentedLog

READ_GAP_BYTES_MAX = 4096
"""Neighbouring messages closer than this are read with one call."""
READ_SPAN_BYTES_MAX = 1 << 20
"""Most bytes of one read."""
COPIED_BYTES_MAX = 512
"""Messages up to this size on average are copied out of what was read: that takes less time than a view of each. For larger ones
the interpreter has no memory at hand."""
UNBOUNDED = 1 << 62
Raw = bytes | memoryview
"""A message as it is stored."""
COPIED_SPAN_BYTES_MAX = 128 << 10
"""Messages of equal sizes are copied if the bytes read for them are at most this many."""
CUT_TOGETHER_MIN = 8
"""Fewer messages are sliced one by one, even if their sizes are equal."""


@lru_cache(BLOCK_ENTRIES)
def _equal(size: int, gap: int, count: int) -> Struct:
    # A layout takes up to 16 KB, all of them 4 MB.
    return Struct(f"{size}s{gap}x" * (count - 1) + f"{size}s")


def _cut(data: Buffer, offsets: Sequence[int], sizes: Sequence[int]) -> list[Any]:
    """Return the messages contained in `data`, whose first byte is at the first offset."""
    begin, size, count, span = offsets[0], sizes[0], len(sizes), len(data)
    step = offsets[1] - begin if CUT_TOGETHER_MIN <= count <= BLOCK_ENTRIES and span <= COPIED_SPAN_BYTES_MAX else 0
    if 0 < size <= step and sizes.count(size) == count and offsets == tuple(range(begin, begin + count * step, step)):
        # Messages of one batch often have the same size.
        return list(_equal(size, step - size, count).unpack(data))
    source = memoryview(data) if span > COPIED_BYTES_MAX * count else bytes(data)
    return [source[(at := offset - begin) : at + size] for offset, size in zip(offsets, sizes, strict=True)]


class NotCached(Exception):
    """The bytes are not in the page cache."""


class MessageLog:
    """Records on top of `qmq_node.log.SegmentedLog`."""

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
        offset = self.log.gather.append(RecordKind.MESSAGES, head, body[run.begin : run.end])
        return offset, offset + len(head)

    def append_action(self, action: Action, names: bytes = b"") -> int:
        """Add an action, `names` as in `encode_action`; the offset of its record."""
        kind, payload = encode_action(action, names)
        return self.log.gather.append(kind, payload)

    def read_raws(self, index_bytes: bytes, *, cached_only: bool, bytes_max: int = UNBOUNDED) -> list[Raw | None]:
        """The raw messages that index entries (`consume_log.ENTRY`) point at, each checked; None where a check failed.

        None also for a message that the disk can't read: it is withheld, see `unreadable`, and not read again for a while.
        Stops early, after at least one message, when the next would bring the total over `bytes_max`. With `cached_only`, raises
        NotCached when the disk would have to be asked.
        """
        if not index_bytes:
            return []
        places = entry_fields(PLACE_FIELDS, index_bytes)
        offsets, sizes = places[::2], places[1::2]
        if sum(sizes) > bytes_max:
            count = max(1, bisect_right(list(accumulate(sizes)), bytes_max))
            index_bytes, offsets, sizes = index_bytes[: count * ENTRY_BYTES], offsets[:count], sizes[:count]
        raws = self._read_whole(index_bytes, offsets, sizes, cached_only)
        if raws is None:
            raws = self._read_apart(index_bytes, list(zip(offsets, sizes, strict=True)), cached_only)
        return raws

    def _read_whole(
        self, index_bytes: bytes, offsets: Sequence[int], sizes: Sequence[int], cached_only: bool
    ) -> list[Raw | None] | None:
        """Messages that lie close together, with one read; None unless all pass their checks."""
        begin, size = offsets[0], sum(sizes)
        span = offsets[-1] + sizes[-1] - begin
        if not 0 < span <= min(READ_SPAN_BYTES_MAX, 2 * size + READ_GAP_BYTES_MAX) or self.unreadable:
            return None
        try:
            data = self._read_span(begin, span, cached_only)
        except ReadFailed:
            return None
        if data is None:
            return None
        raws: list[Raw | None] = _cut(data, offsets, sizes)
        heads_checks = entry_fields(CHECKED_FIELDS, index_bytes)
        # The checks of an empty message are right for a withheld one.
        if all(raws) and list(map(crc32, heads_checks[::2], map(crc32, raws))) == list(heads_checks[1::2]):
            return raws
        return None

    def _read_apart(self, index_bytes: bytes, places: list[tuple[int, int]], cached_only: bool) -> list[Raw | None]:
        """Messages that can't be read as one span: far from each other, damaged, unreadable, or in several segments."""
        raws: list[Raw | None] = []
        heads_checks = entry_fields(CHECKED_FIELDS, index_bytes)
        checked = list(zip(heads_checks[::2], heads_checks[1::2], strict=True))
        count, at = len(places), 0
        is_withheld = self.unreadable.is_withheld
        while at < count:
            begin, size = places[at]
            stop, end = at + 1, begin + size
            while stop < count and not is_withheld(begin):
                offset, size = places[stop]
                if not 0 <= offset - end <= READ_GAP_BYTES_MAX or offset + size - begin > READ_SPAN_BYTES_MAX:
                    break
                if is_withheld(offset):
                    break
                end = offset + size
                stop += 1
            raws += self._read_near(places[at:stop], checked[at:stop], cached_only)
            at = stop
        return raws

    def _read_near(
        self, places: list[tuple[int, int]], checked: list[tuple[bytes, int]], cached_only: bool
    ) -> list[Raw | None]:
        """Neighbouring messages: with one read, and one by one if that fails or the first is withheld."""
        begin, end = places[0][0], sum(places[-1])
        if self.unreadable.is_withheld(begin):
            return [None]
        try:
            data = self._read_span(begin, end - begin, cached_only)
        except ReadFailed as error:
            data = None
            if len(places) == 1:
                self.unreadable.add(begin, end - begin, error)
        if data is None:
            if len(places) == 1:
                return [None]
            pairs = zip(places, checked, strict=True)
            return [raw for place, check in pairs for raw in self._read_near([place], [check], cached_only)]
        view, raws = memoryview(data), list[Raw | None]()
        for (offset, size), (head, check) in zip(places, checked, strict=True):
            raw = view[offset - begin : offset - begin + size]
            is_whole = bool(raw) and crc32(head, crc32(raw)) == check
            if is_whole and self.unreadable:
                self.unreadable.remove(offset)
            raws.append(raw if is_whole else None)
        return raws

    def _read_span(self, offset: int, size: int, cached_only: bool) -> bytes | bytearray | None:
        """Bytes of the log; None for a place that is no longer kept, or never was.

        Raises NotCached with `cached_only` when they are not in memory, or ReadFailed when the disk returned an error.
        """
        if size <= 0:
            return None
        try:
            data = self.log.stored.read_cached(offset, size) if cached_only else self.log.stored.read(offset, size)
        except ReadFailed:
            raise
        except LogError:
            return None
        if data is None:
            raise NotCached
        return data

    def is_message_whole(self, offset: int, size: int) -> bool:
        """Whether the bytes at an index entry's place match the CRC stored before them."""
        try:
            data = self._read_span(offset - CRC_BYTES, size + CRC_BYTES, cached_only=False)
        except ReadFailed:
            return False
        return data is not None and int.from_bytes(data[:CRC_BYTES], "big") == crc32(data[CRC_BYTES:])


def stored_run(entries: memoryview, head: MessagesHead, offset: int) -> Run:
    """The messages of a record at a log offset. Raises LogError."""
    try:
        return walk_stored(entries, head.subject)
    except ProtocolError as error:
        raise LogError(f"the message record at offset {offset} can't be read: {error}") from error
