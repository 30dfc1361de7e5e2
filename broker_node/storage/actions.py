"""What a broker's message log holds: message records and actions, as bytes and back.

The log's envelope (`qmq_node.log.record`) gives each record its kind; here are the payloads. All integers are big-endian, `str`
is an u16 length and UTF-8. Sequences are half-open ranges. A layout never changes: a new one gets a new kind.

    MESSAGES  str subject · i64 first consume sequence · i64 stored_at_ms · u32 count · u8 origin · entries as they came
    PULL      head · i64 pull_begin · i64 from_sequence · i64 next_sequence · u32 runs · (i64 begin, u32 count)...
    ACK       head · i64 begin · i64 end                    pull sequences
    OFFLINE   head                                          the consumer's state is dropped
    START     head · i64 next_sequence · u8 how             the group begins, or is set, here
    FORGET    head                                          the group is removed with all its state
    SETTLE    as ACK                                        the broker acks for the consumer: it moved them to the retry subject
    DROP_SUBJECT  head · i64 end · i64 sequence_floor           the empty subject is removed; group and consumer are ""

    head      str subject · str group · str consumer · i64 at_ms · u8 broadcast
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from struct import Struct
from struct import error as StructError

from qmq.errors import LogError


class RecordKind(IntEnum):
    """The kinds of record in a broker's message log."""

    MESSAGES = 1
    PULL = 2
    ACK = 3
    OFFLINE = 4
    START = 5
    FORGET = 6
    SETTLE = 7
    DROP_SUBJECT = 8


class Origin(IntEnum):
    """Who wrote a message record: a client, or the broker moving unacked messages to their retry subject."""

    CLIENT = 0
    BROKER_RETRY = 1


class StartReason(IntEnum):
    """Why a group's position was set."""

    FIRST_PULL = 0
    ENSURED = 1
    RESET = 2
    RETENTION = 3


@dataclass(frozen=True, slots=True)
class SequenceRun:
    """`count` consume sequences from `begin` on."""

    begin: int
    count: int

    @property
    def end(self) -> int:
        return self.begin + self.count


@dataclass(frozen=True, slots=True)
class MessagesHead:
    """What a message record says before its entries."""

    subject: str
    first_sequence: int
    stored_at_ms: int
    count: int
    origin: int


# Actions are not frozen: to make a frozen value costs as much as to encode it.


@dataclass(slots=True)
class Action:
    """What every action names."""

    subject: str
    group: str
    consumer_id: str
    at_ms: int
    broadcast: bool


@dataclass(slots=True)
class Pull(Action):
    """The assignment of consume sequences to pull sequences from `pull_begin` on.

    The group stood at `from_sequence` and continues at `next_sequence`; what lies between and in no run was filtered out.
    """

    pull_begin: int
    from_sequence: int
    next_sequence: int
    runs: tuple[SequenceRun, ...]

    @property
    def count(self) -> int:
        return sum(run.count for run in self.runs)


@dataclass(slots=True)
class Ack(Action):
    """Pull sequences [begin, end) are done: the consumer said so."""

    begin: int
    end: int


@dataclass(slots=True)
class Settle(Ack):
    """Pull sequences [begin, end) are done with: the broker moved their messages to the retry subject.

    The consumer left, was silent, or jumped over them.
    """


@dataclass(slots=True)
class Offline(Action):
    """The consumer is gone and owes nothing: its state is dropped."""


@dataclass(slots=True)
class Start(Action):
    """The group's next consume sequence is set."""

    next_sequence: int
    reason: int


@dataclass(slots=True)
class Forget(Action):
    """The group is removed with its position, consumers and history; a later pull begins it again."""


@dataclass(slots=True)
class DropSubject(Action):
    """The subject is removed: no group, and no stored message below `end`, where its sequences ended.

    New subjects begin at `sequence_floor` or above, so that a subject which returns does not use a sequence twice.
    """

    end: int
    sequence_floor: int


_U16 = Struct(">H")
_HEAD_TAIL = Struct(">qB")
_PULL = Struct(">qqqI")
_RUN = Struct(">qI")
_MESSAGES = Struct(">qqIB")
_LAYOUTS: dict[int, tuple[type[Action], Struct]] = {
    RecordKind.ACK: (Ack, Struct(">qq")),
    RecordKind.OFFLINE: (Offline, Struct("")),
    RecordKind.START: (Start, Struct(">qB")),
    RecordKind.FORGET: (Forget, Struct("")),
    RecordKind.SETTLE: (Settle, Struct(">qq")),
    RecordKind.DROP_SUBJECT: (DropSubject, Struct(">qq")),
}
"""The actions whose payload is the head and numbers, and the layout of these numbers."""
_NUMBERS = {cls: tuple(field.name for field in fields(cls)[len(fields(Action)) :]) for cls, _ in _LAYOUTS.values()}
KIND_OF: dict[type[Action], RecordKind] = {
    Pull: RecordKind.PULL,
    **{cls: RecordKind(kind) for kind, (cls, _) in _LAYOUTS.items()},
}


def _str(text: str) -> bytes:
    data = text.encode()
    return _U16.pack(len(data)) + data


def encode_names(subject: str, group: str, consumer_id: str) -> bytes:
    """What an action's payload begins with."""
    return _str(subject) + _str(group) + _str(consumer_id)


def encode_messages_head(subject: str, first_sequence: int, stored_at_ms: int, count: int, origin: int) -> bytes:
    """The bytes before the entries of a message record; the arguments are the fields of `MessagesHead`."""
    return _str(subject) + _MESSAGES.pack(first_sequence, stored_at_ms, count, origin)


def decode_messages_head(payload: memoryview) -> tuple[MessagesHead, int]:
    """The head, and where the entries begin inside the payload. Raises LogError if the payload is not a message record."""
    try:
        subject, at = _read_str(payload, 0)
        first, stored_at_ms, count, origin = _MESSAGES.unpack_from(payload, at)
    except (StructError, UnicodeDecodeError) as error:
        raise LogError(f"a message record can't be read: {error}", code="log.record_unreadable") from error
    return MessagesHead(subject, first, stored_at_ms, count, origin), at + _MESSAGES.size


def encode_action(action: Action, names: bytes = b"") -> tuple[RecordKind, bytes]:
    """An action's kind and payload; `names` if they are encoded already."""
    names = names or encode_names(action.subject, action.group, action.consumer_id)
    head = names + _HEAD_TAIL.pack(action.at_ms, action.broadcast)
    kind = KIND_OF[type(action)]
    if isinstance(action, Pull):
        positions = (action.pull_begin, action.from_sequence, action.next_sequence)
        runs = b"".join([_RUN.pack(run.begin, run.count) for run in action.runs])
        return kind, head + _PULL.pack(*positions, len(action.runs)) + runs
    return kind, head + _LAYOUTS[kind][1].pack(*[getattr(action, name) for name in _NUMBERS[type(action)]])


def decode_action(kind: int, payload: memoryview) -> Action:
    """An action from its record. Raises LogError for the kind of a newer version, or a payload that does not fit the kind."""
    try:
        subject, at = _read_str(payload, 0)
        group, at = _read_str(payload, at)
        consumer_id, at = _read_str(payload, at)
        at_ms, broadcast = _HEAD_TAIL.unpack_from(payload, at)
        at += _HEAD_TAIL.size
        head = (subject, group, consumer_id, at_ms, bool(broadcast))
        if kind == RecordKind.PULL:
            pull_begin, from_sequence, next_sequence, count = _PULL.unpack_from(payload, at)
            at += _PULL.size
            runs = tuple(SequenceRun(*_RUN.unpack_from(payload, at + i * _RUN.size)) for i in range(count))
            return Pull(*head, pull_begin, from_sequence, next_sequence, runs)
        if kind in _LAYOUTS:
            action, layout = _LAYOUTS[kind]
            return action(*head, *layout.unpack_from(payload, at))
    except (StructError, UnicodeDecodeError) as error:
        raise LogError(f"a record of kind {kind} can't be read: {error}", code="log.record_unreadable") from error
    raise LogError(
        f"record kind {kind} is not known to this version; a newer one wrote this log", code="log.record_unknown"
    )


def _read_str(payload: memoryview, at: int) -> tuple[str, int]:
    length = _U16.unpack_from(payload, at)[0]
    end = at + 2 + length
    if end > len(payload):
        raise StructError(f"a string of {length} bytes runs beyond its record")
    return str(payload[at + 2 : end], "utf-8"), end


def runs_of(sequences: Sequence[int]) -> tuple[SequenceRun, ...]:
    """Strictly ascending sequences as runs of neighbours."""
    if sequences and sequences[-1] - sequences[0] + 1 == len(sequences):
        return (SequenceRun(sequences[0], len(sequences)),)
    runs: list[SequenceRun] = []
    begin = previous = -1
    for sequence in sequences:
        if sequence != previous + 1 or begin < 0:
            if begin >= 0:
                runs.append(SequenceRun(begin, previous + 1 - begin))
            begin = sequence
        previous = sequence
    if begin >= 0:
        runs.append(SequenceRun(begin, previous + 1 - begin))
    return tuple(runs)
