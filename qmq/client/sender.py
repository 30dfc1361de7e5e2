"""The one task that empties the accumulator; when it fails, all messages fail with its error."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from qmq.client.accumulator import Accumulator, Waiting
from qmq.client.config import Backoff, Limits, Timeouts
from qmq.client.message import Receipt
from qmq.client.pool import Pool
from qmq.client.routing import WRITABLE, Breaker, RoundRobin, usable
from qmq.client.session import MetaSession
from qmq.errors import ClientFailed, QmqError, SendFailed
from qmq.protocol.codes import ClientType, Command, ResponseCode, SendResult
from qmq.protocol.commands import BrokerGroupRoute, SendFailure, decode_send_response
from qmq.protocol.names import NO_SPACE, is_subject_refusal
from qmq.supervisor import Supervisor

Item = Waiting["asyncio.Future[Receipt]"]
IDLE_SECONDS = 1.0
"""How often expired messages are looked for while nothing else happens."""
NO_SPACE_SECONDS = 1.0
"""How long a broker group that had no space for a message gets no other."""
TASK_NAME = "sender"
BATCH_NAME = "send_batch"
_PERMANENT = {SendResult.BLOCK, SendResult.SUBJECT_NOT_ASSIGNED}
"""The broker will never take this message: trying again is of no use."""


class Sender:
    """Takes batches, chooses broker groups, sends, retries."""

    def __init__(
        self,
        accumulator: "Accumulator[asyncio.Future[Receipt]]",
        session: MetaSession,
        pool: Pool,
        *,
        limits: Limits,
        timeouts: Timeouts,
        backoff: Backoff,
        linger: float,
    ) -> None:
        self._accumulator = accumulator
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
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._supervisor: Supervisor | None = None
        self._batches: dict[asyncio.Task[None], list[Item]] = {}
        self.unsettled = 0
        self._settled = asyncio.Event()
        self._settled.set()
        self._waiting_for_room: OrderedDict[Item, None] = OrderedDict()
        """Messages of callers of `send` that do not fit the queue yet, oldest first."""
        self.failed: BaseException | None = None

    def start(self, supervisor: Supervisor) -> None:
        """Begin, on the running loop. The owner calls `fail` when the supervisor reports a failure."""
        self._supervisor = supervisor
        self._task = supervisor.critical(TASK_NAME, self._run())

    def fail(self, error: BaseException) -> None:
        """Fail what is queued or waits for room, and every later message. Batches in flight still finish."""
        self.failed = error
        for item in self._drain():
            self._settle(item, error=self._failure())

    def _drain(self) -> list[Item]:
        items = [*self._accumulator.drain(), *self._waiting_for_room]
        self._waiting_for_room.clear()
        return items

    def add(self, item: Item) -> None:
        """Queue a message that does not wait for room.

        Raises:
            QueueFull: the queue is full, or others wait for room in it.
            SendFailed: the sender failed.
        """
        self._check_running()
        if self._waiting_for_room:
            raise self._accumulator.full()
        self._accumulator.add(item)
        self._track(item)
        self._wake_for(item)

    def add_when_room(self, item: Item) -> None:
        """Queue a message as soon as there is room for it, behind those that wait already.

        Messages outside the queue's limits are those of callers that wait for them. One whose token is cancelled meanwhile
        is never queued. The time until a message fails (`Timeouts.delivery`) starts when it is queued.

        Raises:
            SendFailed: the sender failed.
        """
        self._check_running()
        self._track(item)
        if self._waiting_for_room or not self._accumulator.has_room(len(item.entry)):
            self._waiting_for_room[item] = None
            item.token.add_done_callback(lambda _: self._waiting_for_room.pop(item, None))
            return
        self._accumulator.add(item)
        self._wake_for(item)

    def _check_running(self) -> None:
        if self.failed is not None:
            raise self._failure()

    def _failure(self) -> SendFailed:
        assert self.failed is not None
        error = SendFailed(f"the producer failed: {self.failed}", code=ClientFailed.code)
        error.__cause__ = self.failed.__cause__ or self.failed
        return error

    def _track(self, item: Item) -> None:
        self.unsettled += 1
        self._settled.clear()
        item.token.add_done_callback(self._forget)

    def _wake_for(self, item: Item) -> None:
        # Other subjects' messages may wait for their next attempt; this one must not wait for them.
        if self._accumulator.is_alone(item) or self._accumulator.is_full_batch():
            self._wake.set()

    def _forget(self, future: "asyncio.Future[Receipt]") -> None:
        self.unsettled -= 1
        if not self.unsettled:
            self._settled.set()
        if not future.cancelled():
            future.exception()

    def _admit(self) -> None:
        """Queue messages that wait for room, oldest first, as many as fit."""
        waiting, queue = self._waiting_for_room, self._accumulator
        while waiting:
            item = next(iter(waiting))
            if not queue.has_room(len(item.entry)):
                return
            waiting.popitem(last=False)
            # A cancelled one is still here until its callbacks run.
            if not item.token.done():
                item.give_up_at = asyncio.get_running_loop().time() + self._timeouts.delivery
                queue.add(item)

    async def flush(self) -> None:
        """Wait until nothing is unsettled."""
        self._wake.set()
        await self._settled.wait()

    async def stop(self, error: SendFailed) -> list[str]:
        """End; what is left fails with `error`. Ids of those messages."""
        if self._task is not None and self._supervisor is not None:
            await self._supervisor.cancel(self._task)
        left = self._drain()
        for task, items in list(self._batches.items()):
            task.cancel()
            left += items
        if self._batches:
            await asyncio.wait(list(self._batches))
        unsent = [item for item in left if not item.token.done()]
        for item in unsent:
            self._settle(item, error=error)
        return [item.message_id for item in unsent]

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        assert self._supervisor is not None
        while True:
            while len(self._batches) < self._limits.batches_in_flight:
                batch = self._accumulator.take(loop.time())
                if not batch:
                    break
                task = self._supervisor.background(BATCH_NAME, self._send(batch))
                self._batches[task] = batch
                task.add_done_callback(self._batch_ended)
                self._admit()
            self._admit()
            self._wake.clear()
            next_at = self._accumulator.next_at()
            busy = len(self._batches) >= self._limits.batches_in_flight
            pause = IDLE_SECONDS if next_at is None or busy else min(IDLE_SECONDS, max(0.0, next_at - loop.time()))
            if pause:
                await self._sleep(pause)
            is_filling = not self._accumulator.is_full_batch() and not self._waiting_for_room
            if next_at is None and self._linger and is_filling:
                await asyncio.sleep(self._linger)

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _batch_ended(self, task: "asyncio.Task[None]") -> None:
        items = self._batches.pop(task)
        self._wake.set()
        error = None if task.cancelled() else task.exception()
        if error is not None:
            for item in items:
                failure = SendFailed(f"task {BATCH_NAME!r} failed: {error}; the message may be stored")
                failure.__cause__ = error
                self._settle(item, error=failure)

    async def _send(self, batch: list[Item]) -> None:
        """Make one attempt to send a batch, until its newest message's time is over."""
        try:
            async with asyncio.timeout_at(batch[-1].give_up_at):
                await self._attempt(batch)
        except TimeoutError:
            self._again(batch, batch[0].last_problem or "no response yet", "")

    async def _attempt(self, batch: list[Item]) -> None:
        loop = asyncio.get_running_loop()
        subject, client_type = batch[0].subject, _client_type(batch[0])
        try:
            writable = usable(await self._session.wait_routes(subject, client_type), WRITABLE)
        except QmqError as error:
            self._again(batch, str(error), "")
            return
        routes = self._with_space(writable)
        if writable and not routes:
            self._fail_full(batch)
            return
        round_robin = self._round_robins.setdefault((subject, client_type), RoundRobin(self._breaker))
        route = round_robin.choose(routes, loop.time(), batch[0].last_group)
        if route is None:
            soonest = min((self._breaker.closes_at(r.name) for r in routes), default=loop.time() + self._backoff.first)
            problem = batch[0].last_problem or "no group that accepts the subject's messages is available"
            self._again(batch, problem, "", not_before=max(soonest, loop.time() + 0.01))
            return
        await self._send_to(batch, route, routes)

    def _with_space(self, routes: Sequence[BrokerGroupRoute]) -> list[BrokerGroupRoute]:
        """The routes of groups that did not lack space a moment ago."""
        now = asyncio.get_running_loop().time()
        return [route for route in routes if now >= self._full_until.get(route.name, 0.0)]

    def _fail_full(self, batch: list[Item], problem: str = "") -> None:
        """Fail messages that no broker or delay group has space for."""
        for item in batch:
            stored = "it may be stored by an earlier attempt" if item.may_be_stored else "it is not stored"
            kind = "delay group" if item.is_delayed else "broker group"
            text = f"no {kind} has space for message {item.message_id} of {item.subject}; {stored}"
            if problem := problem or item.last_problem:
                text += f". Last: {problem}"
            self._settle(item, error=SendFailed(text, code="client.no_space", retriable=True))

    async def _send_to(self, batch: list[Item], route: BrokerGroupRoute, routes: Sequence[BrokerGroupRoute]) -> None:
        loop = asyncio.get_running_loop()
        for item in batch:
            item.attempts += 1
        try:
            caller = await self._pool.get(route.master)
            body = b"".join([item.entry for item in batch])
            frame = await caller.call(Command.SEND_MESSAGE, body, timeout_s=self._timeouts.send)
            if frame.code != ResponseCode.SUCCESS:
                raise SendFailed(f"{route.name} returned code {frame.code}")
            failures = decode_send_response(frame.body)
        except QmqError as error:
            for item in batch:
                item.may_be_stored = True
            self._breaker.failed(route.name, loop.time())
            self._session.refresh(batch[0].subject, _client_type(batch[0]))
            self._again(batch, str(error), route.name)
            return
        self._breaker.succeeded(route.name)
        self._sort_out(batch, failures, route.name, routes)

    def _sort_out(
        self,
        batch: list[Item],
        failures: dict[str, SendFailure],
        group: str,
        routes: Sequence[BrokerGroupRoute],
    ) -> None:
        again: list[Item] = []
        full: list[Item] = []
        problem = ""
        is_group_fine = True
        for item in batch:
            failure = failures.get(item.message_id) if failures else None
            if failure is None or failure.result == SendResult.MESSAGE_DUPLICATE:
                self._settle(item, receipt=Receipt(item.message_id, item.subject, group, item.attempts))
            elif failure.result in _PERMANENT:
                text = f"{group} rejected message {item.message_id}: {failure.remark} (result {failure.result})"
                self._settle(item, error=SendFailed(text, code=_code_of(failure.remark)))
            elif failure.remark.startswith(NO_SPACE):
                full.append(item)
                problem = f"{group}: {failure.remark}"
            else:
                problem = f"{group}: {failure.remark or 'not stored'} (result {failure.result})"
                is_group_fine = is_group_fine and is_subject_refusal(failure.remark)
                again.append(item)
        if full:
            now = asyncio.get_running_loop().time()
            self._full_until[group] = now + NO_SPACE_SECONDS
            self._session.refresh(full[0].subject, _client_type(full[0]))
            if self._with_space(routes):
                self._again(full, problem, group, not_before=now)
            else:
                self._fail_full(full, problem)
        if again:
            # A closed subject or a quota holds up that subject's messages only, by their own pauses.
            if not is_group_fine:
                self._breaker.failed(group, asyncio.get_running_loop().time())
                self._session.refresh(again[0].subject, _client_type(again[0]))
            self._again(again, problem, group)

    def _again(self, batch: list[Item], problem: str, group: str, not_before: float | None = None) -> None:
        """Queue again what still has time; the rest fails."""
        now = asyncio.get_running_loop().time()
        keep = []
        for item in batch:
            item.last_problem, item.last_group = problem, group or item.last_group
            item.not_before = not_before if not_before is not None else now + self._backoff.pause(max(1, item.attempts))
            if item.token.done():
                continue
            if self.failed is not None:
                self._settle(item, error=self._failure())
            elif item.not_before >= item.give_up_at:
                self._settle(
                    item,
                    error=SendFailed(
                        f"message {item.message_id} for {item.subject} was not confirmed in {self._timeouts.delivery:g} s"
                        f" and {item.attempts} attempts; it may be stored. Last: {problem}",
                        retriable=True,
                    ),
                )
            else:
                keep.append(item)
        self._accumulator.put_back(keep)

    def _settle(self, item: Item, *, receipt: Receipt | None = None, error: SendFailed | None = None) -> None:
        if item.token.done():
            return
        if error is not None:
            item.token.set_exception(error)
        elif receipt is not None:
            item.token.set_result(receipt)


def _client_type(item: Item) -> ClientType:
    return ClientType.DELAY_PRODUCER if item.is_delayed else ClientType.PRODUCER


def _code_of(remark: str) -> str:
    """The code that a node's remark begins with, if it does."""
    code, colon, _ = remark.partition(": ")
    return code if colon and code.startswith("delay.") else "client.message_refused"
