"""Reading a subject's messages: every one checked, damaged ones found."""

from collections.abc import Sequence

from broker_node.consume_log import ENTRY, ENTRY_BYTES, encode_withheld
from broker_node.filters import TagMatch
from broker_node.index_repair import DamagedEntries
from broker_node.message_log import UNBOUNDED
from broker_node.store import WITHHELD_MAX, MessageStore
from broker_node.subject import Subject

WITHHELD = encode_withheld(1)
"""The entry of a sequence whose message is known to be lost: nothing to look for."""


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
        _check(store, subject, range(begin, end), index_bytes, raws)
        return raws
    wanted = [i for i, entry in enumerate(ENTRY.iter_unpack(index_bytes)) if match.may_match(entry[3])]
    chosen = b"".join(index_bytes[i * ENTRY_BYTES : (i + 1) * ENTRY_BYTES] for i in wanted)
    found = store.message_log.read_raws(chosen, cached_only=cached_only, bytes_max=bytes_max)
    _check(store, subject, [begin + i for i in wanted], chosen, found)
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
            damaged.read(store.message_log)
            damaged.finish()


def _check(
    store: MessageStore, subject: Subject, sequences: Sequence[int], index_bytes: bytes, raws: list[memoryview | None]
) -> None:
    """Raise DamagedEntries where a check failed and it is not known why.

    A message that the disk can't read is left as it is: its entry may be right.
    """
    if None not in raws:
        return
    if len(store.withheld) >= WITHHELD_MAX:
        # No more can be remembered, so they would be looked for at every pull.
        return
    unreadable, damaged = store.message_log.unreadable, []
    for i, raw in enumerate(raws):
        entry = index_bytes[i * ENTRY_BYTES : (i + 1) * ENTRY_BYTES]
        if raw is not None or entry == WITHHELD or (subject.name, sequences[i]) in store.withheld:
            continue
        if not unreadable.is_withheld(ENTRY.unpack(entry)[0]):
            damaged.append(sequences[i])
    if damaged:
        raise DamagedEntries(store, subject, damaged)
