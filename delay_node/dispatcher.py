"""class Dispatcher: delivers due messages to the broker groups of their subjects.

A due message is taken from the wheel, read in a thread, and added to the *lane* of its subject: with its body while the lane moves,
as due time and ref (sixteen bytes) while no broker group of the subject can be used. Each broker group forms its frames from the
lanes by deficit round robin (`lanes.py`), so no subject delays another by more than a round. Retries pause longer and longer up to
`Backoff.longest`, and never end.
"""

import asyncio
import itertools
import logging
from contextlib import suppress

from delay_node.batches import BatchSender
from delay_node.due_lanes import BrokerGroupQueue, DueLanes
from delay_node.hour_reader import READ_BYTES_MAX
from delay_node.lanes import Lane, Verdict
from delay_node.store import DelayStore
from delay_node.trusted_clock import TrustedClock
from qmq.errors import LogError
from qmq.protocol.commands import BrokerGroupRoute

logger = logging.getLogger("qmq.delay.dispatcher")

FETCH_MESSAGES = 2_000
"""Due messages taken from the wheel, or from lanes' overdue ones, in one pass."""
FETCH_RECENT_MESSAGES = FETCH_MESSAGES * 3 // 4
"""Of these, the most that have just fallen due while the wheel holds overdue ones."""
REFILLED_LANES_MAX = 500
"""Lanes that get bodies of overdue messages in one pass."""
READY_BYTES_MAX = 64 << 20
"""Bodies of due messages in memory over all lanes; above it only refs are kept."""
SLICE_MESSAGES = 500
"""Messages put into frames before other work of the event loop has its turn."""
LATE_AFTER_MS = 1_000
"""A message this much overdue counts as late; late ones leave in the order of their due times."""
PASS_SECONDS = 0.004
"""Messages that fall due this close together share a claim, a sync and a frame."""
IDLE_SECONDS = 1.0
DUE_SOON_MS = 60_000
READ_RETRY_SECONDS = 1.0


class Dispatcher:
    """Delivers what falls due. `lanes` are those of `sender`."""

    def __init__(self, store: DelayStore, clock: TrustedClock, lanes: DueLanes, sender: BatchSender) -> None:
        self._store = store
        self._clock = clock
        self.lanes = lanes
        self.sender = sender
        self._wake = asyncio.Event()
        sender.on_end = self._wake.set
        self._is_stopping = False
        self.is_held = False
        """Whether nothing is claimed: the master is about to change."""
        self.frontier_ms: int | None = None
        """Nothing due from here on is delivered yet: an hour that begins here is still being read."""
        self._next_at_ms: int | None = None
        self._former_masters: dict[str, None] = {}
        """Addresses whose broker groups have another master, until the next pass."""

    def due_added(self, due_ms: int) -> None:
        """Continue in time for a message that was added to the wheel."""
        if self._next_at_ms is None or due_ms < self._next_at_ms:
            self._wake.set()

    def wake(self) -> None:
        """Continue after a change: an hour was read, the clock was confirmed, a batch ended."""
        self._wake.set()

    def master_changed(self, subject: str, client_type: int, former: str) -> None:
        """A broker group has another master: send what is in flight to the former one again. It may hang, and never answer."""
        # Not here: answers that arrived before are read first.
        self._former_masters[former] = None
        self._wake.set()

    def routes_changed(self, subject: str, client_type: int) -> None:
        """Use the routes that the metaserver sent."""
        number = self._store.subjects.find(subject)
        if number is not None and self.lanes.routes_changed(number):
            self._wake.set()

    @property
    def due_soon(self) -> int:
        """Messages due within the next minute, by whole seconds; overdue ones included."""
        return self._store.wheel.due_before(self._clock.now_ms() + DUE_SOON_MS) + self.lanes.overdue

    async def run(self) -> None:
        """Deliver until `stop`."""
        loop = asyncio.get_running_loop()
        while not self._is_stopping:
            self._wake.clear()
            began = loop.time()
            if self.sender.failure is not None:
                raise self.sender.failure
            while self._former_masters:
                self.sender.disconnect(self._former_masters.popitem()[0])
            has_more = self.lanes.resume(began)
            # Overdue messages in lanes get memory before those that the wheel still holds.
            has_more = await self._refill() or has_more
            has_more = await self._fetch() or has_more
            await self._send_ready()
            if has_more:
                await asyncio.sleep(0)
                continue
            await self._rest(began)

    async def _rest(self, began: float) -> None:
        """Wait for the next due time or for a change; PASS_SECONDS at least, so that neighbours share a batch."""
        loop = asyncio.get_running_loop()
        pause = began + PASS_SECONDS - loop.time()
        if pause > 0:
            await asyncio.sleep(pause)
        self._next_at_ms = self._store.wheel.next_due_ms()
        wait = IDLE_SECONDS
        if self._next_at_ms is not None and (self.frontier_ms is None or self._next_at_ms < self.frontier_ms):
            wait = min(wait, (self._next_at_ms - self._clock.now_ms()) / 1000)
        next_at = self.lanes.next_at
        if next_at is not None:
            wait = min(wait, next_at - loop.time())
        if wait > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()

    async def stop(self, grace_seconds: float) -> None:
        """Start nothing new; wait for batches under way."""
        self._is_stopping = True
        self._wake.set()
        await self.sender.stop(grace_seconds)

    async def _fetch(self) -> bool:
        """Take due messages from the wheel into their lanes; return whether there may be more."""
        now_ms = self._clock.now_ms()
        until_ms = now_ms if self.frontier_ms is None else min(now_ms, self.frontier_ms - 1)
        due = self._pop_due(now_ms - LATE_AFTER_MS, until_ms)
        refs = [ref for _, ref in due if self.sender.is_waiting(ref)]
        if not refs:
            return len(due) == FETCH_MESSAGES
        bytes_max = min(READ_BYTES_MAX, max(0, READY_BYTES_MAX - self.lanes.ready_bytes))
        try:
            entries = await self._store.bodies.read(refs, bytes_max)
        except LogError as error:
            logger.error("%d due messages can't be read, retried in %g s: %s", len(due), READ_RETRY_SECONDS, error)
            for due_ms, ref in due:
                self._store.wheel.add(due_ms, ref & 0xFFFFFFFF)
            await asyncio.sleep(READ_RETRY_SECONDS)
            return False
        lanes: dict[Lane, None] = {}
        for entry in entries:
            if entry.due_ms >= 0 and not self._store.subjects.name(entry.subject):
                self._store.bodies.found_damage([entry.ref])
                self._store.skip(entry)
                continue
            if entry.data is None and not entry.is_unread:
                self._store.skip(entry)
                continue
            lane = self.lanes.lane(entry.subject)
            lanes[lane] = None
            self.lanes.add(lane, entry, is_late=entry.due_ms < now_ms - LATE_AFTER_MS)
        now = asyncio.get_running_loop().time()
        for lane in lanes:
            self.lanes.enqueue(lane, now)
        return len(due) == FETCH_MESSAGES

    def _pop_due(self, recent_ms: int, until_ms: int) -> list[tuple[int, int]]:
        """Take due messages from the wheel; with a backlog in it those due since `recent_ms` first, but not only."""
        wheel = self._store.wheel
        oldest_ms = wheel.next_due_ms()
        recent: list[tuple[int, int]] = []
        if oldest_ms is not None and oldest_ms // 1000 < recent_ms // 1000:
            recent = wheel.pop_recent(recent_ms, until_ms, FETCH_RECENT_MESSAGES)
        return recent + wheel.pop(until_ms, FETCH_MESSAGES - len(recent))

    async def _refill(self) -> bool:
        """Read bodies of lanes' overdue messages, a fair share for each lane; return whether there may be more to read."""
        lanes, queue = self.lanes, self.lanes.to_refill
        now = asyncio.get_running_loop().time()
        chosen: list[tuple[Lane, list[tuple[int, int]]]] = []
        count = min(len(queue), REFILLED_LANES_MAX)
        for _ in range(count):
            if lanes.ready_bytes >= READY_BYTES_MAX:
                break
            lane = queue.popleft()
            if lane.is_parked or not lanes.routes(lane, now):
                lane.is_refilling = False
                continue
            refs = lane.late.take(max(1, FETCH_MESSAGES // count))
            waiting = [(due_ms, ref) for due_ms, ref in refs if self.sender.is_waiting(ref)]
            lanes.drop(len(refs) - len(waiting))
            chosen.append((lane, waiting))
        if not chosen:
            return bool(queue) and lanes.ready_bytes < READY_BYTES_MAX
        unread = dict.fromkeys(await self._read_late(chosen))
        # The lanes before these used up what one read may take: they are first next time.
        queue.extendleft(reversed(unread))
        now = asyncio.get_running_loop().time()
        for lane, _ in chosen:
            lane.is_refilling = lane in unread
            lanes.enqueue(lane, now)
        return bool(queue) and lanes.ready_bytes < READY_BYTES_MAX

    async def _read_late(self, chosen: list[tuple[Lane, list[tuple[int, int]]]]) -> list[Lane]:
        """Give lanes the bodies of these messages; return the lanes of which no message was read for lack of room.

        When the disk fails, the lanes are read one by one, so that only those with unreadable messages are parked.
        """
        try:
            entries = iter(await self._store.bodies.read([ref for _, refs in chosen for _, ref in refs]))
        except LogError as error:
            if len(chosen) > 1:
                return [lane for one in chosen for lane in await self._read_late([one])]
            lane, refs = chosen[0]
            logger.error("%d overdue messages of %s can't be read: %s", len(refs), lane.name, error)
            lane.late.add(refs)
            self.lanes.park(lane, asyncio.get_running_loop().time() + READ_RETRY_SECONDS, str(error))
            return []
        unread: list[Lane] = []
        for lane, refs in chosen:
            mine = list(itertools.islice(entries, len(refs)))
            for entry in self.lanes.refill(lane, refs, mine):
                self._store.skip(entry)
            if mine and mine[0].is_unread and not lane.is_parked:
                unread.append(lane)
        return unread

    async def _send_ready(self) -> None:
        """Form frames, one for each broker group in turn, and send them, as long as broker groups accept more."""
        sent, has_sent = 0, not self.is_held
        while has_sent:
            has_sent = False
            for group in list(self.lanes.groups.values()):
                if group.may_send and group.queue and (formed := self._send_frame(group)):
                    sent, has_sent = sent + formed, True
                    if sent >= SLICE_MESSAGES:
                        sent = 0
                        await asyncio.sleep(0)

    def _send_frame(self, group: BrokerGroupQueue) -> int:
        """Send the group's next frame; return its number of messages."""
        lanes, now = self.lanes, asyncio.get_running_loop().time()
        route: BrokerGroupRoute | None = None
        served: dict[Lane, None] = {}

        def judge(lane: Lane) -> Verdict:
            nonlocal route
            routes = lanes.routes(lane, now)
            mine = next((known for known in routes if known.name == group.name), None)
            if mine is None or not group.has_room(lane) or (lane.is_probing and lane in served):
                return Verdict.LEAVE
            if len(routes) > 1 and (preferred := lanes.preferred(lane, routes)) is not group:
                if preferred.queue.add(lane):
                    self._wake.set()
                return Verdict.SKIP
            route = route or mine
            served[lane] = None
            return Verdict.PROBE if lane.is_probing or group.is_probing else Verdict.SERVE

        items = group.queue.take_probe(judge, group.rejections) if group.is_probing else group.queue.take(judge)
        if route is None or not items:
            if served:
                # Their turns are used up by large messages; the next pass gives them new ones.
                self._wake.set()
            return 0
        lanes.taken(items)
        subjects = {item.subject for item in items}
        of_frame = [lane for lane in served if lane.subject in subjects]
        self.sender.start(items, of_frame, route, group)
        for lane in of_frame:
            lane.rotation += 1
            lane.avoid = ""
            lanes.enqueue(lane, now)
        return len(items)
