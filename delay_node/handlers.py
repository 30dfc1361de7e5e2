"""class Handlers: a short function for each command: decode, decide, append, answer when it is synced."""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass

from delay_node.bulk_read import BulkReads
from delay_node.changes import Changes
from delay_node.errors import BadQuery, LimitReached
from delay_node.queries import PAGE_BYTES_MAX, Queries
from delay_node.sends import DelaySends
from delay_node.store import DelayStore
from delay_node.trusted_clock import TrustedClock
from qmq.clock import Clock
from qmq.daemon.committer import Committer
from qmq.daemon.counters import counted_by
from qmq.daemon.handlers import RequestHandlers
from qmq.daemon.rejections import Rejections
from qmq.daemon.sends import Admission, SendCounters
from qmq.errors import LogError, QmqError
from qmq.net.connection import Connection
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.delayed import (
    CancelDelayedRequest,
    ChangeDelayedRequest,
    ChangeDelayedResponse,
    DelayedCalendar,
    DelayedCalendarRequest,
    DelayedPage,
    FindDelayedRequest,
    ListDelayedRequest,
)
from qmq.protocol.extensions import Refusal
from qmq.protocol.frames import Frame
from qmq.supervisor import Supervisor

logger = logging.getLogger("qmq.delay.handlers")

QUERIES_MAX = 64
"""Queries and changes under way; a further one is answered busy."""


@dataclass(slots=True)
class HandlerCounters(SendCounters):
    """Counts since start, for metrics."""

    send_failures: Counter[str] = counted_by("result", "refused_sends", "Rejected messages")
    queries: Counter[str] = counted_by("command", "queries", "Lookups and changes")


class Handlers(RequestHandlers):
    """Answers the frames of a delay node's clients. Further arguments are those of `DelaySends`."""

    def __init__(
        self,
        store: DelayStore,
        queries: Queries,
        changes: Changes,
        committer: Committer,
        trusted_clock: TrustedClock,
        clock: Clock,
        admission: Admission,
        delay_max_ms: int,
        unwritten_bytes_max: int,
        bulk_reads: BulkReads,
        supervisor: Supervisor,
    ) -> None:
        self.counters = HandlerCounters()
        super().__init__(Rejections(self.counters, clock, logger, {LimitReached: "limit_reached"}))
        self._supervisor = supervisor
        self._queries = queries
        self._changes = changes
        self._running: dict[asyncio.Task[None], None] = {}
        sends = DelaySends(
            store,
            committer,
            trusted_clock,
            admission,
            delay_max_ms,
            unwritten_bytes_max,
            self.rejections,
            self.counters,
        )
        self.table |= {
            Command.SEND_MESSAGE: sends.handle,
            Command.FIND_DELAYED: lambda c, f: self._query(c, f, self._find(f)),
            Command.LIST_DELAYED: self._list,
            Command.CHANGE_DELAYED: lambda c, f: self._query(c, f, self._change(f)),
            Command.CANCEL_DELAYED: lambda c, f: self._query(c, f, self._cancel(f)),
            Command.DELAYED_CALENDAR: lambda c, f: self._query(c, f, self._calendar(f)),
            **bulk_reads.table(),
        }

    def _query(self, connection: Connection, frame: Frame, work: Coroutine[None, None, bytes]) -> None:
        """Answer with the result of `work`, which runs in a task of its own."""
        if len(self._running) >= QUERIES_MAX:
            work.close()
            busy = Refusal("delay.busy", f"{QUERIES_MAX} lookups are running, the maximum; try again")
            connection.reply(frame, ResponseCode.PARAM_ERROR, busy.encode())
            return
        self.counters.queries[Command(frame.code).name.lower()] += 1

        async def answer() -> None:
            try:
                connection.reply(frame, ResponseCode.SUCCESS, await work)
            except (BadQuery, LimitReached, LogError) as error:
                connection.reply(frame, ResponseCode.PARAM_ERROR, Refusal(error.code, str(error)).encode())
            except QmqError as error:
                self.rejections.fail(connection, frame, error)

        task = self._supervisor.background("query", answer())
        self._running[task] = None

        def ended(done: "asyncio.Task[None]") -> None:
            self._running.pop(done, None)
            work.close()
            if not done.cancelled() and done.exception() is not None:
                connection.reply(frame, ResponseCode.BROKER_ERROR)

        task.add_done_callback(ended)

    async def _find(self, frame: Frame) -> bytes:
        request = FindDelayedRequest.decode(frame.body)
        found = await self._queries.find(request.target)
        return DelayedPage(tuple(item.item() for item in found)).encode()

    def _list(self, connection: Connection, frame: Frame) -> None:
        bytes_max = min(PAGE_BYTES_MAX, connection.answer_room)
        # Counted before it is read: many questions of one read are under way at the same time.
        connection.holds(frame, bytes_max)
        self._query(connection, frame, self._page(frame, bytes_max))

    async def _page(self, frame: Frame, bytes_max: int) -> bytes:
        request = ListDelayedRequest.decode(frame.body)
        found, cursor = await self._queries.page(request, bytes_max)
        return DelayedPage(tuple(item.item() for item in found), cursor).encode()

    async def _change(self, frame: Frame) -> bytes:
        changes = await self._changes.change(ChangeDelayedRequest.decode(frame.body))
        return ChangeDelayedResponse(tuple(changes)).encode()

    async def _cancel(self, frame: Frame) -> bytes:
        request = CancelDelayedRequest.decode(frame.body)
        return (await self._changes.cancel_matching(request)).encode()

    async def _calendar(self, frame: Frame) -> bytes:
        request = DelayedCalendarRequest.decode(frame.body)
        hours = await self._queries.calendar(request.subject, request.from_ms, request.to_ms)
        return DelayedCalendar(tuple(hours)).encode()
