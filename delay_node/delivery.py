"""Delivers due messages to live broker groups.

A message's way: the wheel gives its ref when it is due; a thread reads it; it waits in the *lane* of its subject, with its
bytes while the lane moves, as due time and ref (sixteen bytes) while no broker group of the subject can be used. Each broker
group forms its frames from the lanes in turn (`delay_node.lanes`), so no subject delays another by more than a round. Before a
frame leaves, its messages are *claimed* in the log: from then on they may have been delivered, so a cancel is answered
too_late, after a crash as well. What the broker stored is recorded as delivered. What it reports as not stored is pending again;
everything else, an answer without results included, stays claimed and is sent again. Retries pause longer and longer up to
`Backoff.longest`, and never end: only a message that brokers refuse for what it is, `REFUSALS_MAX` times, is put aside for an
operator.
"""

import asyncio
import heapq
import itertools
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from delay_node.lanes import FairQueue, Item, Lane, Verdict
from delay_node.records import RecordKind, State, hour_of
from delay_node.schedule_log import Entry, message_id_of
from delay_node.store import READ_BYTES_MAX, DelayStore
from delay_node.trusted_clock import TrustedClock
from qmq.daemon.committer import Committer
from qmq.errors import LogError, QmqError
from qmq.net.pool import Pool
from qmq.net.routing import WRITABLE, Breaker, usable
from qmq.net.session import MetaSession
from qmq.net.timing import Backoff
from qmq.protocol.codes import ClientType, Command, ResponseCode, SendResult
from qmq.protocol.commands import BrokerGroupRoute, SendFailure, decode_send_response
from qmq.protocol.names import is_subject_refusal
from qmq.supervisor import Supervisor

if TYPE_CHECKING:
    from random import Random

logger = logging.getLogger("qmq.delay.delivery")

FETCH_MESSAGES = 2_000
"""Due messages taken from the wheel, or from a lane's late ones, at a time."""
FETCH_RECENT_MESSAGES = FETCH_MESSAGES * 3 // 4
"""Of these, at most so many that have just fallen due while the wheel holds overdue ones."""
FRAMES_IN_FLIGHT = 5
"""Unanswered SENDs per broker group."""
LANE_FRAMES_IN_FLIGHT = 4
"""Unanswered SENDs per broker group that hold messages of the same lane: the last one is free for other lanes."""
FIRST_ROTATIONS = 1 << 16
"""A lane's first turn is drawn from so many: far more than a subject has broker groups, so that each is as likely."""
LANE_MESSAGES = 4_000
"""Messages of one subject with their bytes in memory."""
READY_BYTES_MAX = 64 << 20
"""Bytes of due messages in memory over all lanes; above it only refs are kept."""
LATE_AFTER_MS = 1_000
"""A message this much overdue counts as late; late ones go in the order of their due times."""
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
class Group:
    """A broker group as a destination."""

    name: str
    queue: FairQueue = field(default_factory=FairQueue)
    in_flight: int = 0
    """Unanswered SENDs."""

    def has_room(self, lane: Lane) -> bool:
        """Whether another frame with messages of the lane may leave."""
        return self.in_flight < FRAMES_IN_FLIGHT and lane.frames[self.name] < LANE_FRAMES_IN_FLIGHT


@dataclass(slots=True)
class DeliveryCounters:
    """Counts since start, for metrics."""

    batches: int = 0
    failed_batches: int = 0
    unknown: int = 0
    refusals: int = 0


class Delivery:
    """Delivers what falls due.

    Args:
        observe: called with the lateness in seconds of each delivered message: from its due time to the broker's answer.
        rng: chooses the broker group that a subject's turns begin with. A lane is removed when it is idle, so a subject with a
            message now and then would otherwise use the same broker group each time.
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
        rng: "Random",
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
        self._rng = rng
        self.lanes: dict[int, Lane] = {}
        self._groups: dict[str, Group] = {}
        self._to_refill: deque[Lane] = deque()
        """Lanes with room for bytes of their overdue messages; each gets its share, then goes to the end."""
        self._parked: list[tuple[float, int, int]] = []
        self._refused: list[tuple[float, int, Item]] = []
        self._tie = itertools.count()
        self._tasks: dict[asyncio.Task[None], None] = {}
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
            # Overdue messages in lanes get memory before those that the wheel still holds.
            has_more = await self._refill()
            has_more = await self._fetch() or has_more
            self._send_ready()
            if has_more:
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
        due = self._pop_due(now_ms - LATE_AFTER_MS, until_ms)
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
        lanes: dict[Lane, None] = {}
        for entry in entries:
            lane = self._lane(entry)
            if lane is None:
                continue
            lanes[lane] = None
            is_late = entry.due_ms < now_ms - LATE_AFTER_MS
            is_behind_others = is_late and (lane.late or lane.returned)
            if entry.data is None or lane.is_parked or lane.ready >= LANE_MESSAGES or is_behind_others:
                lane.late.add([(entry.due_ms, entry.ref)])
                continue
            queue = lane.old if is_late else lane.fresh
            queue.append(Item(entry.ref, entry.due_ms, entry.subject, entry.data))
            self._ready_bytes += len(entry.data)
        for lane in lanes:
            self._enqueue(lane)
        return len(due) == FETCH_MESSAGES

    def _pop_due(self, recent_ms: int, until_ms: int) -> list[tuple[int, int]]:
        """Due messages from the wheel; with a backlog in it those due since `recent_ms` first, but not only."""
        wheel = self._store.wheel
        oldest_ms = wheel.next_due_ms()
        recent: list[tuple[int, int]] = []
        if oldest_ms is not None and oldest_ms // 1000 < recent_ms // 1000:
            recent = wheel.pop_recent(recent_ms, until_ms, FETCH_RECENT_MESSAGES)
        return recent + wheel.pop(until_ms, FETCH_MESSAGES - len(recent))

    def _is_waiting(self, ref: int) -> bool:
        hour = self._store.hours.get(hour_of(ref))
        return hour is not None and hour.states is not None and self._store.state(ref) in (State.PENDING, State.CLAIMED)

    def _lane(self, entry: Entry) -> Lane | None:
        name = self._store.subject_name(entry.subject)
        if not name:
            self._store.found_damage([entry.ref])
            return None
        return self._lane_of(entry.subject)

    def _lane_of(self, subject: int) -> Lane:
        lane = self.lanes.get(subject)
        if lane is None:
            rotation = self._rng.randrange(FIRST_ROTATIONS)
            lane = self.lanes[subject] = Lane(subject, self._store.subject_name(subject), rotation=rotation)
        return lane

    def _enqueue(self, lane: Lane) -> None:
        """After a lane changed: have it served, have it refilled, or remove it when it is idle."""
        if lane.is_parked:
            return
        if lane.is_idle:
            self.lanes.pop(lane.subject, None)
            return
        if lane.ready:
            for route in self._routes(lane):
                if lane.frames[route.name] < LANE_FRAMES_IN_FLIGHT:
                    self._group(route.name).queue.add(lane)
        has_room = len(lane.old) < FETCH_MESSAGES // 2
        if (lane.late or lane.returned) and has_room and not lane.is_refilling:
            lane.is_refilling = True
            self._to_refill.append(lane)

    async def _refill(self) -> bool:
        """Read the bytes of lanes' overdue messages, a fair share for each lane; whether there may be more to read."""
        chosen: list[tuple[Lane, list[tuple[int, int]]]] = []
        room = FETCH_MESSAGES
        share = max(1, FETCH_MESSAGES // max(1, len(self._to_refill)))
        for _ in range(len(self._to_refill)):
            if room <= 0 or self._ready_bytes >= READY_BYTES_MAX:
                break
            lane = self._to_refill.popleft()
            if lane.is_parked or not self._routes(lane):
                lane.is_refilling = False
                continue
            if lane.returned:
                lane.late.add(sorted(lane.returned))
                lane.returned.clear()
            refs = lane.late.take(min(share, room))
            room -= len(refs)
            chosen.append((lane, [(due_ms, ref) for due_ms, ref in refs if self._is_waiting(ref)]))
        if not chosen:
            return False
        unread = dict.fromkeys(await self._read_late(chosen))
        # The lanes before these used up what one read may take: they are first next time.
        self._to_refill.extendleft(reversed(unread))
        for lane, _ in chosen:
            lane.is_refilling = lane in unread
            self._enqueue(lane)
        return bool(self._to_refill) and self._ready_bytes < READY_BYTES_MAX

    async def _read_late(self, chosen: list[tuple[Lane, list[tuple[int, int]]]]) -> list[Lane]:
        """Give lanes the bytes of these messages; the lanes of which no message was read for lack of room.

        When the disk fails, the lanes are read one by one, so that only those with unreadable messages are parked.
        """
        try:
            entries = await self._store.read([ref for _, refs in chosen for _, ref in refs])
        except LogError as error:
            if len(chosen) > 1:
                return [lane for one in chosen for lane in await self._read_late([one])]
            lane, refs = chosen[0]
            logger.error("%d late messages of %s can't be read: %s", len(refs), lane.name, error)
            lane.late.add(refs)
            self._park(lane, asyncio.get_running_loop().time() + READ_RETRY_SECONDS, str(error))
            return []
        unread: list[Lane] = []
        remaining = iter(entries)
        for lane, refs in chosen:
            mine = list(itertools.islice(remaining, len(refs)))
            if lane.is_parked:
                lane.returned += refs
                continue
            lane.late.add([(entry.due_ms, entry.ref) for entry in mine if entry.is_unread])
            if mine and mine[0].is_unread:
                unread.append(lane)
            for entry in mine:
                if entry.data is not None:
                    lane.old.append(Item(entry.ref, entry.due_ms, entry.subject, entry.data))
                    self._ready_bytes += len(entry.data)
                elif not entry.is_unread:
                    self._store.found_damage([entry.ref])
        return unread

    # --- lanes at rest ---------------------------------------------------------------------------------------------

    def _park(self, lane: Lane, until: float, problem: str) -> None:
        """No broker group can be used: bytes are let go, refs kept in due order."""
        lane.is_parked = True
        lane.problem = problem
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
                self._enqueue(lane)
        while self._refused and self._refused[0][0] <= now:
            item = heapq.heappop(self._refused)[2]
            self._refused_bytes -= len(item.data)
            lane = self._lane_of(item.subject)
            if lane.is_parked:
                lane.returned.append((item.due_ms, item.ref))
            else:
                lane.fresh.append(item)
                self._ready_bytes += len(item.data)
                self._enqueue(lane)

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
        """Form frames, one for each broker group in turn, and send them, as long as broker groups take more."""
        has_sent = True
        while has_sent:
            has_sent = False
            for group in list(self._groups.values()):
                if group.in_flight < FRAMES_IN_FLIGHT and group.queue:
                    has_sent = self._send_frame(group) or has_sent

    def _send_frame(self, group: Group) -> bool:
        """Send the group's next frame; whether there was one."""
        route: BrokerGroupRoute | None = None
        served: dict[Lane, None] = {}

        def judge(lane: Lane) -> Verdict:
            nonlocal route
            routes = self._routes(lane)
            mine = next((known for known in routes if known.name == group.name), None)
            if mine is None or not group.has_room(lane):
                return Verdict.LEAVE
            if len(routes) > 1 and (preferred := self._preferred(lane, routes)) is not group:
                if preferred.queue.add(lane):
                    self._wake.set()
                return Verdict.SKIP
            route = route or mine
            served[lane] = None
            return Verdict.SERVE

        items = group.queue.take(judge)
        if route is None or not items:
            if served:
                # Their turns are used up by large messages; the next pass gives them new ones.
                self._wake.set()
            return False
        self._ready_bytes -= sum(len(item.data) for item in items)
        subjects = {item.subject for item in items}
        lanes = [lane for lane in served if lane.subject in subjects]
        self._start(items, lanes, route, group)
        for lane in lanes:
            lane.rotation += 1
            lane.avoid = ""
            self._enqueue(lane)
        return True

    def _preferred(self, lane: Lane, routes: list[BrokerGroupRoute]) -> Group:
        """The broker group whose turn it is for a lane, of those with room; not where its last batch failed, if possible."""
        free = [group for route in routes if (group := self._group(route.name)).has_room(lane)]
        others = [group for group in free if group.name != lane.avoid] or free
        return others[lane.rotation % len(others)]

    def _group(self, name: str) -> Group:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(name)
        return group

    def _start(self, items: list[Item], lanes: list[Lane], route: BrokerGroupRoute, group: Group) -> None:
        group.in_flight += 1
        for lane in lanes:
            lane.frames[group.name] += 1
        task = self._supervisor.background("delivery_batch", self._send(items, route))
        self._tasks[task] = None

        def ended(done: "asyncio.Task[None]") -> None:
            self._tasks.pop(done, None)
            group.in_flight -= 1
            for lane in lanes:
                lane.frames[group.name] -= 1
                self._enqueue(lane)
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
        claimed = await self._claim(items)
        self.counters.batches += 1
        try:
            body = b"".join([item.data for item in items])
            frame = await caller.call(Command.SEND_MESSAGE, body, timeout_s=self._send_seconds)
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
        self._breaker.succeeded(route.name)
        self._sort_out(items, failures, route, loop.time(), claimed)

    async def _claim(self, items: list[Item]) -> set[int]:
        """Claim what is pending; the refs of these. They alone may be released: an older claim means an uncertain attempt."""
        fresh = [item.ref for item in items if self._store.state(item.ref) is State.PENDING]
        if not fresh:
            return set()
        await self._committer.synced(self._store.act(RecordKind.CLAIMED, fresh, self._clock.now_ms()))
        return set(fresh)

    def _sort_out(
        self,
        items: list[Item],
        failures: dict[str, SendFailure],
        route: BrokerGroupRoute,
        now: float,
        claimed: set[int],
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
                self._refuse(item, why, now, is_released=item.ref in claimed)
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
            self._store.release([item.ref for item in again if item.ref in claimed])
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
        """The broker failed on a batch. Halves find the message that it fails on.

        The answer does not say what was stored before the failure, so all of the batch stays claimed.
        """
        if len(items) == 1:
            self._refuse(items[0], f"{route.name} fails on it", asyncio.get_running_loop().time(), is_released=False)
            return
        middle = len(items) // 2
        for half in (items[:middle], items[middle:]):
            await self._send(half, route)

    def _refuse(self, item: Item, why: str, now: float, *, is_released: bool) -> None:
        """A broker refuses a message for what it is: retry later, then put it aside. Unless `is_released` it stays claimed."""
        self.counters.refusals += 1
        item.refusals += 1
        if is_released:
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
