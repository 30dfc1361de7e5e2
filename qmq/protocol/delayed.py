"""Commands about delayed messages (203 to 207). As all of ours, maps of strings: see `extensions`.

An answer with header code PARAM_ERROR carries a map with `code` and `message`. Times are milliseconds since the epoch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from qmq.errors import ProtocolError
from qmq.protocol.commands import Body
from qmq.protocol.extensions import Fields, encode_fields
from qmq.protocol.messages import Message, decode_raw
from qmq.protocol.primitives import Reader, Writer

TARGETS_MAX = 1_000
"""Messages one CHANGE_DELAYED may name."""
PAGE_MAX = 500
"""Messages of one page."""
_MATCH = "match."


class DelayedState(StrEnum):
    """What became of a delayed message."""

    PENDING = "pending"
    DELIVERING = "delivering"
    """On its way to a broker, or perhaps stored there: too late to change."""
    DELIVERED = "delivered"
    CANCELLED = "cancelled"
    MOVED = "moved"
    """Another due time was given to it; it goes on there."""
    REFUSED = "refused"
    """Every broker group refused it; it waits for an operator."""
    LOST = "lost"


class Operation(StrEnum):
    """What CHANGE_DELAYED does."""

    CANCEL = "cancel"
    RESCHEDULE = "reschedule"
    DELIVER = "deliver"


class Outcome(StrEnum):
    """What a change came to."""

    DONE = "done"
    UNCHANGED = "unchanged"
    """It was so before; asked twice, or for what it is already."""
    TOO_LATE = "too_late"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class DelayedTarget:
    """A delayed message as a client knows it. `subject` and `due_ms` may be unknown ("" and -1); a due time finds it fast."""

    message_id: str
    subject: str = ""
    due_ms: int = -1

    def write(self, writer: Writer) -> None:
        writer.raw(encode_fields(message_id=self.message_id, subject=self.subject, due_ms=self.due_ms))

    @classmethod
    def read(cls, reader: Reader) -> "DelayedTarget":
        fields = Fields(reader)
        return cls(fields.text("message_id"), fields.text("subject"), fields.whole("due_ms", -1))


@dataclass(frozen=True, slots=True)
class DelayedItem:
    """One delayed message of an answer; `raw_bytes` is its size."""

    message: Message
    due_ms: int
    state: DelayedState
    raw_bytes: int


@dataclass(frozen=True, slots=True)
class FindDelayedRequest:
    """FIND_DELAYED: every copy of a message id, whatever became of it."""

    target: DelayedTarget

    def encode(self, version: int) -> bytes:
        writer = Writer()
        self.target.write(writer)
        return writer.done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "FindDelayedRequest":
        return cls(DelayedTarget.read(Reader(body)))


@dataclass(frozen=True, slots=True)
class ListDelayedRequest:
    """LIST_DELAYED: a subject's messages in the order of their due times.

    `from_ms` <= due < `to_ms`; `states` empty: pending, delivering and refused ones; `match`: properties that must be equal;
    `cursor`: as the page before gave it.
    """

    subject: str
    from_ms: int
    to_ms: int
    states: tuple[str, ...] = ()
    match: Mapping[str, str] = field(default_factory=dict)
    limit: int = 50
    cursor: str = ""

    def encode(self, version: int) -> bytes:
        return encode_fields(
            subject=self.subject,
            from_ms=self.from_ms,
            to_ms=self.to_ms,
            states=",".join(self.states),
            limit=self.limit,
            cursor=self.cursor,
            **{_MATCH + key: value for key, value in self.match.items()},
        )

    @classmethod
    def decode(cls, body: Body, version: int) -> "ListDelayedRequest":
        fields = Fields(body)
        return cls(
            fields.text("subject"),
            fields.whole("from_ms"),
            fields.whole("to_ms"),
            tuple(word for word in fields.text("states").split(",") if word),
            fields.with_prefix(_MATCH),
            fields.whole("limit", 50),
            fields.text("cursor"),
        )


@dataclass(frozen=True, slots=True)
class DelayedPage:
    """Answer to FIND_DELAYED and LIST_DELAYED. `cursor` "" means that there is no more; a page may be empty and go on."""

    items: tuple[DelayedItem, ...]
    cursor: str = ""

    def encode(self, version: int, raws: list[bytes]) -> bytes:
        """`raws`: the items' raw messages, which are not encoded anew."""
        writer = Writer().raw(encode_fields(cursor=self.cursor)).i32(len(self.items))
        for item, raw in zip(self.items, raws, strict=True):
            writer.raw(encode_fields(due_ms=item.due_ms, state=item.state)).i32(len(raw)).raw(raw)
        return writer.done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "DelayedPage":
        reader = Reader(body)
        cursor = Fields(reader).text("cursor")
        items = []
        for _ in range(reader.count(reader.i32(), 6, "messages")):
            fields = Fields(reader)
            raw = reader.bytes_(reader.i32())
            state = _state(fields.text("state"))
            items.append(DelayedItem(decode_raw(raw)[0], fields.whole("due_ms"), state, len(raw)))
        return cls(tuple(items), cursor)


def _state(word: str) -> DelayedState:
    try:
        return DelayedState(word)
    except ValueError as error:
        raise ProtocolError(f"state {word[:40]!r} is not known") from error


@dataclass(frozen=True, slots=True)
class ChangeDelayedRequest:
    """CHANGE_DELAYED: cancel, reschedule (to `due_ms`) or deliver now the messages named."""

    operation: Operation
    due_ms: int
    targets: tuple[DelayedTarget, ...]

    def encode(self, version: int) -> bytes:
        writer = Writer().raw(encode_fields(operation=self.operation, due_ms=self.due_ms)).i32(len(self.targets))
        for target in self.targets:
            target.write(writer)
        return writer.done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "ChangeDelayedRequest":
        reader = Reader(body)
        fields = Fields(reader)
        word = fields.text("operation")
        if word not in set(Operation):
            raise ProtocolError(f"operation {word[:40]!r}; must be cancel, reschedule or deliver")
        count = reader.count(reader.i32(), 2, "targets")
        if count > TARGETS_MAX:
            raise ProtocolError(f"{count} messages named, at most {TARGETS_MAX} can be changed at a time")
        targets = tuple(DelayedTarget.read(reader) for _ in range(count))
        return cls(Operation(word), fields.whole("due_ms", -1), targets)


@dataclass(frozen=True, slots=True)
class DelayedChange:
    """What became of one message named: the outcome, its state now, its due time now (-1: unknown)."""

    message_id: str
    outcome: Outcome
    state: str
    due_ms: int


@dataclass(frozen=True, slots=True)
class ChangeDelayedResponse:
    """One change for each target, in their order; on disk when this is answered."""

    changes: tuple[DelayedChange, ...]

    def encode(self, version: int) -> bytes:
        writer = Writer().i32(len(self.changes))
        for c in self.changes:
            writer.raw(encode_fields(message_id=c.message_id, outcome=c.outcome, state=c.state, due_ms=c.due_ms))
        return writer.done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "ChangeDelayedResponse":
        reader = Reader(body)
        changes = []
        for _ in range(reader.count(reader.i32(), 2, "changes")):
            fields = Fields(reader)
            word = fields.text("outcome")
            if word not in set(Outcome):
                raise ProtocolError(f"outcome {word[:40]!r} is not known")
            changes.append(
                DelayedChange(
                    fields.text("message_id"), Outcome(word), fields.text("state"), fields.whole("due_ms", -1)
                )
            )
        return cls(tuple(changes))


@dataclass(frozen=True, slots=True)
class CancelDelayedRequest:
    """CANCEL_DELAYED: cancel what LIST_DELAYED would list as pending or refused; a bounded part of it at a time."""

    query: ListDelayedRequest
    dry_run: bool

    def encode(self, version: int) -> bytes:
        return Writer().raw(encode_fields(dry_run=self.dry_run)).raw(self.query.encode(version)).done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "CancelDelayedRequest":
        reader = Reader(body)
        dry_run = Fields(reader).flag("dry_run")
        return cls(ListDelayedRequest.decode(reader.rest(), version), dry_run)


@dataclass(frozen=True, slots=True)
class CancelDelayedResponse:
    """How many matched, were cancelled, and were too late; go on with `cursor` until it is ""."""

    matched: int
    cancelled: int
    too_late: int
    cursor: str

    def encode(self, version: int) -> bytes:
        return encode_fields(matched=self.matched, cancelled=self.cancelled, too_late=self.too_late, cursor=self.cursor)

    @classmethod
    def decode(cls, body: Body, version: int) -> "CancelDelayedResponse":
        fields = Fields(body)
        return cls(fields.whole("matched"), fields.whole("cancelled"), fields.whole("too_late"), fields.text("cursor"))


@dataclass(frozen=True, slots=True)
class DelayedCalendarRequest:
    """DELAYED_CALENDAR: pending messages by hour of due time; `subject` "" for all."""

    subject: str
    from_ms: int
    to_ms: int

    def encode(self, version: int) -> bytes:
        return encode_fields(subject=self.subject, from_ms=self.from_ms, to_ms=self.to_ms)

    @classmethod
    def decode(cls, body: Body, version: int) -> "DelayedCalendarRequest":
        fields = Fields(body)
        return cls(fields.text("subject"), fields.whole("from_ms"), fields.whole("to_ms"))


@dataclass(frozen=True, slots=True)
class DelayedCalendar:
    """(begin of the hour, pending messages), only hours that have some, in order."""

    hours: tuple[tuple[int, int], ...]

    def encode(self, version: int) -> bytes:
        writer = Writer().i32(len(self.hours))
        for begin_ms, count in self.hours:
            writer.i64(begin_ms).i64(count)
        return writer.done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "DelayedCalendar":
        reader = Reader(body)
        count = reader.count(reader.i32(), 16, "hours")
        return cls(tuple((reader.i64(), reader.i64()) for _ in range(count)))
