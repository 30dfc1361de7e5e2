"""The sending side of a producer: starts batches, chooses broker groups, retries.

A batch is started from the call that fills it, without a task: route and connection are known except at the beginning and after
failures. While nothing is in flight, an open batch starts at the loop's next turn; else it waits for more messages, at most
`linger` seconds. When the sender fails, all messages fail with its error.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from qmq.client.config import Limits
from qmq.client.group_choice import GroupChoice
from qmq.client.outgoing import Batch, Key, Outcome, classify, failures_in
from qmq.client.send_queue import SendQueue
from qmq.errors import QmqError, SendFailed
from qmq.net.caller import Caller
from qmq.net.pool import Pool
from qmq.net.session import MetaSession
from qmq.net.timing import Backoff, Timeouts
from qmq.protocol.codes import ClientType, Command
from qmq.protocol.commands import BrokerGroupRoute, SendFailure
from qmq.protocol.frames import Frame
from qmq.supervisor import Supervisor

T = TypeVar("T")
IDLE_SECONDS = 1.0
"""How often messages are failed whose time is over although they could not be sent."""
SETTLED_AT_ONCE = 50
"""Messages that fail in one step of the event loop because their time is over."""
TASK_NAME = "sender"
BATCH_NAME = "send_batch"


class Sender:
    """Takes batches, chooses broker groups, sends, retries. All methods run on the loop of `start`."""

    def __init__(
        self, session: MetaSession, pool: Pool, *, limits: Limits, timeouts: Timeouts, backoff: Backoff, linger: float
    ) -> None:
        self._wake = asyncio.Event()
        self.queue = SendQueue(limits, timeouts.delivery, self._wake.set, self._start_ready)
        self._accumulator = self.queue.accumulator
        self._session = session
        self._pool = pool
        self._limits = limits
        self._timeouts = timeouts
        self._backoff = backoff
        self._linger = linger
        self._choice = GroupChoice(session, backoff, limits.batches_in_flight)
        self._loop: asyncio.AbstractEventLoop
        self._supervisor: Supervisor
        self._task: asyncio.Task[None]
        self._in_flight: dict[Batch, asyncio.Future[Any] | None] = {}
        """Started batches, with the request or the task that is under way for each."""
        self._moves: list[tuple[Key, str]] = []
        """Subjects whose broker groups have another master, with the address of the former one, until `_run` handles them."""
        session.on_master_changed = self._master_changed

    def start(self, supervisor: Supervisor) -> None:
        """Begin, on the running loop. The owner calls `queue.fail` when the supervisor reports a failure."""
        self._loop = asyncio.get_running_loop()
        self._supervisor = supervisor
        self.queue.start(supervisor)
        self._task = supervisor.critical(TASK_NAME, self._run())

    async def stop(self, error: SendFailed) -> list[str]:
        """End; what is left fails with `error`. Ids of those messages."""
        self.queue.closed = error
        await self._supervisor.cancel(self._task)
        left = [*self._in_flight, *self.queue.take_all()]
        under_way = [work for work in self._in_flight.values() if work is not None]
        self._in_flight.clear()
        for work in under_way:
            work.cancel()
        for batch in left:
            self._settle(batch, [error] * len(batch))
        tasks = [work for work in under_way if isinstance(work, asyncio.Task)]
        if tasks:
            await asyncio.wait(tasks)
        return [message_id for batch in left for message_id in batch.ids]

    # --- starting batches ------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        expire_at = self._loop.time() + IDLE_SECONDS
        while True:
            self._wake.clear()
            self._follow_moves()
            if self._loop.time() >= expire_at:
                self.queue.expire(self._loop.time())
                expire_at = self._loop.time() + IDLE_SECONDS
            await self._settle_expired()
            self._start_ready()
            next_at = None if self._is_busy() else self._accumulator.next_at(self._current_linger())
            pause = IDLE_SECONDS if next_at is None else min(IDLE_SECONDS, max(0.0, next_at - self._loop.time()))
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    async def _settle_expired(self) -> None:
        """A few messages at a time: many may expire together, and other threads of the program wait for each step of the loop."""
        while self.queue.expired:
            batch = self.queue.expired.popleft()
            if len(batch) > SETTLED_AT_ONCE:
                self.queue.expired.appendleft(batch.part(range(SETTLED_AT_ONCE, len(batch))))
                batch = batch.part(range(SETTLED_AT_ONCE))
            self._settle(batch, batch.not_confirmed_errors())
            await asyncio.sleep(0)

    def _master_changed(self, subject: str, client_type: ClientType, former: str) -> None:
        self._moves.append(((subject, client_type), former))
        self._wake.set()

    def _follow_moves(self) -> None:
        """Fail the batches in flight to former masters as after a lost connection, and end the back-off of their subjects.

        Their outcomes are unknown, so they are sent again with the same message IDs. This is not done where the change is reported,
        because responses that arrived before it are read first.
        """
        moves, self._moves = self._moves, []
        for key, former in moves:
            self._pool.disconnect(former)
            self._choice.breaker.forget(former)
            self._accumulator.end_rest(key, self._loop.time())

    def _is_busy(self) -> bool:
        return len(self._in_flight) >= self._limits.batches_in_flight

    def _current_linger(self) -> float:
        return self._linger if self._in_flight and not self.queue.waiting else 0.0

    def _start_ready(self) -> None:
        """Start the batches that may be sent, as many as may be in flight, and fill the queue from what waits for room."""
        self.queue.admit()
        while not self._is_busy():
            batch = self._accumulator.take(self._loop.time(), self._current_linger())
            if batch is None:
                return
            self._in_flight[batch] = None
            try:
                self._start(batch)
            except Exception as error:  # noqa: BLE001 - reported, and the batch fails with it
                self._crash(batch, error)
            self.queue.admit()

    def _start(self, batch: Batch) -> None:
        """Make an attempt to send a batch. A step that waits for a route or a connection continues in a task."""
        if not self._session.routes(*batch.key):
            waiting = self._session.wait_routes(*batch.key)
            self._wait(batch, waiting, lambda _: self._start(batch), lambda error: self._retry(batch, str(error), ""))
            return
        now = self._loop.time()
        route, soonest = self._choice.choose(batch, now, self._in_flight)
        if route is None and soonest is None:
            self._settle(batch, batch.no_space_errors())
            return
        if route is None:
            problem = batch.last_problem or "no group that accepts the subject's messages is available"
            self._retry(batch, problem, "", not_before=max(soonest or 0.0, now + 0.01))
            return
        batch.group = route.name
        caller = self._pool.connected(route.master)
        if caller is not None:
            self._send_to(batch, route, caller)
            return
        self._wait(
            batch,
            self._pool.get(route.master),
            lambda opened: self._send_to(batch, route, opened),
            lambda error: self._attempt_failed(batch, route, str(error)),
        )

    def _wait(
        self, batch: Batch, work: Coroutine[Any, Any, T], then: Callable[[T], None], failed: Callable[[QmqError], None]
    ) -> None:
        """Wait in a task, no longer than the batch has time, and continue with the result."""

        async def wait() -> None:
            try:
                async with asyncio.timeout_at(batch.give_up_at):
                    result = await work
            except TimeoutError:
                self._retry(batch, batch.last_problem or "no response yet", "")
            except QmqError as error:
                failed(error)
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

        def responded(response: "asyncio.Future[Frame]") -> None:
            timer.cancel()
            if batch not in self._in_flight:  # the producer is closed
                return
            try:
                failures = failures_in(response, route, caller, seconds)
            except QmqError as error:
                batch.may_be_stored = True
                self._attempt_failed(batch, route, str(error))
            except Exception as error:  # noqa: BLE001 - reported, and the batch fails with it
                self._crash(batch, error)
            else:
                self._choice.breaker.succeeded(route.master)
                self._partly_stored(batch, failures, route)
            self._attempt_ended()

        response.add_done_callback(responded)

    def _attempt_ended(self) -> None:
        self._start_ready()
        if self._accumulator.messages:
            self._wake.set()  # for the time of the next attempt

    # --- outcomes --------------------------------------------------------------------------------------------------

    def _attempt_failed(self, batch: Batch, route: BrokerGroupRoute, problem: str) -> None:
        now = self._loop.time()
        if self._choice.has_moved(route, batch):
            batch.end_rest()
            self._retry(batch, problem, "", not_before=now)
        else:
            self._choice.failed(route, batch, now)
            self._retry(batch, problem, route.name)

    def _crash(self, batch: Batch, error: BaseException, *, is_reported: bool = False) -> None:
        """Fail a batch because of an unexpected exception."""
        if not is_reported:
            self._supervisor.report(BATCH_NAME, error)
        failure = SendFailed(f"task {BATCH_NAME!r} failed: {error}; the message may be stored")
        failure.__cause__ = error
        self._settle(batch, [failure] * len(batch))

    def _partly_stored(self, batch: Batch, failures: dict[str, SendFailure], route: BrokerGroupRoute) -> None:
        """Settle what was stored or is rejected permanently, and queue the rest again."""
        group = route.name
        if not failures:
            self._settle(batch, batch.receipts(group))
            return
        found = classify(batch, failures, group)
        for place, error in found.rejected.items():
            self._settle(batch.part([place]), [error])
        del self._in_flight[batch]
        if found.stored:
            stored = batch.part(found.stored)
            self._settle(stored, stored.receipts(group))
        if found.full:
            full, now = batch.part(found.full), self._loop.time()
            if self._choice.is_any_left(group, full, now):
                self._retry(full, found.full_problem, group, not_before=now)
            else:
                self._settle(full, full.no_space_errors(found.full_problem))
        if found.not_stored:
            # A closed subject or a quota holds up that subject's messages only, by their own pauses.
            if not found.is_group_fine:
                self._choice.failed(route, batch, self._loop.time())
            self._retry(batch.part(found.not_stored), found.problem, group)

    def _retry(self, batch: Batch, problem: str, group: str, not_before: float | None = None) -> None:
        """Queue a batch for another attempt if it still has time, without messages whose callers were cancelled; else fail it."""
        self._in_flight.pop(batch, None)
        now = self._loop.time()
        batch.last_problem, batch.last_group = problem, group or batch.last_group
        batch.not_before = (
            now + self._backoff.pause(max(1, batch.attempts - batch.attempts_before))
            if not_before is None
            else not_before
        )
        batch = self.queue.without_cancelled(batch)
        if not batch:
            return
        if (error := self.queue.stopped()) is not None:
            self._settle(batch, [error] * len(batch))
        elif batch.not_before >= batch.give_up_at:
            self.queue.expired.append(batch)
            self._wake.set()
        else:
            self._accumulator.put_back(batch, now)

    def _settle(self, batch: Batch, outcomes: Sequence[Outcome]) -> None:
        self._in_flight.pop(batch, None)
        self.queue.settle(batch, outcomes)
