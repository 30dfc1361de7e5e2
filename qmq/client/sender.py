"""The sending side of a producer: admits messages, starts batches, chooses broker groups, retries.

A batch is started from the call that fills it, without a task: route and connection are known except at the beginning and after
failures. While nothing is in flight, an open batch starts at the loop's next turn; else it waits for more messages, at most
`linger` seconds. When the sender fails, all messages fail with its error.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from qmq.client.accumulator import Accumulator
from qmq.client.config import Limits
from qmq.client.outgoing import Batch, Key, ManyOutcomes, Outcome, Token, hand_out
from qmq.client.receipt import Receipt
from qmq.errors import ClientFailed, QmqError, SendFailed
from qmq.net.caller import Caller, timed_out
from qmq.net.pool import Pool
from qmq.net.routing import WRITABLE, Breaker, RoundRobin, usable
from qmq.net.session import MetaSession
from qmq.net.timing import Backoff, Timeouts
from qmq.protocol.codes import ClientType, Command, ResponseCode, SendResult
from qmq.protocol.commands import BrokerGroupRoute, SendFailure, decode_send_response
from qmq.protocol.frames import Frame
from qmq.protocol.names import NO_SPACE, is_subject_refusal
from qmq.supervisor import Supervisor

T = TypeVar("T")
IDLE_SECONDS = 1.0
"""How often messages are looked for whose time is over although they could not be sent."""
NO_SPACE_SECONDS = 1.0
"""How long a broker group that had no space for a message gets no other."""
TASK_NAME = "sender"
BATCH_NAME = "send_batch"
CALLBACK_NAME = "send_callback"
_PERMANENT = {SendResult.BLOCK, SendResult.SUBJECT_NOT_ASSIGNED}
"""The broker will never take this message: trying again is of no use."""


@dataclass(eq=False, slots=True)
class _Waiting:
    """A message that does not fit the queue yet; its caller waits."""

    key: Key
    message_id: str
    entry: bytes
    future: "asyncio.Future[Receipt]"
    give_up_at: float

    @property
    def size(self) -> int:
        return len(self.entry)

    def __len__(self) -> int:
        return 1

    def as_batch(self) -> Batch:
        batch = Batch(self.key, self.give_up_at, self.give_up_at)
        batch.add(self.message_id, self.entry)
        batch.tokens.append(self.future)
        return batch


class Sender:
    """Takes batches, chooses broker groups, sends, retries. All methods run on the loop of `start`."""

    def __init__(
        self,
        session: MetaSession,
        pool: Pool,
        *,
        limits: Limits,
        timeouts: Timeouts,
        backoff: Backoff,
        linger: float,
    ) -> None:
        self._accumulator = Accumulator(limits)
        self._session = session
        self._pool = pool
        self._limits = limits
        self._timeouts = timeouts
        self._backoff = backoff
        self._linger = linger
        self._breaker = Breaker(backoff)
        self._full_until: dict[str, float] = {}
        """Broker groups that had no space, and until when they get no messages."""
        self._round_robins: dict[tuple[str, ClientType], RoundRobin] = {}
        self._loop: asyncio.AbstractEventLoop
        self._supervisor: Supervisor
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._in_flight: dict[Batch, asyncio.Future[Any] | None] = {}
        """Started batches, with the request or the task that is under way for each."""
        self.unsettled = 0
        self._settled = asyncio.Event()
        self._settled.set()
        self._waiting: OrderedDict[_Waiting | Batch, None] = OrderedDict()
        """What does not fit the queue yet, oldest first: messages of callers of `send`, parts of `send_many`."""
        self.failed: BaseException | None = None
        self._closed: SendFailed | None = None
        """The error of every message after `stop`."""

    def start(self, supervisor: Supervisor) -> None:
        """Begin, on the running loop. The owner calls `fail` when the supervisor reports a failure."""
        self._loop = asyncio.get_running_loop()
        self._supervisor = supervisor
        self._task = supervisor.critical(TASK_NAME, self._run())

    def fail(self, error: BaseException) -> None:
        """Fail what is queued or waits for room, and every later message. Batches in flight still finish."""
        self.failed = error
        for batch in self._drain():
            self._settle(batch, _same(self._failure(), batch))

    def _drain(self) -> list[Batch]:
        batches = self._accumulator.drain()
        while self._waiting:
            batches.append(self._take_waiting())
        return batches

    def _take_waiting(self) -> Batch:
        """The oldest message, or batch, that waits for room."""
        item, _ = self._waiting.popitem(last=False)
        if not isinstance(item, Batch):
            return item.as_batch()
        item.end_wait()
        return item

    # --- queueing --------------------------------------------------------------------------------------------------

    def add(self, key: Key, message_id: str, entry: bytes, token: Token) -> None:
        """Queue a message that does not wait for room.

        Raises:
            QueueFull: the queue is full, or others wait for room in it.
            SendFailed: the sender failed.
        """
        if (error := self._stopped()) is not None:
            raise error
        if self._waiting or not self._accumulator.has_room(1, len(entry)):
            raise self._accumulator.full()
        now = self._loop.time()
        self._queue(key, message_id, entry, token, now, now + self._timeouts.delivery)

    async def send(self, key: Key, message_id: str, entry: bytes) -> Receipt:
        """Queue a message as soon as there is room for it, behind those that wait already, and wait for its receipt.

        Messages outside the queue's limits are those of callers that wait for them. One whose caller is cancelled meanwhile is
        never queued.

        Raises:
            SendFailed: it was not stored in time, or the sender failed.
        """
        if (error := self._stopped()) is not None:
            raise error
        future: asyncio.Future[Receipt] = self._loop.create_future()
        now = self._loop.time()
        if not self._waiting and self._accumulator.has_room(1, len(entry)):
            self._queue(key, message_id, entry, future, now, now + self._timeouts.delivery)
            return await future
        item = _Waiting(key, message_id, entry, future, now + self._timeouts.delivery)
        self._count_unsettled(1)
        self._waiting[item] = None
        try:
            return await future
        finally:
            if item in self._waiting:
                del self._waiting[item]
                self._count_settled(1)

    def new_batch(self, subject: str, many: ManyOutcomes) -> Batch:
        """A batch of one `send_many`, empty."""
        now = self._loop.time()
        return Batch((subject, False), now, now + self._timeouts.delivery, many=many)

    async def send_batch(self, batch: Batch) -> None:
        """Queue a batch of one `send_many` as soon as there is room for it, behind those that wait already.

        A batch whose caller is cancelled meanwhile is never queued.
        """
        self._count_unsettled(len(batch))
        if (error := self._stopped()) is not None:
            self._settle(batch, _same(error, batch))
        elif self._waiting or not self._accumulator.has_room(len(batch), batch.size):
            queued = batch.queued = self._loop.create_future()
            self._waiting[batch] = None
            try:
                await queued
            finally:
                if batch in self._waiting:
                    del self._waiting[batch]
                    self._count_settled(len(batch))
        else:
            self._accumulator.add_batch(batch)
            self._start_ready()
            await asyncio.sleep(0)  # responses and other tasks have their turn between two batches

    def _queue(self, key: Key, message_id: str, entry: bytes, token: Token, now: float, give_up_at: float) -> None:
        self._count_unsettled(1)
        batch = self._accumulator.add(key, message_id, entry, token, now, give_up_at)
        if batch is None:
            return
        if batch.is_open:
            self._wake.set()
        else:
            self._start_ready()

    def _count_unsettled(self, count: int) -> None:
        if not self.unsettled:
            self._settled.clear()
        self.unsettled += count

    def _count_settled(self, count: int) -> None:
        self.unsettled -= count
        if not self.unsettled:
            self._settled.set()

    def _admit(self) -> None:
        """Queue what waits for room, oldest first, as much as fits."""
        waiting, queue = self._waiting, self._accumulator
        while waiting:
            item = next(iter(waiting))
            if not queue.has_room(len(item), item.size):
                return
            del waiting[item]
            if isinstance(item, Batch):
                queue.add_batch(item)
                item.end_wait()
            elif item.future.done():  # cancelled; its caller has not run yet
                self._count_settled(1)
            else:
                now = self._loop.time()
                queue.add(item.key, item.message_id, item.entry, item.future, now, item.give_up_at)

    def _stopped(self) -> SendFailed | None:
        """Why no message can be sent any more."""
        return self._failure() if self.failed is not None else self._closed

    def _failure(self) -> SendFailed:
        assert self.failed is not None
        error = SendFailed(f"the producer failed: {self.failed}", code=ClientFailed.code)
        error.__cause__ = self.failed.__cause__ or self.failed
        return error

    async def flush(self) -> None:
        """Wait until nothing is unsettled."""
        self._wake.set()
        await self._settled.wait()

    async def stop(self, error: SendFailed) -> list[str]:
        """End; what is left fails with `error`. Ids of those messages."""
        self._closed = error
        if self._task is not None:
            await self._supervisor.cancel(self._task)
        left = [*self._in_flight, *self._drain()]
        under_way = [work for work in self._in_flight.values() if work is not None]
        self._in_flight.clear()
        for work in under_way:
            work.cancel()
        for batch in left:
            self._settle(batch, _same(error, batch))
        tasks = [work for work in under_way if isinstance(work, asyncio.Task)]
        if tasks:
            await asyncio.wait(tasks)
        return [message_id for batch in left for message_id in batch.ids]

    # --- starting batches ------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        expire_at = self._loop.time() + IDLE_SECONDS
        while True:
            self._wake.clear()
            if self._loop.time() >= expire_at:
                self._fail_expired()
                expire_at = self._loop.time() + IDLE_SECONDS
            self._start_ready()
            next_at = None if self._is_busy() else self._accumulator.next_at(self._current_linger())
            pause = IDLE_SECONDS if next_at is None else min(IDLE_SECONDS, max(0.0, next_at - self._loop.time()))
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _is_busy(self) -> bool:
        return len(self._in_flight) >= self._limits.batches_in_flight

    def _current_linger(self) -> float:
        return self._linger if self._in_flight and not self._waiting else 0.0

    def _fail_expired(self) -> None:
        """Fail messages whose time is over although they could not be sent."""
        now = self._loop.time()
        for batch in self._accumulator.take_expired(now):
            self._settle(batch, self._not_confirmed(batch))
        while self._waiting and next(iter(self._waiting)).give_up_at <= now:
            batch = self._take_waiting()
            batch.last_problem = batch.last_problem or "the producer's queue was full"
            self._settle(batch, self._not_confirmed(batch))

    def _start_ready(self) -> None:
        """Start the batches that may be sent, as many as may be in flight, and fill the queue from what waits for room."""
        self._admit()
        while not self._is_busy():
            batch = self._accumulator.take(self._loop.time(), self._current_linger())
            if batch is None:
                return
            self._in_flight[batch] = None
            try:
                self._start(batch)
            except Exception as error:  # noqa: BLE001 - reported, and the batch fails with it
                self._crash(batch, error)
            self._admit()

    def _start(self, batch: Batch) -> None:
        """Make an attempt to send a batch. A step that waits for a route or a connection continues in a task."""
        subject, client_type = batch.subject, _client_type(batch)
        known = self._session.routes(subject, client_type)
        if not known:
            self._wait(
                batch, self._session.wait_routes(subject, client_type), lambda _: self._start(batch), self._no_route
            )
            return
        writable = usable(known, WRITABLE)
        routes = self._with_space(writable)
        if writable and not routes:
            self._fail_full(batch)
            return
        route = self._round_robin(subject, client_type).choose(routes, self._loop.time(), batch.last_group)
        if route is None:
            now = self._loop.time()
            soonest = min((self._breaker.closes_at(r.name) for r in routes), default=now + self._backoff.first)
            problem = batch.last_problem or "no group that accepts the subject's messages is available"
            self._again(batch, problem, "", not_before=max(soonest, now + 0.01))
            return
        caller = self._pool.connected(route.master)
        if caller is not None:
            self._send_to(batch, route, caller)
            return
        self._wait(
            batch,
            self._pool.get(route.master),
            lambda opened: self._send_to(batch, route, opened),
            lambda batch, error: self._attempt_failed(batch, route, str(error)),
        )

    def _round_robin(self, subject: str, client_type: ClientType) -> RoundRobin:
        key = (subject, client_type)
        if key not in self._round_robins:
            self._round_robins[key] = RoundRobin(self._breaker)
        return self._round_robins[key]

    def _with_space(self, routes: Sequence[BrokerGroupRoute]) -> list[BrokerGroupRoute]:
        """The routes of groups that did not lack space a moment ago."""
        now = self._loop.time()
        return [route for route in routes if now >= self._full_until.get(route.name, 0.0)]

    def _wait(
        self,
        batch: Batch,
        work: Coroutine[Any, Any, T],
        then: Callable[[T], None],
        failed: Callable[[Batch, QmqError], None],
    ) -> None:
        """Wait in a task, no longer than the batch has time, and continue with the result."""

        async def wait() -> None:
            try:
                async with asyncio.timeout_at(batch.give_up_at):
                    result = await work
            except TimeoutError:
                self._again(batch, batch.last_problem or "no response yet", "")
            except QmqError as error:
                failed(batch, error)
            else:
                then(result)

        task = self._supervisor.background(BATCH_NAME, wait())
        self._in_flight[batch] = task
        task.add_done_callback(lambda _: work.close())
        task.add_done_callback(lambda ended: self._wait_ended(batch, ended))

    def _wait_ended(self, batch: Batch, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._crash(batch, error, is_reported=True)
        self._attempt_ended()

    def _send_to(self, batch: Batch, route: BrokerGroupRoute, caller: Caller) -> None:
        """Write the request, and judge its response when that comes."""
        batch.attempts += 1
        seconds = min(self._timeouts.send, max(0.0, batch.give_up_at - self._loop.time()))
        try:
            response = caller.call_soon(Command.SEND_MESSAGE, *batch.entries)
        except QmqError as error:
            self._attempt_failed(batch, route, str(error))
            return
        self._in_flight[batch] = response
        # After a pause of the whole process, the loop reads what arrived before it runs timers: such a response still counts.
        timer = self._loop.call_later(seconds, response.cancel)
        response.add_done_callback(lambda done: self._responded(batch, route, caller, seconds, timer, done))

    def _responded(
        self,
        batch: Batch,
        route: BrokerGroupRoute,
        caller: Caller,
        seconds: float,
        timer: asyncio.TimerHandle,
        response: "asyncio.Future[Frame]",
    ) -> None:
        timer.cancel()
        if batch not in self._in_flight:  # the producer is closed
            return
        try:
            failures = _failures_in(response, route, caller, seconds)
        except QmqError as error:
            batch.may_be_stored = True
            self._attempt_failed(batch, route, str(error))
        except Exception as error:  # noqa: BLE001 - reported, and the batch fails with it
            self._crash(batch, error)
        else:
            self._breaker.succeeded(route.name)
            self._sort_out(batch, failures, route.name)
        self._attempt_ended()

    def _attempt_ended(self) -> None:
        self._start_ready()
        if self._accumulator.messages:
            self._wake.set()  # for the time of the next attempt

    # --- outcomes --------------------------------------------------------------------------------------------------

    def _no_route(self, batch: Batch, error: QmqError) -> None:
        self._again(batch, str(error), "")

    def _attempt_failed(self, batch: Batch, route: BrokerGroupRoute, problem: str) -> None:
        self._breaker.failed(route.name, self._loop.time())
        self._session.refresh(batch.subject, _client_type(batch))
        self._again(batch, problem, route.name)

    def _crash(self, batch: Batch, error: BaseException, *, is_reported: bool = False) -> None:
        """Fail a batch because of an unexpected exception."""
        if not is_reported:
            self._supervisor.report(BATCH_NAME, error)
        failure = SendFailed(f"task {BATCH_NAME!r} failed: {error}; the message may be stored")
        failure.__cause__ = error
        self._settle(batch, _same(failure, batch))

    def _sort_out(self, batch: Batch, failures: dict[str, SendFailure], group: str) -> None:
        """Settle what was stored or is rejected permanently, and queue the rest again."""
        if not failures:
            self._settle_stored(batch, group)
            return
        stored: list[int] = []
        again: list[int] = []
        full: list[int] = []
        problem = full_problem = ""
        is_group_fine = True
        for place, message_id in enumerate(batch.ids):
            failure = failures.get(message_id)
            if failure is None or failure.result == SendResult.MESSAGE_DUPLICATE:
                stored.append(place)
            elif failure.result in _PERMANENT:
                text = f"{group} rejected message {message_id}: {failure.remark} (result {failure.result})"
                self._settle(batch.part([place]), [SendFailed(text, code=_code_of(failure.remark))])
            elif failure.remark.startswith(NO_SPACE):
                full.append(place)
                full_problem = f"{group}: {failure.remark}"
            else:
                problem = f"{group}: {failure.remark or 'not stored'} (result {failure.result})"
                is_group_fine = is_group_fine and is_subject_refusal(failure.remark)
                again.append(place)
        del self._in_flight[batch]
        if stored:
            self._settle_stored(batch.part(stored), group)
        if full:
            self._lacks_space(batch.part(full), group, full_problem)
        if again:
            # A closed subject or a quota holds up that subject's messages only, by their own pauses.
            if not is_group_fine:
                self._breaker.failed(group, self._loop.time())
                self._session.refresh(batch.subject, _client_type(batch))
            self._again(batch.part(again), problem, group)

    def _lacks_space(self, batch: Batch, group: str, problem: str) -> None:
        now = self._loop.time()
        self._full_until[group] = now + NO_SPACE_SECONDS
        client_type = _client_type(batch)
        self._session.refresh(batch.subject, client_type)
        if self._with_space(usable(self._session.routes(batch.subject, client_type), WRITABLE)):
            self._again(batch, problem, group, not_before=now)
        else:
            self._fail_full(batch, problem)

    def _fail_full(self, batch: Batch, problem: str = "") -> None:
        """Fail messages that no broker or delay group has space for."""
        problem = problem or batch.last_problem
        kind = "delay group" if batch.is_delayed else "broker group"
        stored = "it may be stored by an earlier attempt" if batch.may_be_stored else "it is not stored"

        text = f"of {batch.subject}; {stored}. Last: {problem}" if problem else f"of {batch.subject}; {stored}"
        self._settle(
            batch,
            [
                SendFailed(
                    f"no {kind} has space for message {message_id} {text}", code="client.no_space", retriable=True
                )
                for message_id in batch.ids
            ],
        )

    def _again(self, batch: Batch, problem: str, group: str, not_before: float | None = None) -> None:
        """Queue a batch for another attempt if it still has time, without messages whose callers were cancelled; else fail it."""
        self._in_flight.pop(batch, None)
        now = self._loop.time()
        batch.last_problem, batch.last_group = problem, group or batch.last_group
        batch.not_before = now + self._backoff.pause(max(1, batch.attempts)) if not_before is None else not_before
        batch = self._without_cancelled(batch)
        if not batch:
            return
        if (error := self._stopped()) is not None:
            self._settle(batch, _same(error, batch))
        elif batch.not_before >= batch.give_up_at:
            self._settle(batch, self._not_confirmed(batch))
        else:
            self._accumulator.put_back(batch, now)

    def _without_cancelled(self, batch: Batch) -> Batch:
        kept = [n for n, token in enumerate(batch.tokens) if not (isinstance(token, asyncio.Future) and token.done())]
        if batch.many is not None or len(kept) == len(batch):
            return batch
        self._count_settled(len(batch) - len(kept))
        return batch.part(kept)

    def _not_confirmed(self, batch: Batch) -> list[Outcome]:
        stored = "it may be stored" if batch.may_be_stored else "it is not stored"
        text = f"was not confirmed in {self._timeouts.delivery:g} s and {batch.attempts} attempts; {stored}."
        problem = batch.last_problem or "it was not sent yet"
        return [
            SendFailed(f"message {message_id} for {batch.subject} {text} Last: {problem}", retriable=True)
            for message_id in batch.ids
        ]

    def _settle_stored(self, batch: Batch, group: str) -> None:
        subject, attempts = batch.subject, batch.attempts
        self._settle(batch, [Receipt(message_id, subject, group, attempts) for message_id in batch.ids])

    def _settle(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        """Hand out the outcome of each message."""
        self._in_flight.pop(batch, None)
        self._count_settled(len(batch))
        if batch.many is not None:
            batch.many.set(batch.places, outcomes)
            return
        for token, outcome in zip(batch.tokens, outcomes, strict=True):
            try:
                hand_out(token, outcome)
            except Exception as error:  # noqa: BLE001 - of the application's callback; reported, and other messages are not affected
                self._supervisor.report(CALLBACK_NAME, error)


def _same(error: SendFailed, batch: Batch) -> list[Outcome]:
    return [error] * len(batch)


def _failures_in(
    response: "asyncio.Future[Frame]", route: BrokerGroupRoute, caller: Caller, seconds: float
) -> dict[str, SendFailure]:
    """Failures by message ID; empty when all messages are stored.

    Raises:
        QmqError: it is unknown which messages are stored.
    """
    if response.cancelled():
        raise timed_out(caller.address, Command.SEND_MESSAGE, seconds)
    frame = response.result()
    if frame.code != ResponseCode.SUCCESS:
        raise SendFailed(f"{route.name} returned code {frame.code}")
    return decode_send_response(frame.body) if frame.body else {}


def _client_type(batch: Batch) -> ClientType:
    return ClientType.DELAY_PRODUCER if batch.is_delayed else ClientType.PRODUCER


def _code_of(remark: str) -> str:
    """The code that a node's remark begins with, if it does."""
    code, colon, _ = remark.partition(": ")
    return code if colon and code.startswith("delay.") else "client.message_refused"
