"""Find, list, cancel, reschedule and deliver delayed messages, over all delay groups of a system."""

import asyncio
import heapq
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Self

from qmq.client.delay_groups import DelayGroups
from qmq.client.message import DUE_MS_MAX, delay_ms_of, due_ms_of
from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.errors import CountDiffers, QmqError
from qmq.net.pool import Pool
from qmq.net.timing import DEFAULT_TIMEOUTS, Timeouts
from qmq.protocol.codes import Command
from qmq.protocol.delayed import (
    FILTER_INVALID,
    PAGE_MAX,
    CancelDelayedRequest,
    CancelDelayedResponse,
    ChangeDelayedRequest,
    ChangeDelayedResponse,
    DelayedCalendar,
    DelayedCalendarRequest,
    DelayedChange,
    DelayedItem,
    DelayedPage,
    DelayedTarget,
    FindDelayedRequest,
    ListDelayedRequest,
    Operation,
    Outcome,
)
from qmq.protocol.values import moment
from qmq.receipt import Receipt


@dataclass(frozen=True, slots=True)
class DelayedMessage:
    """A copy of a delayed message in a delay group."""

    item: DelayedItem
    delay_group: str

    @property
    def message_id(self) -> str:
        return self.item.message.message_id

    @property
    def subject(self) -> str:
        return self.item.message.subject

    @property
    def due_at(self) -> datetime:
        return moment(self.item.due_ms)

    @property
    def state(self) -> str:
        """A word of `qmq.protocol.delayed.DelayedState`."""
        return str(self.item.state)


@dataclass(frozen=True, slots=True)
class Partial:
    """The delay groups that could not be reached, with the reason; the result is incomplete without them."""

    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Calendar(Partial):
    """Pending messages by hour of due time (start of the hour, UTC), across the delay groups that responded."""

    hours: Mapping[datetime, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found(Partial):
    """Copies of a message, across the delay groups that responded."""

    messages: tuple[DelayedMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class BulkCancel(Partial):
    """The result of cancelling by filter; `cancelled` is 0 for a dry run."""

    matched: int = 0
    cancelled: int = 0
    too_late: int = 0


class DelayedMessages:
    """Finds and changes delayed messages of the system with the metaserver at `url`. Use it as `async with`."""

    def __init__(
        self, url: str, *, timeouts: Timeouts = DEFAULT_TIMEOUTS, pool: Pool | None = None, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._clock = clock
        self._own_pool = pool is None
        self._pool = pool or Pool(timeouts.connect)
        self._groups = DelayGroups(url, self._pool)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._own_pool:
            await self._pool.close()

    def check_process(self) -> None:
        """Raise ClientForked if a parent of this process has used it."""
        self._groups.check_process()

    async def find(self, message_id: str, *, subject: str = "", due: datetime | None = None) -> Found:
        """Return all copies of a message with their current states. The due time makes the lookup faster."""
        body = FindDelayedRequest(_target(message_id, subject, due)).encode()

        answers, problems = await self._groups.call_all(Command.FIND_DELAYED, body, DelayedPage.decode)
        found = [DelayedMessage(item, group) for group, page in answers.items() for item in page.items]
        return Found(problems, tuple(sorted(found, key=lambda message: message.item.due_ms)))

    async def list(
        self,
        subject: str,
        *,
        begin: datetime | None = None,
        end: datetime | None = None,
        states: Sequence[str] = (),
        match: Mapping[str, str] | None = None,
        filter_text: str = "",
        problems: dict[str, str] | None = None,
    ) -> AsyncIterator[DelayedMessage]:
        """Yield a subject's delayed messages by due time, across all delay groups. Pages are requested as needed.

        Args:
            subject: empty for all subjects.
            begin, end: range of due times, excluding `end`.
            states: values of `DelayedState`; default: pending, delivering and refused.
            match: properties that must be equal.
            filter_text: which messages, in the filter language (docs/reference/filters.md).
            problems: receives the delay groups that can't be reached, with the reason; without it the first problem is raised.
        """
        from_ms, to_ms = _range(begin, end)

        async def pages(group: str) -> AsyncIterator[tuple[int, str, int, DelayedMessage]]:
            cursor, place = "", 0
            while True:
                query = ListDelayedRequest(
                    subject, from_ms, to_ms, tuple(states), match or {}, PAGE_MAX, cursor, filter_text
                )
                try:
                    page = await self._groups.call(group, Command.LIST_DELAYED, query.encode(), DelayedPage.decode)
                except QmqError as error:
                    if problems is None or error.code == FILTER_INVALID:
                        text = f"delay group {group}: {error}"
                        raise QmqError(text, code=error.code, retriable=error.retriable) from error
                    problems[group] = str(error)
                    return
                for item in page.items:
                    place += 1
                    yield item.due_ms, group, place, DelayedMessage(item, group)
                cursor = page.cursor
                if not cursor:
                    return

        sources = {group: pages(group) for group in await self.groups()}
        heap = [first for source in sources.values() if (first := await anext(source, None)) is not None]
        heapq.heapify(heap)
        while heap:
            _, group, _, message = heap[0]
            yield message
            following = await anext(sources[group], None)
            if following is None:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, following)

    async def calendar(
        self, subject: str = "", *, begin: datetime | None = None, end: datetime | None = None
    ) -> Calendar:
        """Count the pending messages of one subject, or of all, by hour of due time."""
        body = DelayedCalendarRequest(subject, *_range(begin, end)).encode()
        answers, problems = await self._groups.call_all(Command.DELAYED_CALENDAR, body, DelayedCalendar.decode)
        total: Counter[int] = Counter()
        for answer in answers.values():
            for hour_ms, count in answer.hours:
                total[hour_ms] += count
        return Calendar(problems, {moment(hour_ms): total[hour_ms] for hour_ms in sorted(total)})

    async def groups(self) -> dict[str, str]:
        """Delay groups and their masters' addresses. Raises ConnectionLost if the metaserver was never reached."""
        return await self._groups.groups()

    async def cancel(
        self, message_id: str, *, subject: str = "", due: datetime | None = None, delay_group: str = ""
    ) -> DelayedChange:
        """Cancel a message. If the outcome is `done` or `unchanged`, it is never delivered.

        If a delay group gets another master meanwhile, the request is repeated there for up to 10 s. A message that the first
        request cancelled is then `unchanged`, with the state `cancelled`.

        Raises QmqError if a delay group can't be reached: the outcome is unknown.
        """
        return await self._change(Operation.CANCEL, -1, _target(message_id, subject, due), delay_group)

    async def reschedule(
        self,
        message_id: str,
        *,
        to: datetime | None = None,
        delay: timedelta | None = None,
        subject: str = "",
        due: datetime | None = None,
        delay_group: str = "",
    ) -> DelayedChange:
        """Reschedule a message to `to`, or to `delay` from now by the clock of its delay node. `due` is its current due time, if
        known.
        """
        return await self._reschedule(delay, to, _target(message_id, subject, due), delay_group)

    async def _reschedule(
        self, delay: timedelta | None, to: datetime | None, target: DelayedTarget, delay_group: str
    ) -> DelayedChange:
        due_ms = due_ms_of(delay, to, self._clock)  # raises also for a delay that is too long
        delay_ms = -1 if delay is None else delay_ms_of(delay)
        return await self._change(
            Operation.RESCHEDULE, due_ms if delay is None else -1, target, delay_group, delay_ms=delay_ms
        )

    async def deliver(
        self, message_id: str, *, subject: str = "", due: datetime | None = None, delay_group: str = ""
    ) -> DelayedChange:
        """Make a message due now."""
        return await self._change(Operation.DELIVER, -1, _target(message_id, subject, due), delay_group)

    async def _change(
        self, operation: Operation, due_ms: int, target: DelayedTarget, delay_group: str, *, delay_ms: int = -1
    ) -> DelayedChange:
        loop = asyncio.get_running_loop()
        began = loop.time()

        def body() -> bytes:
            # A repeated request states what is left of the delay: the time of the first one counts.
            left_ms = max(0, delay_ms - round((loop.time() - began) * 1000)) if delay_ms >= 0 else -1
            return ChangeDelayedRequest(operation, due_ms, (target,), left_ms).encode()

        command, decode = Command.CHANGE_DELAYED, ChangeDelayedResponse.decode
        if delay_group:
            return (await self._groups.call(delay_group, command, body, decode)).changes[0]
        answers, problems = await self._groups.call_all(command, body, decode)
        for outcome in (Outcome.TOO_LATE, Outcome.DONE, Outcome.UNCHANGED):
            for answer in answers.values():
                if answer.changes[0].outcome is outcome:
                    return answer.changes[0]
        if problems:
            group, why = next(iter(problems.items()))
            raise QmqError(f"{target.message_id} may be in delay group {group}, which can't be reached: {why}",
                           code="delay.group_unreachable", retriable=True)  # fmt: skip
        return DelayedChange(target.message_id, Outcome.NOT_FOUND, "", -1)

    async def cancel_matching(
        self,
        subject: str,
        *,
        match: Mapping[str, str] | None = None,
        begin: datetime | None = None,
        end: datetime | None = None,
        dry_run: bool = False,
        expected: int | None = None,
    ) -> BulkCancel:
        """Cancel all pending messages of a subject in a range of due times, or those with these properties.

        Args:
            expected: the number of messages that match, as a dry run returned it. They are counted again first.

        A request without an answer is not repeated at another master: it would not count what was cancelled before.

        Raises:
            CountDiffers: another number of messages matches; nothing was cancelled.
        """
        if expected is not None and not dry_run:
            found = await self.cancel_matching(subject, match=match, begin=begin, end=end, dry_run=True)
            if found.matched != expected:
                raise CountDiffers(
                    f"{found.matched} messages of {subject} match, {expected} were expected: nothing was cancelled."
                    " Count them again with a dry run."
                )
        from_ms, to_ms = _range(begin, end)

        async def request(group: str) -> CancelDelayedResponse:
            matched = cancelled = too_late = 0
            cursor = ""
            while True:
                query = ListDelayedRequest(subject, from_ms, to_ms, (), match or {}, PAGE_MAX, cursor)
                body = CancelDelayedRequest(query, dry_run).encode()
                # Sent twice, a page would not count what the first request has cancelled.
                step = await self._groups.call(
                    group, Command.CANCEL_DELAYED, body, CancelDelayedResponse.decode, is_repeatable=dry_run
                )
                matched, cancelled = matched + step.matched, cancelled + step.cancelled
                too_late, cursor = too_late + step.too_late, step.cursor
                if not cursor:
                    return CancelDelayedResponse(matched, cancelled, too_late, "")

        answers, problems = await self._groups.request_all(request)
        done = answers.values()
        return BulkCancel(
            problems, sum(a.matched for a in done), sum(a.cancelled for a in done), sum(a.too_late for a in done)
        )


def _target(message_id: str, subject: str, due: datetime | None) -> DelayedTarget:
    return DelayedTarget(message_id, subject, -1 if due is None else due_ms_of(None, due))


def _range(begin: datetime | None, end: datetime | None) -> tuple[int, int]:
    return (
        0 if begin is None else due_ms_of(None, begin),
        DUE_MS_MAX if end is None else due_ms_of(None, end),
    )


class DelayedReceipt(Receipt):
    """The proof that a delayed message is on disk, and the handle to change it. `broker_group` is the delay group's name."""

    due_ms: int
    _messages: DelayedMessages

    def __new__(cls, receipt: Receipt, due_ms: int, messages: DelayedMessages) -> Self:
        self = super().__new__(cls, *receipt)
        self.due_ms = due_ms
        self._messages = messages
        return self

    @property
    def due_at(self) -> datetime:
        """The due time of the send; `reschedule` does not change this value."""
        return moment(self.due_ms)

    @property
    def _known(self) -> DelayedTarget:
        return DelayedTarget(self.message_id, self.subject, self.due_ms)

    async def cancel(self) -> DelayedChange:
        """Cancel the message. If the outcome is `done` or `unchanged`, it is never delivered; `too_late`: it was already
        delivered.
        """
        return await self._messages._change(Operation.CANCEL, -1, self._known, self.broker_group)

    async def reschedule(self, *, delay: timedelta | None = None, due: datetime | None = None) -> DelayedChange:
        """Change the due time of the message: to `due`, or to `delay` from now by the clock of its delay node."""
        return await self._messages._reschedule(delay, due, self._known, self.broker_group)

    async def deliver(self) -> DelayedChange:
        """Make the message due now."""
        return await self._messages._change(Operation.DELIVER, -1, self._known, self.broker_group)
