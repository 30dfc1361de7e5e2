"""Changes of delayed messages, each with an audit entry, and the calendar."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from django.conf import settings

from console.cluster import limits
from console.cluster.asking import Page, ask
from console.cluster.delayed.reading import Query, Target
from console.cluster.entries import note, recorded
from console.cluster.merging import Row
from metaserver.errors import Conflict, NotFound
from metaserver.services.changes import Actor
from qmq.client.delayed import BulkCancel, Calendar, DelayedMessages
from qmq.client.message import due_ms_of
from qmq.errors import CountDiffers, QmqError
from qmq.protocol.delayed import DelayedChange, DelayedState, Operation, Outcome
from qmq.protocol.values import moment

T = TypeVar("T")
_CHANGEABLE = frozenset({DelayedState.PENDING, DelayedState.REFUSED})


def _with(work: Callable[[DelayedMessages], Awaitable[T]], seconds: float | None = None) -> T:
    async def run() -> T:
        async with DelayedMessages(settings.META_URL, timeouts=limits.SEND_TIMEOUTS) as messages:
            return await work(messages)

    return ask(run, seconds=seconds)


def calendar(subject: str, begin: datetime | None, end: datetime | None) -> Calendar:
    """Pending messages by hour of due time.

    Raises:
        QmqError: no delay group could be reached.
    """
    return _with(lambda messages: messages.calendar(subject, begin=begin, end=end))


@dataclass(frozen=True, slots=True)
class Changed:
    """What a change of a message came to, or in a dry run would."""

    message_id: str
    subject: str
    outcome: str
    state_before: str
    state: str
    due_at: datetime | None


def the_one(result: Page[Row], target: Target) -> Row:
    """Return the copy that a change applies to: the one with the latest state.

    Raises:
        Conflict: the id is used in several subjects; or it may be in a delay group that can't be reached.
    """
    subjects = sorted({row["subject"] for row in result.rows})
    if len(subjects) > 1:
        raise Conflict(
            f"{target.message_id} is used in {len(subjects)} subjects ({', '.join(subjects[:5])}). Specify one of them.",
            code="delayed.ambiguous", fields={"subject": "is required because the ID is ambiguous"},
        )  # fmt: skip
    if not result.rows:
        group, why = next(iter(result.unreachable.items()))
        raise QmqError(
            f"{target.message_id} may be in delay group {group}, which can't be reached: {why}",
            code="delay.group_unreachable", retriable=True,
        )  # fmt: skip
    open_ = [row for row in result.rows if row["state"] in _CHANGEABLE]
    return (open_ or result.rows)[-1]


def change(
    operation: Operation,
    message: Row,
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
    before, message_id = message["state"], message["message_id"]
    to_ms = due_ms_of(delay, to) if operation is Operation.RESCHEDULE else -1
    if dry_run:
        done = _done(_foreseen(operation, message, to_ms))
    else:
        details = {"message_id": message_id, "due_at": moment(message["due_ms"]).isoformat(), "state": before}
        details |= {"to": to.isoformat()} if to else {}
        details |= {"delay_seconds": f"{delay.total_seconds():g}"} if delay else {}
        with recorded(actor, f"delayed.{operation}", message["subject"], reason, details):
            done = _done(_with(lambda messages: _apply(messages, operation, message, to, delay)))
    due_at = None if done.due_ms < 0 else moment(done.due_ms)
    return Changed(message_id, message["subject"], str(done.outcome), before, done.state, due_at)


def _apply(
    messages: DelayedMessages,
    operation: Operation,
    message: Row,
    to: datetime | None,
    delay: timedelta | None,
) -> Awaitable[DelayedChange]:
    message_id, due = message["message_id"], moment(message["due_ms"])
    subject, group = message["subject"], message["delay_group"]
    if operation is Operation.RESCHEDULE:
        return messages.reschedule(message_id, to=to, delay=delay, subject=subject, due=due, delay_group=group)
    act = messages.cancel if operation is Operation.CANCEL else messages.deliver
    return act(message_id, subject=subject, due=due, delay_group=group)


def _foreseen(operation: Operation, message: Row, to_ms: int) -> DelayedChange:
    """Return the expected result of a change at this moment."""
    message_id, state, due_ms = message["message_id"], DelayedState(message["state"]), message["due_ms"]
    if operation is Operation.CANCEL and state is DelayedState.CANCELLED:
        return DelayedChange(message_id, Outcome.UNCHANGED, state, due_ms)
    if state not in _CHANGEABLE:
        return DelayedChange(message_id, Outcome.TOO_LATE, state, due_ms)
    if operation is Operation.CANCEL:
        return DelayedChange(message_id, Outcome.DONE, DelayedState.CANCELLED, due_ms)
    if operation is Operation.RESCHEDULE:
        due_ms = to_ms
    return DelayedChange(message_id, Outcome.DONE, DelayedState.PENDING, due_ms)


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
