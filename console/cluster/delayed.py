"""Delayed messages for the API: lists over all delay groups with a cursor, one message, and changes with audit entries."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from django.conf import settings

from console.cluster import limits
from console.cluster.asking import Page, ask
from console.cluster.entries import note, recorded
from console.cluster.messages import filter_refused
from console.cursors import decode_cursor, encode_cursor
from metaserver.errors import Conflict, NotFound
from metaserver.services.changes import Actor
from qmq.client.delayed import BulkCancel, Calendar, DelayedMessage, DelayedMessages, Found
from qmq.client.message import due_ms_of
from qmq.errors import CountDiffers, QmqError
from qmq.protocol.delayed import FILTER_INVALID, DelayedChange, DelayedState, Operation, Outcome
from qmq.protocol.values import moment

T = TypeVar("T")
_CHANGEABLE = frozenset({DelayedState.PENDING, DelayedState.REFUSED})


def _with(work: Callable[[DelayedMessages], Awaitable[T]], seconds: float | None = None) -> T:
    async def run() -> T:
        async with DelayedMessages(settings.META_URL, timeouts=limits.SEND_TIMEOUTS) as messages:
            return await work(messages)

    return ask(run, seconds=seconds)


# --- lists --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Query:
    """Which messages; due times `begin` <= due < `end`."""

    subject: str
    """Empty: of all subjects, in lists."""
    begin: datetime | None = None
    end: datetime | None = None
    states: tuple[str, ...] = ()
    match: tuple[tuple[str, str], ...] = ()
    filter_text: str = ""


def listed(query: Query, *, limit: int, cursor: str | None = None) -> Page[DelayedMessage]:
    """A page of delayed messages in the order of their due times.

    Raises:
        ChangeRefused: the cursor does not belong to this query.
        QmqError: the metaserver can't be reached.
    """
    question = ("delayed", query.subject, query.begin, query.end, query.states, sorted(query.match), query.filter_text)
    resume = _Resume()
    if cursor is not None:
        due_ms, group, name, count = decode_cursor(cursor, question)
        resume = _Resume(due_ms, group, name, count, _is_behind=False)
    begin = query.begin if resume.due_ms < 0 else moment(resume.due_ms)
    problems: dict[str, str] = {}

    async def work(messages: DelayedMessages) -> tuple[list[DelayedMessage], bool]:
        page: list[DelayedMessage] = []
        pages = messages.list(
            query.subject, begin=begin, end=query.end, states=query.states, match=dict(query.match),
            filter_text=query.filter_text, problems=problems,
        )  # fmt: skip
        async for message in pages:
            if resume.was_shown(message):
                continue
            if len(page) == limit:
                return page, True
            page.append(message)
            resume.shown(message)
        return page, False

    try:
        page, has_more = _with(work)
    except QmqError as error:
        if error.code == FILTER_INVALID:
            raise filter_refused(str(error)) from error
        raise
    return Page(page, encode_cursor(question, resume.place()) if has_more else None, problems)


@dataclass(slots=True)
class _Resume:
    """Where a page ended. Many messages may be due in the same millisecond: within it the place is the delay group, and in
    that group the last message shown, which was the `count`th of that millisecond.

    When that last message is not there any more, the one in its place is shown though it may have been before: better twice
    than not at all.
    """

    due_ms: int = -1
    group: str = ""
    name: str = ""
    """Subject and id: producers of two subjects may choose the same id."""
    count: int = 0
    _skipping: int = 0
    _is_behind: bool = True

    def place(self) -> list[object]:
        return [self.due_ms, self.group, self.name, self.count]

    def was_shown(self, message: DelayedMessage) -> bool:
        if self._is_behind:
            return False
        if message.item.due_ms == self.due_ms and message.delay_group < self.group:
            return True
        if (message.item.due_ms, message.delay_group) != (self.due_ms, self.group) or self._skipping + 1 > self.count:
            self._is_behind = True
            return False
        self._skipping += 1
        if _name(message) == self.name:
            self._is_behind, self.count = True, self._skipping
            return True
        if self._skipping == self.count:
            self._is_behind, self.count = True, self.count - 1
            return False
        return True

    def shown(self, message: DelayedMessage) -> None:
        is_same = (message.item.due_ms, message.delay_group) == (self.due_ms, self.group)
        self.count = self.count + 1 if is_same else 1
        self.due_ms, self.group, self.name = message.item.due_ms, message.delay_group, _name(message)


def _name(message: DelayedMessage) -> str:
    return f"{message.subject} {message.message_id}"


def calendar(subject: str, begin: datetime | None, end: datetime | None) -> Calendar:
    """Pending messages by hour of due time.

    Raises:
        QmqError: no delay group could be reached.
    """
    return _with(lambda messages: messages.calendar(subject, begin=begin, end=end))


# --- one message --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """A message as the caller knows it; subject and due time may be unknown."""

    message_id: str
    subject: str = ""
    due: datetime | None = None


def found(target: Target, *, seconds: float | None = None) -> Found:
    """All copies of a message id; all delay groups are queried within `seconds`, or else REQUEST_SECONDS.

    Raises:
        NotFound: no delay group knows it, and all were reached.
        QmqError: none could be reached.
    """
    result = _with(
        lambda messages: messages.find(target.message_id, subject=target.subject, due=target.due), seconds=seconds
    )
    if not result.messages and not result.problems:
        raise NotFound(
            f"Delayed message {target.message_id} not found. Delivered and cancelled messages are kept for a day.",
            code="delayed.unknown",
        )
    return result


@dataclass(frozen=True, slots=True)
class Changed:
    """What a change of a message came to, or in a dry run would."""

    message_id: str
    subject: str
    outcome: str
    state_before: str
    state: str
    due_at: datetime | None


def the_one(result: Found, target: Target) -> DelayedMessage:
    """Return the copy that a change applies to: the one with the latest state.

    Raises:
        Conflict: the id is used in several subjects; or it may be in a delay group that can't be reached.
    """
    subjects = sorted({message.subject for message in result.messages})
    if len(subjects) > 1:
        raise Conflict(
            f"{target.message_id} is used in {len(subjects)} subjects ({', '.join(subjects[:5])}). Specify one of them.",
            code="delayed.ambiguous", fields={"subject": "is required because the ID is ambiguous"},
        )  # fmt: skip
    if not result.messages:
        group, why = next(iter(result.problems.items()))
        raise QmqError(
            f"{target.message_id} may be in delay group {group}, which can't be reached: {why}",
            code="delay.group_unreachable", retriable=True,
        )  # fmt: skip
    open_ = [message for message in result.messages if message.item.state in _CHANGEABLE]
    return (open_ or list(result.messages))[-1]


def change(
    operation: Operation,
    message: DelayedMessage,
    *,
    to: datetime | None = None,
    delay: timedelta | None = None,
    actor: Actor,
    reason: str = "",
    dry_run: bool = False,
) -> Changed:
    """Cancel a message, give it another due time (`to`, or `delay` from now by its delay node's clock), or let it fall due now.

    Raises:
        Conflict: it is too late.
        NotFound: it is not known any more, or there is no such subject.
        NotAllowed: the subject belongs to another team.
        LocalProtocolError: the due time is not possible.
        QmqError: its delay group can't be reached.
    """
    before = str(message.state)
    to_ms = due_ms_of(delay, to) if operation is Operation.RESCHEDULE else -1
    if dry_run:
        done = _done(_foreseen(operation, message, to_ms))
    else:
        details = {"message_id": message.message_id, "due_at": message.due_at.isoformat(), "state": before}
        details |= {"to": to.isoformat()} if to else {}
        details |= {"delay_seconds": f"{delay.total_seconds():g}"} if delay else {}
        with recorded(actor, f"delayed.{operation}", message.subject, reason, details):
            done = _done(_with(lambda messages: _apply(messages, operation, message, to, delay)))
    due_at = None if done.due_ms < 0 else moment(done.due_ms)
    return Changed(message.message_id, message.subject, str(done.outcome), before, done.state, due_at)


def _apply(
    messages: DelayedMessages,
    operation: Operation,
    message: DelayedMessage,
    to: datetime | None,
    delay: timedelta | None,
) -> Awaitable[DelayedChange]:
    due, subject, group = message.due_at, message.subject, message.delay_group
    if operation is Operation.RESCHEDULE:
        return messages.reschedule(message.message_id, to=to, delay=delay, subject=subject, due=due, delay_group=group)
    act = messages.cancel if operation is Operation.CANCEL else messages.deliver
    return act(message.message_id, subject=subject, due=due, delay_group=group)


def _foreseen(operation: Operation, message: DelayedMessage, to_ms: int) -> DelayedChange:
    """Return the expected result of a change at this moment."""
    state, due_ms = message.item.state, message.item.due_ms
    if operation is Operation.CANCEL and state is DelayedState.CANCELLED:
        return DelayedChange(message.message_id, Outcome.UNCHANGED, state, due_ms)
    if state not in _CHANGEABLE:
        return DelayedChange(message.message_id, Outcome.TOO_LATE, state, due_ms)
    if operation is Operation.CANCEL:
        return DelayedChange(message.message_id, Outcome.DONE, DelayedState.CANCELLED, due_ms)
    if operation is Operation.RESCHEDULE:
        due_ms = to_ms
    return DelayedChange(message.message_id, Outcome.DONE, DelayedState.PENDING, due_ms)


def _done(change: DelayedChange) -> DelayedChange:
    """Return a change that was made, or was not needed. Raises Conflict, NotFound for any other."""
    if change.outcome is Outcome.TOO_LATE:
        raise Conflict(f"Too late: message {change.message_id} is already {change.state}.", code="delayed.too_late")
    if change.outcome not in (Outcome.DONE, Outcome.UNCHANGED):
        raise NotFound(f"Delayed message {change.message_id} no longer exists.", code="delayed.unknown")
    return change


def bulk_cancel(
    query: Query, *, expected: int | None = None, actor: Actor, reason: str = "", dry_run: bool = False
) -> BulkCancel:
    """Cancel all pending messages of a subject in a range of due times, or those with these properties.

    Args:
        expected: how many messages match.

    Raises:
        Conflict: another number of messages matches; nothing was cancelled.
        NotFound, NotAllowed: there is no such subject, or it belongs to another team.
        QmqError: no delay group could be reached. CallTimeout: it took longer than BULK_SECONDS; what was cancelled stays so.
    """

    def work(messages: DelayedMessages) -> Awaitable[BulkCancel]:
        return messages.cancel_matching(
            query.subject, match=dict(query.match), begin=query.begin, end=query.end, dry_run=dry_run, expected=expected
        )

    if dry_run:
        return _with(work, seconds=limits.BULK_SECONDS)
    details = {
        "match": sorted(key for key, _ in query.match),
        "due_from": query.begin and query.begin.isoformat(),
        "due_to": query.end and query.end.isoformat(),
    }
    with recorded(actor, "delayed.bulk_cancel", query.subject, reason, details):
        try:
            done = _with(work, seconds=limits.BULK_SECONDS)
        except CountDiffers as error:
            raise Conflict(str(error), code=error.code) from error
    counts = {"matched": done.matched, "cancelled": done.cancelled, "too_late": done.too_late,
              "unreachable": dict(done.problems)}  # fmt: skip
    note(actor, "delayed.bulk_cancelled", query.subject, reason, counts)
    return done
