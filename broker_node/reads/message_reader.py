"""Reads a subject's messages and checks each of them.

Every reader of messages, on the event loop or in a thread, passes what it read to `damaged_entries`: so damage is recorded in the
same way whichever request finds it.

The event loop reads what is in memory, index entries and messages alike. When anything is missing, it raises a `ReadPlan`: all of
it is read in a thread, and then the request is made again with the plan.
"""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from struct import Struct

from broker_node.reads.filters import TagMatch
from broker_node.reads.index_repair import EMPTY_ENTRY, DamagedEntries, check_repairs
from broker_node.storage.consume_log import ENTRY, ENTRY_BYTES, encode_withheld, entry_at
from broker_node.storage.disk_work import DiskWork
from broker_node.storage.message_log import UNBOUNDED, MessageLog, NotCached, Raw
from broker_node.storage.store import WITHHELD_MAX, MessageStore
from broker_node.storage.subject import Subject
from qmq.errors import LogError

READ_AHEAD_BYTES = 1 << 20
"""What of the log is read into memory, from the first message on, when messages are read in a thread."""
AHEAD_ENTRIES = 4096
"""Index entries that are read into memory with them, from the first message on."""
SCAN_STEP = 1024
"""Index entries checked together against a filter."""
FUTURE_STAMP_MS = 1_000
"""A store time this far ahead of now shows that the wall clock was stepped back: no delay is computed from it."""
_DIGEST = Struct(">8xI8xQ4x")
"""Of an index entry, the size of its message and the digest of its tags."""
WITHHELD = encode_withheld(1)
"""The entry of a sequence whose message is known to be lost: nothing to look for."""
_STORED_AT_BYTE = 14
"""A byte of an entry's `stored_at_ms` that is 0 in empty entries, and in none whose time is after 2004. One byte of each entry is
all that a reader in bulk pays for the search for empty ones."""


@dataclass(slots=True)
class Wanted:
    """Messages for one request: of ranges [begin, end) of sequences, in order, until there are enough.

    With `match`, only messages that match it count and are returned. With `delay_ms`, the messages end before the first that was
    stored less than that long before `now_ms`.
    """

    ranges: tuple[tuple[int, int], ...]
    count: int
    bytes_max: int = UNBOUNDED
    """Of all messages that are read; at least one is, whatever its size."""
    match: TagMatch | None = None
    delay_ms: int = 0
    now_ms: int = 0


@dataclass(slots=True)
class Messages:
    """What was read: the message of each sequence of the ranges, as far as was read; None for one withheld or unmatched."""

    raws: list[Raw | None]
    due_at_ms: int | None = None
    """Reading stopped at a message that becomes due at this wall time."""
    failed: list[tuple[int, bytes]] = field(default_factory=list)
    """(sequence, index entry) of messages that could not be read or fail their checks."""


class ReadPlan(DiskWork):
    """Messages that are not in memory: index entries, bodies and checks are read together, in a thread."""

    def __init__(self, store: MessageStore, subject: Subject, wanted: Wanted) -> None:
        super().__init__()
        self._store = store
        self._subject = subject
        self._wanted = wanted
        begin, end = min(begin for begin, _ in wanted.ranges), max(end for _, end in wanted.ranges)
        self._view = subject.consume_log.view(begin, max(end, begin + AHEAD_ENTRIES))
        self._found: Messages | None = None
        self._error: LogError | None = None

    def read(self) -> None:
        log, ahead = self._store.message_log, True

        def entries(begin: int, end: int) -> bytes:
            nonlocal ahead
            found = self._view.read(begin, end)
            if ahead and found:
                # The pulls that follow find the next messages in memory.
                ahead = False
                with contextlib.suppress(LogError):
                    self._view.read(begin, begin + AHEAD_ENTRIES)
                    offset = ENTRY.unpack_from(found)[0]
                    log.log.stored.warm(offset, min(READ_AHEAD_BYTES, max(0, log.log.written_end - offset)))
            return found

        try:
            self._found = _read(entries, log, self._wanted, cached_only=False)
        except LogError as error:
            self._error = error

    def finish(self) -> DiskWork | None:
        if self._error is not None and self._subject.consume_log.begin <= self._view.begin:
            raise self._error
        # Else retention took a file meanwhile. Then, and after a repair, the request reads again.
        damaged = None if self._found is None else _damage(self._store, self._subject, self._found)
        if damaged is not None:
            self._found = None
        return damaged

    def messages(self, subject: Subject, wanted: Wanted) -> Messages | None:
        """What was read, if it is what a request wants now, or its beginning."""
        mine, found = self._wanted, self._found
        if found is None or subject is not self._subject or mine.match != wanted.match:
            return None
        (*before, (begin, end)), (*before_now, (begin_now, end_now)) = mine.ranges, wanted.ranges
        if before != before_now or begin != begin_now or end > end_now:
            return None
        if mine.count <= wanted.count:
            return found
        return Messages(found.raws[: wanted.count]) if wanted.match is None else None


def read_messages(store: MessageStore, subject: Subject, wanted: Wanted, plan: DiskWork | None = None) -> Messages:
    """Read messages without waiting for the disk. Raises DiskWork, before any change, when that is not possible.

    `plan` is what an earlier call raised, finished: its messages are returned if they are still those wanted.
    """
    if isinstance(plan, ReadPlan) and (found := plan.messages(subject, wanted)) is not None:
        return found
    try:
        found = _read(subject.consume_log.read_cached, store.message_log, wanted, cached_only=True)
    except NotCached:
        raise ReadPlan(store, subject, wanted) from None
    if found.failed and (damaged := _damage(store, subject, found)) is not None:
        raise damaged
    return found


def _read(
    read_entries: Callable[[int, int], bytes | None], log: MessageLog, wanted: Wanted, *, cached_only: bool
) -> Messages:
    """Raises NotCached, with `cached_only`, and LogError: a file of the index can't be opened or is gone."""
    found, missing, room, match = Messages([]), wanted.count, wanted.bytes_max, wanted.match
    for begin, end in wanted.ranges:
        at = begin
        while at < end and missing > 0 and room > 0:
            entries = read_entries(at, min(end, at + (missing if match is None else SCAN_STEP)))
            if entries is None:
                raise NotCached
            if wanted.delay_ms:
                entries, found.due_at_ms = _due(entries, wanted)
            if not entries:
                return found
            if match is None:
                raws = log.read_raws(entries, cached_only=cached_only, bytes_max=room)
                missing -= len(raws)
                numbers: Iterable[int] = range(len(raws))
            else:
                numbers = candidates = _candidates(entries, match)
                places = b"".join([entry_at(entries, i) for i in candidates[:missing]])
                raws = log.read_raws(places, cached_only=cached_only, bytes_max=room)
            if not all(raws):
                failed = [i for i, raw in zip(numbers, raws, strict=False) if raw is None]
                found.failed += [(at + i, entry_at(entries, i)) for i in failed]
            read = raws
            if match is not None:
                raws = _matching(raws, candidates, len(entries) // ENTRY_BYTES, match)
                missing -= len(raws) - raws.count(None)
            at += len(raws)
            found.raws += raws
            if missing <= 0 or found.due_at_ms is not None:
                return found
            room -= sum(map(len, filter(None, read)))
    return found


def _due(entries: bytes, wanted: Wanted) -> tuple[bytes, int | None]:
    """Entries up to the first whose message is too young, and when that becomes due."""
    for i, (_, size, stored_at_ms, _, _) in enumerate(ENTRY.iter_unpack(entries)):
        wait_ms = stored_at_ms + wanted.delay_ms - wanted.now_ms
        if size and 0 < wait_ms <= wanted.delay_ms + FUTURE_STAMP_MS:
            return entries[: i * ENTRY_BYTES], wanted.now_ms + wait_ms
    return entries, None


def _candidates(entries: bytes, match: TagMatch) -> list[int]:
    """Which entries' messages may match by their digests; one without a size has no digest."""
    bits, all_of = match.bits, match.all_of
    if all_of:
        return [i for i, (size, own) in enumerate(_DIGEST.iter_unpack(entries)) if own & bits == bits or not size]
    return [i for i, (size, own) in enumerate(_DIGEST.iter_unpack(entries)) if own & bits or not size]


def _matching(raws: list[Raw | None], candidates: list[int], count: int, match: TagMatch) -> list[Raw | None]:
    """The messages of `count` entries, up to the first candidate that was not read; None for each that does not match."""
    found: list[Raw | None] = [None] * (candidates[len(raws)] if len(raws) < len(candidates) else count)
    for i, raw in zip(candidates, raws, strict=False):
        if raw is not None and match.matches(raw):
            found[i] = raw
    return found


def _damage(store: MessageStore, subject: Subject, found: Messages) -> DamagedEntries | None:
    sequences = [sequence for sequence, _ in found.failed]
    entries = b"".join(entry for _, entry in found.failed)
    return damaged_entries(store, subject, sequences, entries, [None] * len(sequences))


def unreadable_entries(store: MessageStore, subject: Subject, first: int, index_bytes: bytes) -> DamagedEntries | None:
    """The repair of entries from sequence `first` on that the disk can't read; None when there are none, or it failed recently."""
    if 0 not in index_bytes[_STORED_AT_BYTE::ENTRY_BYTES] or len(store.withheld) >= WITHHELD_MAX:
        return None
    index, found = subject.consume_log, []
    for sequence, begin in enumerate(range(0, len(index_bytes), ENTRY_BYTES), first):
        is_known = (subject.name, sequence) in store.withheld or index.is_withheld(sequence)
        if index_bytes[begin : begin + ENTRY_BYTES] == EMPTY_ENTRY and not is_known and sequence >= subject.begin:
            found.append(sequence)
    return DamagedEntries(store, subject, found) if found else None


def damaged_entries(
    store: MessageStore,
    subject: Subject,
    sequences: Sequence[int],
    index_bytes: bytes,
    raws: Sequence[Raw | None],
) -> DamagedEntries | None:
    """The repair of messages that failed their checks for a reason not known yet; None when there are none.

    The repair records what it can't repair. A message that the disk can't read is not part of it, because its entry may be
    right; neither is one whose entry's page in the index file could not be repaired a moment ago, nor one below `subject.begin`.

    Raises BeingRepaired for a message that the disk can't read and another member has.
    """
    if all(raws):
        # No message is empty. `None in raws` would compare each view with None, which takes thirty times as long.
        return None
    if len(store.withheld) >= WITHHELD_MAX:
        # No more can be recorded, so each read would search for them again.
        return None
    unreadable, index, damaged = store.message_log.unreadable, subject.consume_log, []
    for i, raw in enumerate(raws):
        entry = entry_at(index_bytes, i)
        if raw is not None or entry == WITHHELD or (subject.name, sequences[i]) in store.withheld:
            continue
        if sequences[i] < subject.begin:
            continue
        if unreadable.is_withheld(ENTRY.unpack(entry)[0]):
            check_repairs(store)
        elif not index.is_withheld(sequences[i]):
            damaged.append(sequences[i])
    return DamagedEntries(store, subject, damaged) if damaged else None
