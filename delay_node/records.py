"""Records of a delay node's message log, and how a scheduled message is named: bytes to values and back. Pure.

A scheduled message stands in the schedule log of its due hour; its *number* there, with the hour, names it permanently:

    ref = hour << 32 | number        hour: hours since 1970 (UTC), number: from 0 in the order of the message log

Records (big-endian; `qmq_node.log` adds envelope, commit and CRC):

    SCHEDULED   u16 subject bytes · subject · i64 received at · u32 count · count x i64 due · count x u32 number · entries
    CLAIMED, DELIVERED, CANCELLED, REFUSED    i64 at · u32 count · count x u64 ref
    MOVED       i64 at · u64 ref · i64 new due · u32 new number · entry
    ENDED       i64 at · u32 count · count x u32 hour

Times are milliseconds since the epoch. An entry is what a SEND carries: the CRC of a raw message, then the message. The highest bit
of a ref says that the message was held until then (`HELD`): who applies the record counts exactly without a look at files.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from struct import error as StructError

from qmq.errors import LogError

HOUR_MS = 3_600_000
NUMBER_BITS = 32
HELD = 1 << 63
"""Of a ref in a record: the message was held before."""
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
    ENDED = 8
    """Hours that nothing can happen to any more: they are forgotten, and begin at number 0 when a message comes for one again."""


class State(IntEnum):
    """What became of a scheduled message; the numbers are those of the records that lead there, 7 excepted."""

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
    held: Sequence[int] = ()
    """Those of the refs that were held before."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A MOVED record: `entry` with its new due time goes to `number` of the new hour."""

    at_ms: int
    ref: int
    due_ms: int
    number: int
    entry: memoryview
    was_held: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """An ENDED record: numbers of hours."""

    at_ms: int
    hours: Sequence[int]


Record = Scheduled | Action | Moved | Ended


def encode_scheduled_head(subject: str, received_at_ms: int, dues_ms: Sequence[int], numbers: Sequence[int]) -> bytes:
    """A SCHEDULED record up to its entries."""
    name = subject.encode()
    count = len(dues_ms)
    lists = Struct(f">{count}q{count}I").pack(*dues_ms, *numbers)
    return b"".join((_U16.pack(len(name)), name, _COUNTED.pack(received_at_ms, count), lists))


def encode_action(at_ms: int, refs: Sequence[int], held: Collection[int] = ()) -> bytes:
    """Encode an action.

    Args:
        held: those of the refs that were held before.
    """
    marked = [ref | HELD if ref in held else ref for ref in refs] if held else refs
    return _COUNTED.pack(at_ms, len(marked)) + Struct(f">{len(marked)}Q").pack(*marked)


def encode_moved_head(at_ms: int, ref: int, due_ms: int, number: int, *, was_held: bool = False) -> bytes:
    """Encode a MOVED record up to its entry."""
    return _MOVED.pack(at_ms, ref | HELD if was_held else ref, due_ms, number)


def encode_ended(at_ms: int, hours: Sequence[int]) -> bytes:
    return _COUNTED.pack(at_ms, len(hours)) + Struct(f">{len(hours)}I").pack(*hours)


def decode_record(offset: int, kind: int, payload: memoryview) -> Record:
    """A record of the log. Raises LogError for one that this version does not write."""
    try:
        if kind == RecordKind.SCHEDULED:
            return _decode_scheduled(payload)
        if kind == RecordKind.MOVED:
            at_ms, ref, due_ms, number = _MOVED.unpack_from(payload)
            return Moved(at_ms, ref & ~HELD, due_ms, number, payload[_MOVED.size :], was_held=bool(ref & HELD))
        if kind in ACTIONS:
            at_ms, count = _COUNTED.unpack_from(payload)
            refs = Struct(f">{count}Q").unpack_from(payload, _COUNTED.size)
            held = tuple(ref & ~HELD for ref in refs if ref & HELD)
            return Action(RecordKind(kind), at_ms, tuple(ref & ~HELD for ref in refs) if held else refs, held)
        if kind == RecordKind.ENDED:
            at_ms, count = _COUNTED.unpack_from(payload)
            return Ended(at_ms, Struct(f">{count}I").unpack_from(payload, _COUNTED.size))
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
