"""class Handlers: a short function for each command: decode, decide, append, answer when it is synced."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from delay_node.bulk_read import BulkReads
from delay_node.changes import Changes
from delay_node.dispatcher import Dispatcher
from delay_node.errors import BadQuery, LimitReached
from delay_node.queries import PAGE_BYTES_MAX, Queries
from delay_node.sends import DelaySends
from qmq.errors import LogError, QmqError
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.delayed import (
    CancelDelayedRequest,
    ChangeDelayedRequest,
    DelayClockResponse,
    DelayedCalendar,
    DelayedCalendarRequest,
    DelayedPage,
    FindDelayedRequest,
    ListDelayedRequest,
)
from qmq.protocol.extensions import Refusal
from qmq.protocol.frames import Frame
from qmq.protocol.structures import Structure
from qmq.supervisor import Supervisor
from qmq_node.process.counters import counted_by
from qmq_node.requests.handlers import Rejections, RequestHandlers
from qmq_node.requests.sends import SendCounters
from qmq_node.server.connection import Connection

R = TypeVar("R", bound=Structure)

QUERIES_MAX = 64
"""Queries and changes under way; a further one is answered busy."""


@dataclass(slots=True)
class HandlerCounters(SendCounters):
    send_failures: Counter[str] = counted_by("result", "refused_sends", "Rejected messages")
    queries: Counter[str] = counted_by("command", "queries", "Lookups and changes")


class Handlers(RequestHandlers):
    """Answers the frames of a delay node's clients. `counters` are those of `rejections` and `sends`."""

    def __init__(
        self,
        rejections: Rejections,
        counters: HandlerCounters,
        sends: DelaySends,
        queries: Queries,
        changes: Changes,
        bulk_reads: BulkReads,
        dispatcher: Dispatcher,
        supervisor: Supervisor,
    ) -> None:
        super().__init__(rejections)
        self.counters = counters
        self._supervisor = supervisor
        self._queries = queries
        self._dispatcher = dispatcher
        self._running: dict[asyncio.Task[None], None] = {}
        query = self._query
        self.table |= {
            Command.SEND_MESSAGE: sends.handle,
            Command.FIND_DELAYED: lambda c, f: query(c, f, FindDelayedRequest, self._find),
            Command.LIST_DELAYED: self._list,
            Command.CHANGE_DELAYED: lambda c, f: query(c, f, ChangeDelayedRequest, changes.change),
            Command.CANCEL_DELAYED: lambda c, f: query(c, f, CancelDelayedRequest, changes.cancel_matching),
            Command.DELAYED_CALENDAR: lambda c, f: query(c, f, DelayedCalendarRequest, self._calendar),
            Command.DELAY_CLOCK: self._clock,
            **bulk_reads.table(),
        }
        self._trusted = changes.clock

    def hold(self) -> None:
        self._dispatcher.is_held = True

    async def drained(self, seconds: float) -> None:
        await self._dispatcher.sender.wait(seconds)

    async def stop(self) -> None:
        """Cancel the lookups and changes whose clients do not wait any more."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def resume(self) -> None:
        self._dispatcher.is_held = False
        self._dispatcher.wake()

    def _query(
        self, connection: Connection, frame: Frame, kind: type[R], ask: Callable[[R], Awaitable[Structure]]
    ) -> None:
        """Answer with what `ask` returns for the request, in a task of its own."""
        if len(self._running) >= QUERIES_MAX:
            busy = Refusal("delay.busy", f"{QUERIES_MAX} lookups are running, the maximum; try again")
            connection.reply(frame, ResponseCode.PARAM_ERROR, busy.encode())
            return
        self.counters.queries[Command(frame.code).name.lower()] += 1

        async def answer() -> None:
            try:
                connection.reply(frame, ResponseCode.SUCCESS, (await ask(kind.decode(frame.body))).encode())
            except (BadQuery, LimitReached, LogError) as error:
                connection.reply(frame, ResponseCode.PARAM_ERROR, Refusal(error.code, str(error)).encode())
            except QmqError as error:
                self.rejections.fail(connection, frame, error)

        task = self._supervisor.background("query", answer())
        self._running[task] = None

        def ended(done: "asyncio.Task[None]") -> None:
            self._running.pop(done, None)
            if not done.cancelled() and done.exception() is not None:
                connection.reply(frame, ResponseCode.BROKER_ERROR)

        task.add_done_callback(ended)

    def _clock(self, connection: Connection, frame: Frame) -> None:
        connection.reply(frame, ResponseCode.SUCCESS, DelayClockResponse(self._trusted.now_ms()).encode())

    async def _find(self, request: FindDelayedRequest) -> DelayedPage:
        return DelayedPage(tuple(found.item() for found in await self._queries.find(request.target)))

    def _list(self, connection: Connection, frame: Frame) -> None:
        bytes_max = min(PAGE_BYTES_MAX, connection.answer_room)
        # Counted before it is read: many questions of one read are under way at the same time.
        connection.holds(frame, bytes_max)

        async def page(request: ListDelayedRequest) -> DelayedPage:
            found, cursor = await self._queries.page(request, bytes_max)
            return DelayedPage(tuple(item.item() for item in found), cursor)

        self._query(connection, frame, ListDelayedRequest, page)

    async def _calendar(self, request: DelayedCalendarRequest) -> DelayedCalendar:
        return DelayedCalendar(tuple(await self._queries.calendar(request.subject, request.from_ms, request.to_ms)))
