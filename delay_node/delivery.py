"""Due messages to live broker groups: late ones first, fresh ones never starved, nobody's trouble anybody else's.

A message's way: the wheel gives its ref when it is due; a thread reads it; it waits in the *lane* of its subject, with its
bytes while the lane moves, as due time and ref (sixteen bytes) while no broker group of the subject can be used; batches of several
lanes go to one broker group as they came from the producer. Before a batch leaves, its messages are *claimed* in the log:
from then on they may have been delivered, so a cancel is told that it came too late, after a crash as well. What the broker
stored is recorded as delivered. What it surely did not store is pending again; what nobody knows stays claimed and is sent
again. Retries pause longer and longer up to `Backoff.longest`, and never end: only a message that brokers refuse for what it
is, `REFUSALS_MAX` times, is put aside for an operator.
"""

import asyncio
import heapq
import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from delay_node.late_queue import LateQueue
from delay_node.records import RecordKind, State, hour_of
from delay_node.schedule_log import Entry, message_id_of
from delay_node.store import READ_BYTES_MAX, DelayStore
from delay_node.trusted_clock import TrustedClock
from qmq.client.config import Backoff
from qmq.client.pool import Pool
from qmq.client.routing import WRITABLE, Breaker, usable
from qmq.client.session import MetaSession
from qmq.daemon.committer import Committer
from qmq.errors import LogError, QmqError
from qmq.protocol.codes import ClientType, Command, ResponseCode, SendResult
from qmq.protocol.commands import BrokerGroupRoute, SendFailure, decode_send_response
from qmq.protocol.names import is_subject_refusal
from qmq.supervisor import Supervisor

logger = logging.getLogger("qmq.delay.delivery")

FETCH_MESSAGES = 2_000
"""Due messages taken from the wheel, or from a lane's late ones, at a time."""
BATCH_MESSAGES = 500
BATCH_BYTES = 1 << 20
"""One SEND to a broker group holds at most this much."""
FRAMES_IN_FLIGHT = 4
"""Unanswered SENDs per broker group."""
LANE_MESSAGES = 4_000
"""Messages of one subject with their bytes in memory."""
READY_BYTES_MAX = 64 << 20
"""Bytes of due messages in memory over all lanes; above it only refs are kept."""
LATE_AFTER_MS = 1_000
"""A message this much overdue counts as late; late ones go in the order of their due times."""
LATE_SHARE = 0.75
"""Of a batch, at most this much is overdue backlog while fresh messages wait."""
SEND_SECONDS = 5.0
PASS_SECONDS = 0.004
"""Messages that fall due this close together share a claim, a sync and a frame."""
IDLE_SECONDS = 1.0
REFUSALS_MAX = 5
REFUSAL_PAUSE_SECONDS = 1.0
"""Before a refused message is tried again; doubled each time."""
REFUSED_WAITING_MAX = 10_000
REFUSED_BYTES_MAX = 32 << 20
"""Refused messages that wait for another try, and their bytes; further ones are put aside at once."""
READ_RETRY_SECONDS = 1.0

BACKOFF = Backoff()
SUBJECT_REFUSED_SECONDS = 1.0
"""How long a subject's messages rest that brokers refuse by policy: closed, or over its quota."""
_REFUSED = {SendResult.BLOCK, SendResult.SUBJECT_NOT_ASSIGNED}


@dataclass(eq=False, slots=True)
class Item:
    """A due message with its bytes."""

    ref: int
    due_ms: int
    subject: int
    data: bytes
    refusals: int = 0


@dataclass(eq=False, slots=True)
class Lane:
    """Due messages of one subject, in due order: `old` and `fresh` with their bytes, `late` without.

    `returned` holds (due time, ref) of those whose batch failed while the lane was parked, in no order.
    """

    subject: int
    name: str
    old: deque[Item] = field(default_factory=deque)
    fresh: deque[Item] = field(default_factory=deque)
    late: LateQueue = field(default_factory=LateQueue)
    returned: list[tuple[int, int]] = field(default_factory=list)
    parked_until: float = 0.0
    is_parked: bool = False
    turn: int = 0
    avoid: str = ""
    problem: str = ""

    @property
    def ready(self) -> int:
        """Messages with their bytes in memory."""
        return len(self.old) + len(self.fresh)

    @property
    def waiting(self) -> int:
        """All messages of the lane."""
        return len(self.old) + len(self.fresh) + len(self.late) + len(self.returned)

    def take(self, limit: int, bytes_max: int) -> list[Item]:
        """The next messages to send: late ones first, but not only."""
        taken: list[Item] = []
        size = 0
        for_late = limit if not self.fresh else max(1, int(limit * LATE_SHARE))
        for queue, most in ((self.old, for_late), (self.fresh, limit), (self.old, limit)):
            while queue and len(taken) < most and (not taken or size + len(queue[0].data) <= bytes_max):
                item = queue.popleft()
                size += len(item.data)
                taken.append(item)
        return taken


@dataclass(slots=True)
class DeliveryCounters:
    """Counts since start, for metrics."""

    batches: int = 0
    failed_batches: int = 0
    unknown: int = 0
    unreadable: int = 0
    refusals: int = 0


class Delivery:
    """Delivers what falls due.

    Args:
        observe: called with the lateness in seconds of each delivered message: from its due time to the broker's answer.
    """

    def __init__(
        self,
        store: DelayStore,
        committer: Committer,
        clock: TrustedClock,
        session: MetaSession,
        pool: Pool,
        supervisor: Supervisor,
        *,
        observe: Callable[[float], None],
        backoff: Backoff = BACKOFF,
        send_seconds: float = SEND_SECONDS,
    ) -> None:
        self._store = store
        self._committer = committer
        self._clock = clock
        self._session = session
        self._pool = pool
        self._supervisor = supervisor
        self._observe = observe
        self._breaker = Breaker(backoff)
        self._backoff = backoff
        self._send_seconds = send_seconds
        self.lanes: dict[int, Lane] = {}
        self._moving: dict[int, Lane] = {}
        """Lanes that are not parked: what each pass looks at."""
        self._parked: list[tuple[float, int, int]] = []
        self._refused: list[tuple[float, int, Item]] = []
        self._tie = itertools.count()
        self._in_flight: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ready_bytes = 0
        self._refused_bytes = 0
        self._wake = asyncio.Event()
        self._is_stopping = False
        self._failure: BaseException | None = None
        self.frontier_ms: int | None = None
        """Nothing due from here on is delivered yet: an hour that begins here is still being read."""
        self.counters = DeliveryCounters()
        self._next_at_ms: int | None = None

    # --- from outside ----------------------------------------------------------------------------------------------

    def due_soon(self, due_ms: int) -> None:
        """A message was added to the wheel."""
        if self._next_at_ms is None or due_ms < self._next_at_ms:
            self._wake.set()

    def wake(self) -> None:
        """Something changed: an hour was read, the clock was confirmed."""
        self._wake.set()

    def routes_changed(self, subject: str, client_type: int) -> None:
        """The metaserver told something about a subject."""
        number = self._store.subject_numbers.get(subject)
        lane = self.lanes.get(number) if number is not None else None
        if lane is not None and lane.is_parked:
            self._park_until(lane, 0.0)
            self._wake.set()

    @property
    def overdue(self) -> int:
        """Due messages that are not delivered, those on their way to a broker not counted."""
        return sum(lane.waiting for lane in self.lanes.values()) + len(self._refused)

    @property
    def memory_bytes(self) -> int:
        """Memory of due messages."""
        return self._ready_bytes + self._refused_bytes + sum(lane.late.memory_bytes for lane in self.lanes.values())

    @property
    def sending(self) -> int:
        """Batches on their way."""
        return len(self._tasks)

    def problems(self, limit: int = 20) -> list[dict[str, object]]:
        """Subjects whose messages can't be delivered now, and why."""
        parked = [lane for lane in self.lanes.values() if lane.is_parked and lane.waiting]
        parked.sort(key=lambda lane: -lane.waiting)
        return [{"subject": lane.name, "waiting": lane.waiting, "why": lane.problem} for lane in parked[:limit]]

    # --- the one task ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Deliver until `stop`."""
        loop = asyncio.get_running_loop()
        while not self._is_stopping:
            self._wake.clear()
            began = loop.time()
            if self._failure is not None:
                raise self._failure
            self._unpark(began)
            is_full = await self._fetch()
            await self._refill()
            self._send_ready()
            if is_full:
                await asyncio.sleep(0)
                continue
            await self._rest(began)

    async def _rest(self, began: float) -> None:
        """Wait for the next due time or for news; a little at least, so that neighbours share a batch."""
        loop = asyncio.get_running_loop()
        pause = began + PASS_SECONDS - loop.time()
        if pause > 0:
            await asyncio.sleep(pause)
        self._next_at_ms = self._store.wheel.next_due_ms()
        wait = IDLE_SECONDS
        if self._next_at_ms is not None and (self.frontier_ms is None or self._next_at_ms < self.frontier_ms):
            wait = min(wait, (self._next_at_ms - self._clock.now_ms()) / 1000)
        for heap in (self._parked, self._refused):
            if heap:
                wait = min(wait, heap[0][0] - loop.time())
        if wait <= 0:
            return
        try:
            async with asyncio.timeout(wait):
                await self._wake.wait()
        except TimeoutError:
            return

    async def stop(self, grace_seconds: float) -> None:
        """Start nothing new; wait for batches under way."""
        self._is_stopping = True
        self._wake.set()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=grace_seconds)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    # --- due messages into lanes -----------------------------------------------------------------------------------

    async def _fetch(self) -> bool:
        """Take due messages from the wheel into their lanes; whether there may be more."""
        now_ms = self._clock.now_ms()
        until_ms = now_ms if self.frontier_ms is None else min(now_ms, self.frontier_ms - 1)
        due = self._store.wheel.pop(until_ms, FETCH_MESSAGES)
        refs = [ref for _, ref in due if self._is_waiting(ref)]
        if not refs:
            return len(due) == FETCH_MESSAGES
        try:
            entries = await self._store.read(refs, min(READ_BYTES_MAX, max(0, READY_BYTES_MAX - self._ready_bytes)))
        except LogError as error:
            logger.error("%d due messages can't be read, tried again in %g s: %s", len(due), READ_RETRY_SECONDS, error)
            for due_ms, ref in due:
                self._store.wheel.add(due_ms, ref & 0xFFFFFFFF)
            await asyncio.sleep(READ_RETRY_SECONDS)
            return False
        for entry in entries:
            lane = self._lane(entry)
            if lane is None:
                continue
            is_late = entry.due_ms < now_ms - LATE_AFTER_MS
            is_behind_others = is_late and (lane.late or lane.returned)
            if entry.data is None or lane.is_parked or lane.ready >= LANE_MESSAGES or is_behind_others:
                lane.late.add([(entry.due_ms, entry.ref)])
                continue
            queue = lane.old if is_late else lane.fresh
            queue.append(Item(entry.ref, entry.due_ms, entry.subject, entry.data))
            self._ready_bytes += len(entry.data)
        return len(due) == FETCH_MESSAGES

    def _is_waiting(self, ref: int) -> bool:
        hour = self._store.hours.get(hour_of(ref))
        return hour is not None and hour.states is not None and self._store.state(ref) in (State.PENDING, State.CLAIMED)

    def _lane(self, entry: Entry) -> Lane | None:
        name = self._store.subject_name(entry.subject)
        if not name:
            self._unreadable(entry.ref)
            return None
        return self._lane_of(entry.subject)

    def _lane_of(self, subject: int) -> Lane:
        lane = self.lanes.get(subject)
        if lane is None:
            lane = self.lanes[subject] = self._moving[subject] = Lane(subject, self._store.subject_name(subject))
        return lane

    def _unreadable(self, ref: int) -> None:
        self.counters.unreadable += 1
        hour = hour_of(ref)
        logger.error("hour %d: message %d fails its checks and can't be delivered", hour, ref & 0xFFFFFFFF)

    async def _refill(self) -> None:
        """Lanes that move get bytes for their late messages."""
        for lane in list(self._moving.values()):
            if not lane.waiting:
                del self.lanes[lane.subject], self._moving[lane.subject]
                continue
            if lane.returned:
                lane.late.add(sorted(lane.returned))
                lane.returned.clear()
            if not lane.late or len(lane.old) >= FETCH_MESSAGES // 2:
                continue
            if self._ready_bytes >= READY_BYTES_MAX:
                return
            if not self._routes(lane):
                continue
            late = [(due_ms, ref) for due_ms, ref in lane.late.take(FETCH_MESSAGES) if self._is_waiting(ref)]
            try:
                entries = await self._store.read([ref for _, ref in late])
            except LogError as error:
                logger.error("%d late messages of %s can't be read: %s", len(late), lane.name, error)
                lane.late.add(late)
                self._park(lane, asyncio.get_running_loop().time() + READ_RETRY_SECONDS, str(error))
                continue
            lane.late.add([(entry.due_ms, entry.ref) for entry in entries if entry.is_unread])
            for entry in entries:
                if entry.data is None:
                    if not entry.is_unread:
                        self._unreadable(entry.ref)
                else:
                    lane.old.append(Item(entry.ref, entry.due_ms, entry.subject, entry.data))
                    self._ready_bytes += len(entry.data)

    # --- lanes at rest ---------------------------------------------------------------------------------------------

    def _park(self, lane: Lane, until: float, problem: str) -> None:
        """No broker group can be used: bytes are let go, refs kept in due order."""
        lane.is_parked = True
        lane.problem = problem
        self._moving.pop(lane.subject, None)
        lane.returned += [(item.due_ms, item.ref) for item in lane.old]
        lane.late.add([(item.due_ms, item.ref) for item in lane.fresh])
        self._ready_bytes -= sum(len(item.data) for queue in (lane.old, lane.fresh) for item in queue)
        lane.old.clear()
        lane.fresh.clear()
        self._park_until(lane, until)

    def _park_until(self, lane: Lane, until: float) -> None:
        lane.parked_until = until
        heapq.heappush(self._parked, (until, next(self._tie), lane.subject))

    def _unpark(self, now: float) -> None:
        while self._parked and self._parked[0][0] <= now:
            lane = self.lanes.get(heapq.heappop(self._parked)[2])
            if lane is not None and lane.is_parked and lane.parked_until <= now:
                lane.is_parked = False
                self._moving[lane.subject] = lane
        while self._refused and self._refused[0][0] <= now:
            item = heapq.heappop(self._refused)[2]
            self._refused_bytes -= len(item.data)
            lane = self._lane_of(item.subject)
            if lane.is_parked:
                lane.returned.append((item.due_ms, item.ref))
            else:
                lane.fresh.append(item)
                self._ready_bytes += len(item.data)

    def _routes(self, lane: Lane) -> list[BrokerGroupRoute]:
        """Broker groups of the lane's subject that may be tried now; without any the lane is parked."""
        now = asyncio.get_running_loop().time()
        known = usable(self._session.routes(lane.name, ClientType.PRODUCER), WRITABLE)
        if not known:
            self._session.register(lane.name, ClientType.PRODUCER)
            self._session.refresh(lane.name, ClientType.PRODUCER)
            why = self._session.last_error or "no broker group of the subject is known to be writable"
            self._park(lane, now + IDLE_SECONDS, why)
            return []
        fine = [route for route in known if not self._breaker.is_open(route.name, now)]
        if not fine:
            soonest = min(self._breaker.closes_at(route.name) for route in known)
            self._park(lane, soonest, lane.problem or "the broker groups of the subject fail")
            return []
        return fine

    # --- batches ---------------------------------------------------------------------------------------------------

    def _send_ready(self) -> None:
        """Form batches from the lanes in turn, and send them, as long as broker groups take more."""
        while True:
            batches: dict[str, tuple[BrokerGroupRoute, list[Item]]] = {}
            for lane in list(self._moving.values()):
                if not lane.ready:
                    continue
                free = [route for route in self._routes(lane) if self._has_room(route, batches)]
                others = [route for route in free if route.name != lane.avoid] or free
                if not others:
                    continue
                lane.turn += 1
                route = others[lane.turn % len(others)]
                batch = batches.setdefault(route.name, (route, []))[1]
                size = sum(len(item.data) for item in batch)
                taken = lane.take(BATCH_MESSAGES - len(batch), max(1, BATCH_BYTES - size))
                self._ready_bytes -= sum(len(item.data) for item in taken)
                batch.extend(taken)
            if not batches:
                return
            for route, items in batches.values():
                self._start(items, route)

    def _has_room(self, route: BrokerGroupRoute, batches: dict[str, tuple[BrokerGroupRoute, list[Item]]]) -> bool:
        if self._in_flight.get(route.name, 0) >= FRAMES_IN_FLIGHT:
            return False
        batch = batches.get(route.name)
        if batch is None:
            return True
        return len(batch[1]) < BATCH_MESSAGES and sum(len(item.data) for item in batch[1]) < BATCH_BYTES

    def _start(self, items: list[Item], route: BrokerGroupRoute) -> None:
        self._in_flight[route.name] = self._in_flight.get(route.name, 0) + 1
        task = self._supervisor.background("delivery_batch", self._send(items, route))
        self._tasks.add(task)

        def ended(done: "asyncio.Task[None]") -> None:
            self._tasks.discard(done)
            self._in_flight[route.name] -= 1
            if not done.cancelled() and done.exception() is not None:
                self._failure = done.exception()
            self._wake.set()

        task.add_done_callback(ended)

    async def _send(self, items: list[Item], route: BrokerGroupRoute) -> None:
        """One batch to one broker group."""
        loop = asyncio.get_running_loop()
        try:
            caller = await self._pool.get(route.master)
        except QmqError as error:
            # Nothing left this node, nothing was claimed.
            self._failed(items, route, str(error))
            return
        items = [item for item in items if self._is_waiting(item.ref)]
        if not items:
            return
        await self._claim(items)
        self.counters.batches += 1
        try:
            body = b"".join([item.data for item in items])
            frame = await caller.call(Command.SEND_MESSAGE, body, timeout_s=self._send_seconds)
            if frame.code == ResponseCode.BROKER_ERROR:
                await self._refused_whole(items, route)
                return
            if frame.code != ResponseCode.SUCCESS:
                self._store.release([item.ref for item in items])
                self._failed(items, route, f"{route.name} answered code {frame.code}")
                return
            failures = decode_send_response(frame.body)
        except QmqError as error:
            self.counters.unknown += len(items)
            self._failed(items, route, str(error))
            return
        self._breaker.succeeded(route.name)
        self._sort_out(items, failures, route, loop.time())

    async def _claim(self, items: list[Item]) -> None:
        fresh = [item.ref for item in items if self._store.state(item.ref) is State.PENDING]
        if not fresh:
            return
        offset = self._store.act(RecordKind.CLAIMED, fresh, self._clock.now_ms())
        synced = asyncio.get_running_loop().create_future()
        self._committer.when_synced(offset, lambda: synced.set_result(None) if not synced.done() else None)
        await synced

    def _sort_out(
        self, items: list[Item], failures: dict[str, SendFailure], route: BrokerGroupRoute, now: float
    ) -> None:
        """What the broker said of each message."""
        again: list[Item] = []
        stored: list[Item] = []
        problem = ""
        is_group_fine = True
        for item in items:
            failure = failures.get(message_id_of(item.data)) if failures else None
            if failure is None or failure.result == SendResult.MESSAGE_DUPLICATE:
                stored.append(item)
            elif failure.result in _REFUSED:
                self._refuse(item, f"{route.name}: {failure.remark or 'refused'} (result {failure.result})", now)
            else:
                problem = f"{route.name}: {failure.remark or 'not stored'} (result {failure.result})"
                is_group_fine = is_group_fine and is_subject_refusal(failure.remark)
                again.append(item)
        if stored:
            now_ms = self._clock.now_ms()
            self._store.act(RecordKind.DELIVERED, [item.ref for item in stored], now_ms)
            self._committer.kick()
            for item in stored:
                self._observe(max(0, now_ms - item.due_ms) / 1000)
        if again:
            self._store.release([item.ref for item in again])
            self._failed(again, route, problem, is_group_fine=is_group_fine)

    def _failed(
        self, items: Iterable[Item], route: BrokerGroupRoute, problem: str, *, is_group_fine: bool = False
    ) -> None:
        """The broker group did not take these: they go back to the front of their lanes, and the group rests a while.

        When it refuses them for their subjects' policy (`is_group_fine`), those lanes rest instead: other subjects are taken.
        """
        now = asyncio.get_running_loop().time()
        self.counters.failed_batches += 1
        if not is_group_fine:
            self._breaker.failed(route.name, now)
        by_subject: dict[int, list[Item]] = {}
        for item in items:
            by_subject.setdefault(item.subject, []).append(item)
        for subject, mine in by_subject.items():
            lane = self._lane_of(subject)
            lane.problem, lane.avoid = problem, route.name
            self._session.refresh(lane.name, ClientType.PRODUCER)
            if lane.is_parked:
                lane.returned += [(item.due_ms, item.ref) for item in mine]
            else:
                lane.old = deque(sorted((*mine, *lane.old), key=lambda item: item.due_ms))
                self._ready_bytes += sum(len(item.data) for item in mine)
                if is_group_fine:
                    self._park(lane, now + SUBJECT_REFUSED_SECONDS, problem)

    async def _refused_whole(self, items: list[Item], route: BrokerGroupRoute) -> None:
        """The broker could not read a batch: nothing of it is stored. Halves find the message that it stumbles over."""
        self._store.release([item.ref for item in items])
        if len(items) == 1:
            self._refuse(items[0], f"{route.name} can't read it", asyncio.get_running_loop().time())
            return
        middle = len(items) // 2
        for half in (items[:middle], items[middle:]):
            await self._send(half, route)

    def _refuse(self, item: Item, why: str, now: float) -> None:
        """A broker refuses a message for what it is."""
        self.counters.refusals += 1
        item.refusals += 1
        self._store.release([item.ref])
        has_room = len(self._refused) < REFUSED_WAITING_MAX and self._refused_bytes < REFUSED_BYTES_MAX
        if item.refusals < REFUSALS_MAX and has_room:
            self._refused_bytes += len(item.data)
            at = now + REFUSAL_PAUSE_SECONDS * 2 ** (item.refusals - 1)
            heapq.heappush(self._refused, (at, next(self._tie), item))
            return
        logger.error("message %s is put aside after %d refusals: %s", message_id_of(item.data), item.refusals, why)
        self._store.act(RecordKind.REFUSED, [item.ref], self._clock.now_ms())
        self._committer.kick()
