"""Commands about delayed messages (203 to 207, 224). Maps of strings, as all that PyQMQ adds: see `structures`.

A refusal has header code PARAM_ERROR and is an `extensions.Refusal`. Times are milliseconds since the epoch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from qmq.protocol.kinds import Block, Flag, Int, MapInt, MapPrefix, MapWord, MapWords, Number, Text
from qmq.protocol.limited_kinds import I64_MAX, MapRange
from qmq.protocol.messages import Message, decode_raw
from qmq.protocol.structures import Counted, Nested, Row, Structure

TARGETS_MAX = 1_000
"""Messages one CHANGE_DELAYED may name."""
FILTER_INVALID = "filter.invalid"
"""Error code of a filter that nodes reject."""
PAGE_MAX = 500
"""Messages of one page."""


class DelayedState(StrEnum):
    """The state of a delayed message."""

    PENDING = "pending"
    DELIVERING = "delivering"
    """On its way to a broker, or perhaps stored there: too late to change."""
    DELIVERED = "delivered"
    CANCELLED = "cancelled"
    MOVED = "moved"
    """It was rescheduled and is now pending at its new due time."""
    REFUSED = "refused"
    """Every broker group rejected it; it is held until an operator decides."""
    LOST = "lost"


class Operation(StrEnum):
    """What CHANGE_DELAYED does."""

    CANCEL = "cancel"
    RESCHEDULE = "reschedule"
    DELIVER = "deliver"


class Outcome(StrEnum):
    """The result of a change."""

    DONE = "done"
    UNCHANGED = "unchanged"
    """It was already so: the change was sent twice, or changes nothing."""
    TOO_LATE = "too_late"
    NOT_FOUND = "not_found"


DueMs = Annotated[int, MapInt(missing=-1)]
"""A due time; -1: unknown, or not meant."""


@dataclass(frozen=True, slots=True)
class DelayedTarget(Structure):
    """A delayed message as a client knows it. `subject` and `due_ms` may be unknown ("" and -1); a due time finds it fast."""

    message_id: Text
    subject: Text = ""
    due_ms: Int = -1


@dataclass(frozen=True, slots=True)
class DelayedItem(Structure):
    """One delayed message of an answer; `raw` is the raw message."""

    due_ms: Int
    state: Annotated[DelayedState, MapWord(DelayedState)]
    raw: Annotated[bytes, Block(is_copied=True)]
    _message: list[Message] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def message(self) -> Message:
        """The message. Raises ProtocolError if `raw` is none."""
        if not self._message:
            self._message.append(decode_raw(self.raw)[0])
        return self._message[0]

    def check(self) -> None:
        """Refuse bytes that are no message. Raises ProtocolError."""
        assert self.message


@dataclass(frozen=True, slots=True)
class FindDelayedRequest(Structure):
    """Every copy of a message id, in whatever state."""

    target: Annotated[DelayedTarget, Nested(DelayedTarget)]


@dataclass(frozen=True, slots=True)
class ListDelayedRequest(Structure):
    """A subject's messages in the order of their due times.

    `from_ms` <= due < `to_ms`; `states` empty: pending, delivering and refused ones; `match`: properties that must be equal;
    `cursor`: that of the page before; `filter`: docs/reference/filters.md.
    """

    subject: Text
    from_ms: Int
    to_ms: Int
    states: Annotated[tuple[str, ...], MapWords()] = ()
    match: Annotated[Mapping[str, str], MapPrefix("match.")] = field(default_factory=dict)
    limit: Int = 50
    cursor: Text = ""
    filter: Text = ""


@dataclass(frozen=True, slots=True)
class DelayedPage(Structure):
    """`cursor` is "" when there is no more; a page may be empty and not be the last."""

    items: Annotated[tuple[DelayedItem, ...], Counted("i", DelayedItem, "messages")]
    cursor: Text = ""


@dataclass(frozen=True, slots=True)
class ChangeDelayedRequest(Structure):
    """Cancel, reschedule or deliver now the named messages.

    Reschedule: to `due_ms`, or to `delay_ms` after the node's present time; the other one is -1.
    """

    operation: Annotated[Operation, MapWord(Operation)]
    due_ms: DueMs
    targets: Annotated[tuple[DelayedTarget, ...], Counted("i", DelayedTarget, "targets", TARGETS_MAX)]
    delay_ms: Annotated[int, MapInt(missing=-1)] = -1


@dataclass(frozen=True, slots=True)
class DelayedChange(Structure):
    """The outcome of a change of one message, its state now, its due time now (-1: unknown)."""

    message_id: Text
    outcome: Annotated[Outcome, MapWord(Outcome)]
    state: Text
    due_ms: DueMs


@dataclass(frozen=True, slots=True)
class ChangeDelayedResponse(Structure):
    """One change for each target, in their order. They are on disk when this is answered."""

    changes: Annotated[tuple[DelayedChange, ...], Counted("i", DelayedChange, "changes")]


@dataclass(frozen=True, slots=True)
class DelayClockResponse(Structure):
    """The time by which the delay node judges what is due."""

    now_ms: Annotated[int, MapRange(1, I64_MAX)]


@dataclass(frozen=True, slots=True)
class CancelDelayedRequest(Structure):
    """Cancel what LIST_DELAYED would list as pending or refused, a bounded part of it at a time."""

    query: Annotated[ListDelayedRequest, Nested(ListDelayedRequest)]
    dry_run: Flag


@dataclass(frozen=True, slots=True)
class CancelDelayedResponse(Structure):
    """How many matched, were cancelled, and were too late. The next request continues at `cursor`, until it is ""."""

    matched: Int
    cancelled: Int
    too_late: Int
    cursor: Text


@dataclass(frozen=True, slots=True)
class DelayedCalendarRequest(Structure):
    """Pending messages by hour of due time; `subject` "" for all."""

    subject: Text
    from_ms: Int
    to_ms: Int


@dataclass(frozen=True, slots=True)
class DelayedCalendar(Structure):
    """(begin of the hour, pending messages), only hours that have some, in order."""

    hours: Annotated[tuple[tuple[int, int], ...], Counted("i", Row(Number("q"), Number("q")), "hours")]
