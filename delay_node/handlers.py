"""class Handlers: a short function for each command: decode, decide, append, answer when it is synced."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from delay_node.bulk_read import BulkReads
from delay_node.changes import Changes
from delay_node.errors import BadQuery, LimitReached
from delay_node.queries import PAGE_BYTES_MAX, Queries
from delay_node.schedule_log import flags_and_times
from delay_node.store import DelayStore
from delay_node.trusted_clock import TrustedClock
from qmq.daemon.committer import Committer
from qmq.daemon.send_gate import SendGate
from qmq.errors import IllegalName, LogError, ProtocolError, QmqError
from qmq.log.commit import RECORD_HEAD_BYTES_MAX
from qmq.net.connection import Connection
from qmq.net.log_limiter import LogLimiter
from qmq.protocol.codes import VERSIONS_SERVED, Command, ResponseCode, SendResult
from qmq.protocol.commands import SendFailure, encode_send_response
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
from qmq.protocol.frames import MESSAGE_BYTES_MAX, Frame
from qmq.protocol.messages import FLAG_DELAY, KEY_SCHEDULE
from qmq.protocol.names import SUBJECT_OVER_LIMIT
from qmq.protocol.raw import RawView
from qmq.protocol.scan import BadChecksum, BatchScanner, Run
from qmq.supervisor import Supervisor

logger = logging.getLogger("qmq.delay.handlers")

UNSYNCED_BYTES_MAX = 64 << 20
"""Bytes appended and not synced; above it sends are answered busy."""
RUN_BYTES_MAX = 8 << 20
"""Messages of one send that become one record of the log, unless a single one is larger."""
QUERIES_MAX = 64
"""Queries and changes under way; a further one is answered busy."""


@dataclass(slots=True)
class HandlerCounters:
    """Counts since start, for metrics."""

    sends: int = 0
    send_failures: Counter[str] = field(default_factory=Counter)
    bad_requests: Counter[str] = field(default_factory=Counter)
    queries: Counter[str] = field(default_factory=Counter)
    policy_refused_messages: Counter[str] = field(default_factory=Counter)


class Handlers:
    """Answers the frames of a delay node's clients.

    Args:
        refuse_sends: returns why sends are rejected now, "" when they are accepted.
        send_gate: rejects messages of subjects that a policy closes or limits.
        delay_max_ms: how far ahead a due time may be.
        unwritten_bytes_max: maximum of schedule and dispatch logs in memory only; above it sends are answered busy.
    """

    def __init__(
        self,
        store: DelayStore,
        queries: Queries,
        changes: Changes,
        committer: Committer,
        clock: TrustedClock,
        refuse_sends: Callable[[], str],
        send_gate: SendGate,
        delay_max_ms: int,
        unwritten_bytes_max: int,
        bulk_reads: BulkReads,
        supervisor: Supervisor,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
    ) -> None:
        self._store = store
        self._supervisor = supervisor
        self._queries = queries
        self._changes = changes
        self._committer = committer
        self._clock = clock
        self._log_limiter = LogLimiter()
        self._refuse_sends = refuse_sends
        self._send_gate = send_gate
        self._delay_max_ms = delay_max_ms
        self._unwritten_bytes_max = unwritten_bytes_max
        self._scanner = BatchScanner(message_bytes_max)
        # A record has twelve bytes more for each message, which has 54 bytes at least.
        self._run_bytes_max = min(RUN_BYTES_MAX, (store.log.record_bytes_max - RECORD_HEAD_BYTES_MAX) * 3 // 4)
        self.counters = HandlerCounters()
        self._running: dict[asyncio.Task[None], None] = {}
        self._table: dict[int, Callable[[Connection, Frame], None]] = {
            Command.SEND_MESSAGE: self._send,
            Command.HEARTBEAT: lambda connection, frame: connection.reply(frame, Command.HEARTBEAT),
            Command.FIND_DELAYED: lambda c, f: self._query(c, f, self._find(f)),
            Command.LIST_DELAYED: self._list,
            Command.CHANGE_DELAYED: lambda c, f: self._query(c, f, self._change(f)),
            Command.CANCEL_DELAYED: lambda c, f: self._query(c, f, self._cancel(f)),
            Command.DELAYED_CALENDAR: lambda c, f: self._query(c, f, self._calendar(f)),
            **bulk_reads.table(),
        }

    def handle(self, connection: Connection, frame: Frame) -> None:
        """Handle a request frame; the answer may come later, in any order."""
        handler = self._table.get(frame.code)
        if handler is None:
            self._bad("unknown_command", connection, f"command {frame.code}")
            connection.reply(frame, ResponseCode.UNKNOWN_CODE)
            return
        if frame.version not in VERSIONS_SERVED:
            self._bad("unknown_version", connection, f"version {frame.version}")
            connection.reply(frame, ResponseCode.BROKER_ERROR)
            return
        try:
            handler(connection, frame)
        except (ProtocolError, IllegalName, LimitReached, LogError) as error:
            reason = "bad_crc" if isinstance(error, BadChecksum) else error.code
            self._bad(reason, connection, str(error))
            connection.reply(frame, ResponseCode.BROKER_ERROR)

    def _bad(self, reason: str, connection: Connection, what: str) -> None:
        """Count a bad request, and log it with a back-off for each reason and host."""
        self.counters.bad_requests[reason] += 1
        self._log_limiter.warning(logger, connection.peer, reason, what, asyncio.get_running_loop().time())

    # --- send ------------------------------------------------------------------------------------------------------

    def _send(self, connection: Connection, frame: Frame) -> None:
        body_end = frame.body_at + len(frame.body)
        runs, failures = self._scanner.scan(frame.buffer, frame.body_at, body_end)
        data = memoryview(frame.buffer)
        refused, result = self._refuse_sends(), SendResult.STORE_ERROR
        if not refused and (
            self._store.log.pending_bytes > UNSYNCED_BYTES_MAX
            or self._store.hours.unwritten_bytes > self._unwritten_bytes_max
        ):
            refused, result = "delay node busy", SendResult.BROKER_BUSY
        offset, now_ms = -1, self._clock.now_ms()
        if self._send_gate and not refused:
            runs = self._admit(runs, data, failures)
        for run in runs:
            if refused:
                failures += [SendFailure(_id_of(data, begin), result, refused) for begin in run.raw_begins]
                continue
            dues, reasons = self._dues(run, data, now_ms)
            if reasons:
                failures += [
                    SendFailure(_id_of(data, run.raw_begins[i]), SendResult.BLOCK, why) for i, why in reasons.items()
                ]
            for stretch, first in _without(run, reasons):
                for part in stretch.split(self._run_bytes_max):
                    scheduled = self._schedule(part, data, dues[first : first + part.count], now_ms, failures)
                    offset = max(offset, scheduled)
                    if scheduled < 0:
                        self._bad("limit_reached", connection, failures[-1].remark)
                    first += part.count
        for failure in failures:
            self.counters.send_failures[SendResult(failure.result).name.lower()] += 1
        body = encode_send_response(failures) if failures else b""
        self._committer.when_synced(offset, lambda: connection.reply(frame, ResponseCode.SUCCESS, body))

    def _schedule(
        self, run: Run, data: memoryview, dues: NDArray[np.int64], now_ms: int, failures: list[SendFailure]
    ) -> int:
        """Append a run to the log; return its record's offset, or -1 when a limit is reached: its messages become `failures`."""
        try:
            offset = self._store.schedule(run, data, dues, now_ms)
        except LimitReached as error:
            remark = f"{SUBJECT_OVER_LIMIT}: {error}"
            failures += [SendFailure(_id_of(data, begin), SendResult.STORE_ERROR, remark) for begin in run.raw_begins]
            return -1
        self.counters.sends += run.count
        return offset

    def _admit(self, runs: list[Run], data: memoryview, failures: list[SendFailure]) -> list[Run]:
        """Return what the policy admits of these runs; the rest is added to `failures`."""
        admitted = []
        for run in runs:
            taken, refusal = self._send_gate.judge(run)
            if refusal is not None:
                self.counters.policy_refused_messages[refusal.reason] += run.count - taken
                for begin in run.raw_begins[taken:]:
                    failures.append(SendFailure(_id_of(data, begin), refusal.result, refusal.remark))
            if taken:
                admitted.append(run.part(0, taken))
        return admitted

    def _dues(self, run: Run, data: memoryview, now_ms: int) -> tuple[NDArray[np.int64], dict[int, str]]:
        """Return the due times of a run's messages, past ones as now; and which are rejected, with the reason.

        A message without the delay bit is due when its property says: the official client decides twice whether a message
        is delayed, and may come here with one that no longer is (trap T9).
        """
        flags, dues = flags_and_times(data, np.array(run.raw_begins, dtype=np.int64))
        for i in np.flatnonzero((flags & FLAG_DELAY) == 0).tolist():
            text = RawView(data, run.raw_begins[i]).property_text(KEY_SCHEDULE.encode()) or ""
            dues[i] = int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else now_ms
        reasons: dict[int, str] = {}
        wrong = (dues < 0) | (dues > now_ms + self._delay_max_ms)
        if wrong.any():
            days = self._delay_max_ms / 86_400_000
            for i in np.flatnonzero(wrong).tolist():
                reasons[i] = f"delay.too_far: due time {dues[i]} ms is not within the next {days:g} days"
        return np.maximum(dues, now_ms), reasons

    # --- queries and changes ---------------------------------------------------------------------------------------

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
                self._bad(error.code, connection, str(error))
                connection.reply(frame, ResponseCode.BROKER_ERROR)

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


def _without(run: Run, left_out: dict[int, str]) -> list[tuple[Run, int]]:
    """Return a run's stretches without some of its messages, each with the place of its first message in the run."""
    if not left_out:
        return [(run, 0)]
    sizes = run.raw_sizes()
    parts: list[tuple[Run, int]] = []
    current: Run | None = None
    for i, begin in enumerate(run.raw_begins):
        if i in left_out:
            current = None
            continue
        if current is None:
            current = Run(run.subject, begin - 8, begin)
            parts.append((current, i))
        current.raw_begins.append(begin)
        current.crcs.append(run.crcs[i])
        current.tag_bits.append(run.tag_bits[i])
        current.end = begin + sizes[i]
    return parts


def _id_of(data: memoryview, raw_begin: int) -> str:
    return RawView(data, raw_begin).message_id
