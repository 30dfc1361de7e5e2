"""Reads a subject's messages and checks each of them.

Every reader of messages, on the event loop or in a thread, passes what it read to `damaged_entries`: so damage is recorded in the
same way whichever request finds it.
"""

from collections.abc import Sequence

from broker_node.consume_log import ENTRY, ENTRY_BYTES, encode_withheld
from broker_node.filters import TagMatch
from broker_node.index_repair import EMPTY_ENTRY, DamagedEntries
from broker_node.message_log import UNBOUNDED
from broker_node.store import WITHHELD_MAX, MessageStore
from broker_node.subject import Subject

WITHHELD = encode_withheld(1)
"""The entry of a sequence whose message is known to be lost: nothing to look for."""
_STORED_AT_BYTE = 14
"""A byte of an entry's `stored_at_ms` that is 0 in empty entries, and in none whose time is after 2004. One byte of each entry is
all that a reader in bulk pays for the search for empty ones."""


def read_messages(
    store: MessageStore,
    subject: Subject,
    begin: int,
    end: int,
    cached_only: bool,
    bytes_max: int = UNBOUNDED,
    match: TagMatch | None = None,
) -> list[memoryview | None]:
    """Raw messages from sequence `begin` on, up to `end` or `bytes_max`; None for one withheld or that can't match.

    At least one message is read, whatever its size. What may match by its digest still has to be asked for its tags.

    Raises:
        ColdRead: with `cached_only`, when messages are not in memory; nothing was changed.
        DamagedEntries: messages fail their checks, their index entries may be wrong; a kind of ColdRead, of any read.
    """
    index_bytes = subject.consume_log.index.read(begin, end)
    if match is None:
        raws = store.message_log.read_raws(index_bytes, cached_only=cached_only, bytes_max=bytes_max)
        _raise_damaged(store, subject, range(begin, end), index_bytes, raws)
        return raws
    wanted = [i for i, entry in enumerate(ENTRY.iter_unpack(index_bytes)) if match.may_match(entry[3])]
    if _has_empty_entry(index_bytes):
        # An entry without a size has no digest either: unless it is a withheld message's, it is damaged or unreadable.
        wanted = [i for i, e in enumerate(ENTRY.iter_unpack(index_bytes)) if not e[1] or match.may_match(e[3])]
    chosen = b"".join(index_bytes[i * ENTRY_BYTES : (i + 1) * ENTRY_BYTES] for i in wanted)
    found = store.message_log.read_raws(chosen, cached_only=cached_only, bytes_max=bytes_max)
    _raise_damaged(store, subject, [begin + i for i in wanted], chosen, found)
    seen = wanted[len(found)] if len(found) < len(wanted) else len(index_bytes) // ENTRY_BYTES
    raws = [None] * seen
    for i, raw in zip(wanted, found, strict=False):
        raws[i] = raw
    return raws


def read_and_repair(store: MessageStore, subject: Subject, begin: int, end: int) -> list[memoryview | None]:
    """As `read_messages`, waiting for the disk and for repairs: for tools and tests, not for the event loop."""
    while True:
        try:
            return read_messages(store, subject, begin, end, cached_only=False)
        except DamagedEntries as damaged:
            damaged.complete(store.message_log)


def unreadable_entries(store: MessageStore, subject: Subject, first: int, index_bytes: bytes) -> DamagedEntries | None:
    """The repair of entries from sequence `first` on that the disk can't read; None when there are none, or it failed lately."""
    if 0 not in index_bytes[_STORED_AT_BYTE::ENTRY_BYTES] or len(store.withheld) >= WITHHELD_MAX:
        return None
    index, found = subject.consume_log.index, []
    for sequence, begin in enumerate(range(0, len(index_bytes), ENTRY_BYTES), first):
        is_known = (subject.name, sequence) in store.withheld or index.is_withheld(sequence)
        if index_bytes[begin : begin + ENTRY_BYTES] == EMPTY_ENTRY and not is_known and sequence >= subject.begin:
            found.append(sequence)
    return DamagedEntries(store, subject, found) if found else None


def _has_empty_entry(index_bytes: bytes) -> bool:
    """Whether an entry has size 0. Without a loop over entries: filtered pulls look at many thousands."""
    size = 0
    for at in range(8, 12):
        size |= int.from_bytes(index_bytes[at::ENTRY_BYTES], "big")
    return 0 in size.to_bytes(len(index_bytes) // ENTRY_BYTES, "big")


def _raise_damaged(
    store: MessageStore, subject: Subject, sequences: Sequence[int], index_bytes: bytes, raws: list[memoryview | None]
) -> None:
    if (damaged := damaged_entries(store, subject, sequences, index_bytes, raws)) is not None:
        raise damaged


def damaged_entries(
    store: MessageStore,
    subject: Subject,
    sequences: Sequence[int],
    index_bytes: bytes,
    raws: Sequence[memoryview | None],
) -> DamagedEntries | None:
    """The repair of messages that failed their checks for a reason not known yet; None when there are none.

    The repair records what it can't repair. A message that the disk can't read is not part of it, because its entry may be
    right; neither is one whose entry's page in the index file could not be repaired a moment ago, nor one below `subject.begin`.
    """
    if all(raws):
        # No message is empty. `None in raws` would compare each buffer with None, which takes thirty times as long.
        return None
    if len(store.withheld) >= WITHHELD_MAX:
        # No more can be recorded, so each read would search for them again.
        return None
    unreadable, index, damaged = store.message_log.unreadable, subject.consume_log.index, []
    for i, raw in enumerate(raws):
        entry = index_bytes[i * ENTRY_BYTES : (i + 1) * ENTRY_BYTES]
        if raw is not None or entry == WITHHELD or (subject.name, sequences[i]) in store.withheld:
            continue
        if sequences[i] < subject.begin:
            continue
        if not unreadable.is_withheld(ENTRY.unpack(entry)[0]) and not index.is_withheld(sequences[i]):
            damaged.append(sequences[i])
    return DamagedEntries(store, subject, damaged) if damaged else None
