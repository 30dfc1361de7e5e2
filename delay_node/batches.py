"""class BatchSender: sends batches of due messages to broker groups and applies the results.

Before a batch leaves, its messages are *claimed* in the log: they may be delivered from then on, so a cancel is answered too_late.
What the broker stored is recorded as delivered. What it reports as not stored is pending again; everything else, an answer without
results included, stays claimed and is sent again. A message that brokers reject REFUSALS_MAX times is held for an operator.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

from delay_node.due_lanes import BrokerGroupQueue, DueLanes
from delay_node.lanes import Item, Lane
from delay_node.records import RecordKind, State, hour_of
from delay_node.schedule_log import message_id_of
from delay_node.store import DelayStore
from delay_node.trusted_clock import TrustedClock
from qmq.errors import LogError, NoSpace, QmqError
from qmq.net.pool import Pool
from qmq.protocol.codes import Command, ResponseCode, SendResult
from qmq.protocol.commands import BrokerGroupRoute, SendFailure, decode_send_response
from qmq.protocol.names import is_subject_refusal
from qmq.supervisor import Supervisor
from qmq_node.commits.committer import Committer
from qmq_node.process.counters import counted

logger = logging.getLogger("qmq.delay.batches")

REFUSALS_MAX = 5
REFUSAL_PAUSE_SECONDS = 1.0
"""Before a rejected message is tried again; doubled each time."""
SUBJECT_REFUSED_SECONDS = 1.0
"""Pause of a subject's messages that brokers reject by policy: the subject is closed, or over its quota."""
_REFUSED = {SendResult.BLOCK, SendResult.SUBJECT_NOT_ASSIGNED}


@dataclass(slots=True)
class BatchCounters:
    batches: int = counted("batches", "Batches sent to brokers")
    failed_batches: int = counted("failed_batches", "Failed batches")
    unknown: int = counted("unknown_deliveries", "Messages sent again because their first delivery is uncertain")
    refusals: int = counted("refused_deliveries", "Rejections of messages by brokers")


@dataclass(eq=False, repr=False)
class BatchSender:
    """Sends batches. `observe` gets the seconds from each message's due time to its delivery."""

    _store: DelayStore
    _committer: Committer
    _clock: TrustedClock
    _pool: Pool
    _supervisor: Supervisor
    _lanes: DueLanes
    _: KW_ONLY
    observe: Callable[[float], None]
    send_seconds: float
    on_end: Callable[[], None] = lambda: None
    """Called after each batch."""
    _tasks: dict[asyncio.Task[None], None] = field(default_factory=dict)
    failure: BaseException | None = None
    counters: BatchCounters = field(default_factory=BatchCounters)

    def is_waiting(self, ref: int) -> bool:
        """Return whether a message still has to be delivered."""
        hour = self._store.hours.get(hour_of(ref))
        return hour is not None and hour.states is not None and self._store.state(ref) in (State.PENDING, State.CLAIMED)

    def disconnect(self, master: str) -> None:
        """End the connection to the former master of a broker group. What is in flight to it is uncertain, and is sent again."""
        self._pool.disconnect(master)

    def start(self, items: list[Item], lanes: list[Lane], route: BrokerGroupRoute, group: BrokerGroupQueue) -> None:
        """Send messages of these lanes in one batch."""
        group.in_flight += 1
        for lane in lanes:
            lane.frames[group.name] += 1
        task = self._supervisor.background("delivery_batch", self._send(items, route))
        self._tasks[task] = None

        def ended(done: "asyncio.Task[None]") -> None:
            now = asyncio.get_running_loop().time()
            self._tasks.pop(done, None)
            group.in_flight -= 1
            for lane in lanes:
                lane.frames[group.name] -= 1
                self._lanes.enqueue(lane, now)
            if not done.cancelled() and done.exception() is not None:
                self.failure = done.exception()
            self.on_end()

        task.add_done_callback(ended)

    async def wait(self, seconds: float) -> None:
        """Wait until the results of the batches under way are in the log, for so long at most."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=seconds)

    async def stop(self, grace_seconds: float) -> None:
        """Wait for batches under way, then cancel the rest."""
        await self.wait(grace_seconds)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _send(self, items: list[Item], route: BrokerGroupRoute) -> None:
        try:
            caller = await self._pool.get(route.master)
        except QmqError as error:
            # Nothing left this node, nothing was claimed.
            self._failed(items, route, str(error))
            return
        items = [item for item in items if self.is_waiting(item.ref)]
        if not items:
            return
        try:
            claimed = await self._claim(items)
        except NoSpace:
            raise
        except LogError:
            # The log takes no more: this node ends, or another one is the master. Nothing was sent.
            return
        self.counters.batches += 1
        try:
            body = b"".join([item.data for item in items])
            frame = await caller.call(Command.SEND_MESSAGE, body, timeout_s=self.send_seconds)
            if frame.code == ResponseCode.BROKER_ERROR:
                await self._refused_whole(items, route)
                return
            if frame.code == ResponseCode.BROKER_REJECT:
                # Not a master: it refuses before it reads.
                self._store.release(claimed)
            if frame.code != ResponseCode.SUCCESS:
                self._failed(items, route, f"{route.name} answered code {frame.code}")
                return
            failures = decode_send_response(frame.body)
        except QmqError as error:
            self.counters.unknown += len(items)
            self._failed(items, route, str(error))
            return
        self._apply_results(items, failures, route, claimed)

    async def _claim(self, items: list[Item]) -> set[int]:
        """Claim what is pending and return its refs. They alone may be released: an older claim means an uncertain attempt."""
        fresh = [item.ref for item in items if self._store.state(item.ref) is State.PENDING]
        if not fresh:
            return set()
        await self._committer.synced(self._store.act(RecordKind.CLAIMED, fresh, self._clock.now_ms()))
        return set(fresh)

    def _apply_results(
        self, items: list[Item], failures: dict[str, SendFailure], route: BrokerGroupRoute, claimed: set[int]
    ) -> None:
        """Apply the broker's result of each message. `claimed`: refs that this attempt claimed."""
        again: list[Item] = []
        stored: list[Item] = []
        problem = ""
        is_group_fine = True
        for item in items:
            failure = failures.get(message_id_of(item.data)) if failures else None
            if failure is None or failure.result == SendResult.MESSAGE_DUPLICATE:
                stored.append(item)
            elif failure.result in _REFUSED:
                why = f"{route.name}: {failure.remark or 'refused'} (result {failure.result})"
                self._refuse(item, why, is_released=item.ref in claimed)
            else:
                problem = f"{route.name}: {failure.remark or 'not stored'} (result {failure.result})"
                is_group_fine = is_group_fine and is_subject_refusal(failure.remark)
                again.append(item)
        if stored or is_group_fine:
            self._lanes.succeeded(route, stored)
        if stored:
            now_ms = self._clock.now_ms()
            self._store.act(RecordKind.DELIVERED, [item.ref for item in stored], now_ms)
            self._committer.kick()
            for item in stored:
                self.observe(max(0, now_ms - item.due_ms) / 1000)
        if again:
            self._store.release([item.ref for item in again if item.ref in claimed])
            self._failed(again, route, problem, is_group_fine=is_group_fine)

    def _failed(self, items: list[Item], route: BrokerGroupRoute, problem: str, *, is_group_fine: bool = False) -> None:
        """Return messages to the front of their lanes. Pause the broker group, or those lanes if `is_group_fine`; then one message
        probes whether they are accepted again: each claim is a record and a sync."""
        now = asyncio.get_running_loop().time()
        self.counters.failed_batches += 1
        if not is_group_fine:
            self._lanes.failed(route, now)
        self._lanes.return_failed(items, route.name, problem, now, SUBJECT_REFUSED_SECONDS if is_group_fine else 0.0)

    async def _refused_whole(self, items: list[Item], route: BrokerGroupRoute) -> None:
        """The broker failed on a batch, which stays claimed as a whole. Halves find the message that it fails on."""
        if len(items) == 1:
            self._refuse(items[0], f"{route.name} fails on it", is_released=False)
            return
        middle = len(items) // 2
        for half in (items[:middle], items[middle:]):
            await self._send(half, route)

    def _refuse(self, item: Item, why: str, *, is_released: bool) -> None:
        """Retry a message that a broker rejects for what it is, and hold it in the end. Unless `is_released` it stays claimed."""
        self.counters.refusals += 1
        item.refusals += 1
        if is_released:
            self._store.release([item.ref])
        at = asyncio.get_running_loop().time() + REFUSAL_PAUSE_SECONDS * 2 ** (item.refusals - 1)
        if item.refusals < REFUSALS_MAX and self._lanes.retry_later(item, at):
            return
        logger.error("message %s is held after %d rejections: %s", message_id_of(item.data), item.refusals, why)
        self._store.act(RecordKind.REFUSED, [item.ref], self._clock.now_ms())
        self._committer.kick()
