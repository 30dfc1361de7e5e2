"""One group's history as fixed-size entries: what lag history, traces and Spark read without touching messages.

48 bytes an entry: i64 at_ms, u64 consumer (`consumer_key`), i64 begin and i64 end (pull sequences, half-open), i64
next_sequence (the group's position after it), u8 kind (`actions.RecordKind`), u8 layout, 2 bytes 0, u32 CRC of the bytes
before. Derived from the message log's actions, never the truth.

How to read it: a PULL says that pull sequences [begin, end) are the consume sequences
[next_sequence - (end - begin), next_sequence), in this order; so a pull that took several runs, because a filter left some out,
is several entries. One that moved the position past what it took ends in a PULL with begin == end and the position it came to.
What lies between the position before an entry and the messages it names was passed: filtered out, withheld or past retention.
This holds for broadcasts as well: there the pull sequences are the consume sequences themselves. ACK: the consumer said that
[begin, end) are done; for a broadcast, what its filter left out is in the range too. SETTLE: the broker moved [begin, end) to
the retry subject. Ranges of ACK and SETTLE may come in any order, leave gaps, and span what is done already: two processes that
share a consumer id each ack what they hold. The first entry that covers a pull sequence counts for it, and nothing below `begin`
is done because of it. A PULL below the end of the consumer's last one begins its numbers again (a broadcast that was set back).
OFFLINE: the consumer's state was dropped. START: the position was set. FORGET: the group was removed with all its consumers, and
its position was none (-1); what follows is another group of its name.
"""

from bisect import bisect_left
from functools import lru_cache
from hashlib import blake2b
from struct import Struct

from broker_node.storage.actions import KIND_OF, Ack, Action, Forget, Pull, RecordKind
from qmq.checksum import crc32
from qmq_node.log.index import DenseIndex, IndexView

LAYOUT = 1
"""The format of entries."""
_BODY = Struct(">qQqqqBB2x")
_CHECK = Struct(">I")
PROGRESS_ENTRY = Struct(">qQqqqB3xI")
"""An entry without its layout, which is the byte at LAYOUT_AT."""
LAYOUT_AT = 41
PROGRESS_ENTRY_BYTES = PROGRESS_ENTRY.size
WHOLE_LOOK_MAX = 256
"""Entries searched for a whole one: more than a page of the file, which reads as zeros when the disk can't read it."""
assert PROGRESS_ENTRY_BYTES == 48, "Spark and the inspector rely on the entry's size"


@lru_cache(10_000)
def consumer_key(consumer_id: str) -> int:
    """A consumer id as the 64-bit number that progress entries carry."""
    return int.from_bytes(blake2b(consumer_id.encode(), digest_size=8).digest(), "big")


def time_of(index: DenseIndex | IndexView, number: int) -> int | None:
    """When the action of an entry was; None when it fails its check, or can't be read. Of a view from any thread."""
    return _first_time(index.read(number, number + 1))


def time_from(index: DenseIndex | IndexView, number: int) -> int | None:
    """When the action of the first whole entry from `number` on was; None when there is none near. Of a view from any thread."""
    at_ms = time_of(index, number)
    return at_ms if at_ms is not None else _first_time(index.read(number + 1, number + WHOLE_LOOK_MAX))


def _first_time(data: bytes) -> int | None:
    for begin in range(0, len(data), PROGRESS_ENTRY_BYTES):
        if is_whole(data, begin):
            return int.from_bytes(data[begin : begin + 8], "big", signed=True)
    return None


def is_whole(data: bytes, begin: int) -> bool:
    """Whether the entry that begins at a byte of `data` passes its check."""
    check_at = begin + PROGRESS_ENTRY_BYTES - _CHECK.size
    return int.from_bytes(data[check_at : check_at + _CHECK.size], "big") == crc32(data[begin:check_at])


def find_time(index: DenseIndex | IndexView, at_ms: int) -> int:
    """The first entry at or after a wall time; `end` when there is none. Of a view from any thread.

    Times may step back with the wall clock; then this finds one place where they cross the time asked for.
    """

    def found(number: int) -> int:
        moment = time_from(index, number)
        return at_ms if moment is None else moment

    return index.begin + bisect_left(range(index.begin, index.end), at_ms, key=found)


def encode_progress(action: Action, position: int) -> bytes:
    """Return the entries of an action, one, or for a pull one for each of its runs. `position` is the group's after it."""
    key = consumer_key(action.consumer_id)
    if isinstance(action, Pull):
        return _encode_pull(action, key)
    begin, end = (action.begin, action.end) if isinstance(action, Ack) else (0, 0)
    return _entry(action.at_ms, key, begin, end, -1 if isinstance(action, Forget) else position, KIND_OF[type(action)])


def _encode_pull(pull: Pull, key: int) -> bytes:
    entries, at, position = [], pull.pull_begin, -1
    for run in pull.runs:
        entries.append(_entry(pull.at_ms, key, at, at + run.count, run.end, RecordKind.PULL))
        at, position = at + run.count, run.end
    if position != pull.next_sequence:
        entries.append(_entry(pull.at_ms, key, at, at, pull.next_sequence, RecordKind.PULL))
    return b"".join(entries)


def _entry(at_ms: int, key: int, begin: int, end: int, next_sequence: int, kind: RecordKind) -> bytes:
    body = _BODY.pack(at_ms, key, begin, end, next_sequence, kind, LAYOUT)
    return body + _CHECK.pack(crc32(body))
