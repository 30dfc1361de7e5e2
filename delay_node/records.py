"""Records of a delay node's message log, and how a scheduled message is named: bytes to values and back. Pure.

A scheduled message stands in the schedule log of its due hour; its *number* there, with the hour, names it permanently:

    ref = hour << 32 | number        hour: hours since 1970 (UTC), number: from 0 in the order of the message log

Records (big-endian; `qmq_node.log` adds envelope, commit and CRC):

    SCHEDULED   u16 subject bytes · subject · i64 received at · u32 count · count x i64 due · count x u32 number · entries
    CLAIMED, DELIVERED, CANCELLED, REFUSED    i64 at · u32 count · count x u64 ref
    MOVED       i64 at · u64 ref · i64 new due · u32 new number · entry

Times are milliseconds since the epoch. An entry is what a SEND carries: the CRC of a raw message, then the message.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from struct import error as StructError

from qmq.errors import LogError

HOUR_MS = 3_600_000
NUMBER_BITS = 32
NUMBER_MAX = (1 << NUMBER_BITS) - 1
"""Messages of one hour; a further one is refused."""

_U16 = Struct(">H")
_COUNTED = Struct(">qI")
"""Of SCHEDULED and of actions: a time, and how many messages follow."""
_MOVED = Struct(">qQqI")


class RecordKind(IntEnum):
    """Kinds of record. CLAIMED: a batch is about to be sent to a broker; from then on it may have been delivered."""

    SCHEDULED = 1
    CLAIMED = 2
    DELIVERED = 3
    CANCELLED = 4
    MOVED = 5
    REFUSED = 6


class State(IntEnum):
    """What became of a scheduled message; the numbers are those of the records that lead there."""

    PENDING = 0
    CLAIMED = 2
    DELIVERED = 3
    CANCELLED = 4
    MOVED = 5
    REFUSED = 6
    LOST = 7


GONE = frozenset({State.DELIVERED, State.CANCELLED, State.MOVED})
"""States that nothing leads out of."""
ACTIONS = frozenset({RecordKind.CLAIMED, RecordKind.DELIVERED, RecordKind.CANCELLED, RecordKind.REFUSED})


def ref_of(hour: int, number: int) -> int:
    """The name of a scheduled message."""
    return hour << NUMBER_BITS | number


def hour_of(ref: int) -> int:
    return ref >> NUMBER_BITS


def number_of(ref: int) -> int:
    return ref & NUMBER_MAX


def numbers_by_hour(refs: Iterable[int]) -> dict[int, list[int]]:
    """The numbers of messages by hour, in their order."""
    found: dict[int, list[int]] = {}
    for ref in refs:
        found.setdefault(hour_of(ref), []).append(number_of(ref))
    return found


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A SCHEDULED record: messages of one subject; `entries` are back to back, in the order of the lists."""

    subject: str
    received_at_ms: int
    dues_ms: Sequence[int]
    numbers: Sequence[int]
    entries: memoryview


@dataclass(frozen=True, slots=True)
class Action:
    """CLAIMED, DELIVERED, CANCELLED or REFUSED."""

    kind: RecordKind
    at_ms: int
    refs: Sequence[int]


@dataclass(frozen=True, slots=True)
class Moved:
    """A MOVED record: `entry` with its new due time goes to `number` of the new hour."""

    at_ms: int
    ref: int
    due_ms: int
    number: int
    entry: memoryview


Record = Scheduled | Action | Moved


def encode_scheduled_head(subject: str, received_at_ms: int, dues_ms: Sequence[int], numbers: Sequence[int]) -> bytes:
    """A SCHEDULED record up to its entries."""
    name = subject.encode()
    count = len(dues_ms)
    lists = Struct(f">{count}q{count}I").pack(*dues_ms, *numbers)
    return b"".join((_U16.pack(len(name)), name, _COUNTED.pack(received_at_ms, count), lists))


def encode_action(at_ms: int, refs: Sequence[int]) -> bytes:
    return _COUNTED.pack(at_ms, len(refs)) + Struct(f">{len(refs)}Q").pack(*refs)


def encode_moved_head(at_ms: int, ref: int, due_ms: int, number: int) -> bytes:
    """A MOVED record up to its entry."""
    return _MOVED.pack(at_ms, ref, due_ms, number)


def decode_record(offset: int, kind: int, payload: memoryview) -> Record:
    """A record of the log. Raises LogError for one that this version does not write."""
    try:
        if kind == RecordKind.SCHEDULED:
            return _decode_scheduled(payload)
        if kind == RecordKind.MOVED:
            at_ms, ref, due_ms, number = _MOVED.unpack_from(payload)
            return Moved(at_ms, ref, due_ms, number, payload[_MOVED.size :])
        if kind in ACTIONS:
            at_ms, count = _COUNTED.unpack_from(payload)
            return Action(RecordKind(kind), at_ms, Struct(f">{count}Q").unpack_from(payload, _COUNTED.size))
    except (StructError, UnicodeDecodeError) as error:
        raise LogError(f"the record of kind {kind} at log offset {offset} can't be read: {error}") from error
    raise LogError(f"a record of kind {kind} at log offset {offset}: this version does not know it")


def _decode_scheduled(payload: memoryview) -> Scheduled:
    size = _U16.unpack_from(payload)[0]
    subject = str(payload[2 : 2 + size], "utf-8")
    at = 2 + size
    received_at_ms, count = _COUNTED.unpack_from(payload, at)
    at += _COUNTED.size
    lists = Struct(f">{count}q{count}I")
    values = lists.unpack_from(payload, at)
    return Scheduled(subject, received_at_ms, values[:count], values[count:], payload[at + lists.size :])
