"""Reading a subject's messages: every one checked, damaged index entries made again, damaged messages withheld."""

from collections.abc import Sequence

from broker_node.consume_log import ENTRY, ENTRY_BYTES, encode_withheld
from broker_node.filters import TagMatch
from broker_node.index_repair import repair_entries
from broker_node.message_log import UNBOUNDED
from broker_node.store import MessageStore
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
    """
    index_bytes = subject.consume_log.index.read(begin, end)
    if match is None:
        raws = store.message_log.read_raws(index_bytes, cached_only=cached_only, bytes_max=bytes_max)
        _mend(store, subject, range(begin, end), index_bytes, raws)
        return raws
    wanted = [i for i, entry in enumerate(ENTRY.iter_unpack(index_bytes)) if match.may_match(entry[3])]
    chosen = b"".join(index_bytes[i * ENTRY_BYTES : (i + 1) * ENTRY_BYTES] for i in wanted)
    found = store.message_log.read_raws(chosen, cached_only=cached_only, bytes_max=bytes_max)
    _mend(store, subject, [begin + i for i in wanted], chosen, found)
    seen = wanted[len(found)] if len(found) < len(wanted) else len(index_bytes) // ENTRY_BYTES
    raws = [None] * seen
    for i, raw in zip(wanted, found, strict=False):
        raws[i] = raw
    return raws


def _mend(
    store: MessageStore, subject: Subject, sequences: Sequence[int], index_bytes: bytes, raws: list[memoryview | None]
) -> None:
    """Where a check failed, make the index entry again from the log; what still fails is withheld.

    A message that the disk can't read is left as it is: its entry may be right.
    """
    if None not in raws:
        return
    unreadable = store.message_log.unreadable
    for i, raw in enumerate(raws):
        entry = index_bytes[i * ENTRY_BYTES : (i + 1) * ENTRY_BYTES]
        place = (subject.name, sequences[i])
        if raw is not None or entry == WITHHELD or place in store.withheld:
            continue
        if unreadable.is_withheld(ENTRY.unpack(entry)[0]):
            continue
        repaired = repair_entries(store, subject, sequences[i])
        if repaired:
            raws[i] = store.message_log.read_raws(repaired, cached_only=False)[0]
        if raws[i] is None:
            store.withhold(*place)
