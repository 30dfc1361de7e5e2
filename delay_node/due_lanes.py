"""The lanes of all subjects with due messages, the memory that they take, and the broker groups that they are sent to."""

import heapq
import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from delay_node.lanes import FairQueue, Item, Lane
from delay_node.schedule_log import Entry
from delay_node.store import Subjects
from qmq.net.routing import WRITABLE, Breaker, usable
from qmq.net.session import MetaSession
from qmq.net.timing import Backoff
from qmq.protocol.codes import ClientType
from qmq.protocol.commands import BrokerGroupRoute

if TYPE_CHECKING:
    from random import Random

FRAMES_IN_FLIGHT = 5
"""Unanswered SENDs per broker group."""
LANE_FRAMES_IN_FLIGHT = 4
"""Unanswered SENDs per broker group that hold messages of the same lane: the last one is free for other lanes."""
NO_ROUTE_SECONDS = 1.0
"""Pause of a subject without a writable broker group."""


@dataclass(eq=False, slots=True)
class BrokerGroupQueue:
    """A broker group with the lanes that have messages for it."""

    name: str
    queue: FairQueue = field(default_factory=FairQueue)
    in_flight: int = 0
    """Unanswered SENDs."""
    rejections: int = 0
    """Frames in a row that failed, or were rejected for no reason of their own."""

    @property
    def is_probing(self) -> bool:
        """Whether one message is sent at a time, until the broker group stores one."""
        return self.rejections > 0

    @property
    def may_send(self) -> bool:
        """Whether another frame may leave."""
        return self.in_flight < (1 if self.is_probing else FRAMES_IN_FLIGHT)

    def has_room(self, lane: Lane) -> bool:
        """Whether another frame with messages of the lane may leave."""
        if lane.is_probing and lane.frames.total():
            return False
        return self.may_send and lane.frames[self.name] < LANE_FRAMES_IN_FLIGHT


FIRST_ROTATIONS = 1 << 16
"""A lane's first rotation is drawn from this range: far more than a subject has broker groups, so that each is as likely."""
LANE_MESSAGES = 4_000
"""Messages of one subject with their bodies in memory."""
LANE_OVERDUE_MESSAGES = 1_000
"""A lane with fewer overdue messages with bodies in memory gets further ones."""
REFUSED_WAITING_MAX = 10_000
REFUSED_BYTES_MAX = 32 << 20
"""Rejected messages that wait for another try, and their bytes; further ones are held at once."""
RESUMED_MAX = 500
"""Lanes resumed in one pass: when broker groups return, all subjects are due at the same moment."""
PROBLEM_LANES_MAX = 10_000
"""Parked lanes of which `problems` returns the largest."""


class DueLanes:
    """A lane is *parked* while none of its broker groups can be used: its messages wait as due times and refs, without bodies.

    `rng` chooses the broker group that a lane begins with: idle lanes are removed, and would use the same one each time.
    """

    def __init__(self, subjects: Subjects, session: MetaSession, rng: "Random") -> None:
        self._subjects = subjects
        self._session = session
        self.breaker = Breaker(Backoff())
        self.groups: dict[str, BrokerGroupQueue] = {}
        self._rng = rng
        self.by_subject: dict[int, Lane] = {}
        self.to_refill: deque[Lane] = deque()
        """Lanes with room for bodies of their overdue messages; each gets its share, then goes to the end."""
        self.ready_bytes = 0
        """Bodies of due messages in memory."""
        self._waiting = 0
        self._parked_lanes: dict[Lane, None] = {}
        self._parked: list[tuple[float, int, Lane]] = []
        self._refused: list[tuple[float, int, Item]] = []
        self._refused_bytes = 0
        self._tie = itertools.count()

    @property
    def overdue(self) -> int:
        """Due messages that are not delivered, without those in unanswered frames."""
        return self._waiting + len(self._refused)

    @property
    def next_at(self) -> float | None:
        """When the next lane or rejected message is tried again."""
        return min((heap[0][0] for heap in (self._parked, self._refused) if heap), default=None)

    def problems(self, limit: int) -> list[dict[str, Any]]:
        """Return subjects whose messages can't be delivered now, with the reasons."""
        lanes = [lane for lane in itertools.islice(self._parked_lanes, PROBLEM_LANES_MAX) if lane.waiting]
        largest = heapq.nlargest(limit, lanes, key=lambda lane: lane.waiting)
        return [{"subject": lane.name, "waiting": lane.waiting, "why": lane.problem} for lane in largest]

    def lane(self, subject: int) -> Lane:
        """Return the lane of a subject, created when the subject had no due messages."""
        lane = self.by_subject.get(subject)
        if lane is None:
            rotation = self._rng.randrange(FIRST_ROTATIONS)
            lane = self.by_subject[subject] = Lane(subject, self._subjects.name(subject), rotation=rotation)
        return lane

    def add(self, lane: Lane, entry: Entry, *, is_late: bool) -> None:
        """Add a due message: with its body if the lane has room for it."""
        self._waiting += 1
        if entry.data is None or lane.is_parked or lane.ready >= LANE_MESSAGES or (is_late and lane.late):
            lane.late.add([(entry.due_ms, entry.ref)])
        else:
            item = Item(entry.ref, entry.due_ms, entry.subject, entry.data)
            self._load(lane.old if is_late else lane.fresh, item)

    def _load(self, queue: deque[Item], item: Item) -> None:
        queue.append(item)
        self.ready_bytes += len(item.data)

    def drop(self, count: int) -> None:
        """Account for messages that need no delivery any more, or that can't be read."""
        self._waiting -= count

    def refill(self, lane: Lane, refs: Sequence[tuple[int, int]], entries: Sequence[Entry]) -> list[Entry]:
        """Give a lane bodies of messages that were taken from its `late`; return corrupted ones, which are dropped."""
        dropped: list[Entry] = []
        if lane.is_parked:
            lane.late.add(refs)
            return dropped
        lane.late.add([(entry.due_ms, entry.ref) for entry in entries if entry.is_unread])
        for entry in entries:
            if entry.data is not None:
                self._load(lane.old, Item(entry.ref, entry.due_ms, entry.subject, entry.data))
            elif not entry.is_unread:
                dropped.append(entry)
        self.drop(len(dropped))
        return dropped

    def taken(self, items: Sequence[Item]) -> None:
        """Account for messages that leave in a frame."""
        self.ready_bytes -= sum(len(item.data) for item in items)
        self._waiting -= len(items)

    def failed(self, route: BrokerGroupRoute, now: float) -> None:
        """A broker group failed, or rejects everything: pause it, then probe with one message."""
        self.breaker.failed(route.master, now)
        self.group(route.name).rejections += 1

    def succeeded(self, route: BrokerGroupRoute, stored: Sequence[Item]) -> None:
        """A broker group accepts messages, and stored these."""
        self.breaker.succeeded(route.master)
        self.group(route.name).rejections = 0
        for subject in {item.subject for item in stored}:
            self.lane(subject).rejections = 0

    def return_failed(self, items: Sequence[Item], avoid: str, problem: str, now: float, pause: float) -> None:
        """Put messages of a failed batch to the front of their lanes. With a `pause` in seconds the lanes failed, and not the
        broker group: they are parked, then probe with one message."""
        by_subject: dict[int, list[Item]] = {}
        for item in items:
            by_subject.setdefault(item.subject, []).append(item)
        for subject, mine in by_subject.items():
            lane = self.lane(subject)
            lane.problem, lane.avoid = problem, avoid
            lane.rejections += pause > 0
            self._session.refresh(lane.name, ClientType.PRODUCER)
            self._waiting += len(mine)
            if lane.is_parked:
                lane.late.add([(item.due_ms, item.ref) for item in mine])
                continue
            lane.old = deque(sorted((*mine, *lane.old), key=lambda item: item.due_ms))
            self.ready_bytes += sum(len(item.data) for item in mine)
            if pause:
                self.park(lane, now + pause, problem)

    def retry_later(self, item: Item, at: float) -> bool:
        """Keep a rejected message for another try; False when there is no room for it."""
        if len(self._refused) >= REFUSED_WAITING_MAX or self._refused_bytes >= REFUSED_BYTES_MAX:
            return False
        self._refused_bytes += len(item.data)
        heapq.heappush(self._refused, (at, next(self._tie), item))
        return True

    def routes(self, lane: Lane, now: float) -> list[BrokerGroupRoute]:
        """Return the broker groups of the lane's subject that may be tried now; without any it is parked."""
        session, breaker = self._session, self.breaker
        if not lane.routes:
            lane.routes = usable(session.routes(lane.name, ClientType.PRODUCER), WRITABLE)
        routes = [route for route in lane.routes if not breaker.is_open(route.master, now)]
        if lane.routes and not routes:
            soonest = min(breaker.closes_at(route.master) for route in lane.routes)
            self.park(lane, soonest, lane.problem or "the broker groups of the subject fail")
        elif not routes:
            session.register(lane.name, ClientType.PRODUCER)
            session.refresh(lane.name, ClientType.PRODUCER)
            why = session.last_error or "no broker group of the subject is known to be writable"
            self.park(lane, now + NO_ROUTE_SECONDS, why)
        return routes

    def group(self, name: str) -> BrokerGroupQueue:
        """Return a broker group, created when it is new."""
        return self.groups.get(name) or self.groups.setdefault(name, BrokerGroupQueue(name))

    def preferred(self, lane: Lane, routes: list[BrokerGroupRoute]) -> BrokerGroupQueue:
        """Return the next broker group for a lane, of those with room; not the one where its last batch failed, if possible."""
        free = [group for route in routes if (group := self.group(route.name)).has_room(lane)]
        others = [group for group in free if group.name != lane.avoid] or free
        return others[lane.rotation % len(others)]

    def enqueue(self, lane: Lane, now: float) -> None:
        """After a lane changed: have it served, have it refilled, or remove it when it is idle."""
        if lane.is_parked:
            return
        if lane.is_idle:
            self.by_subject.pop(lane.subject, None)
            return
        if lane.ready:
            for route in self.routes(lane, now):
                if lane.frames[route.name] < LANE_FRAMES_IN_FLIGHT:
                    self.group(route.name).queue.add(lane)
        has_room = len(lane.old) < LANE_OVERDUE_MESSAGES
        if lane.late and has_room and not lane.is_refilling:
            lane.is_refilling = True
            self.to_refill.append(lane)

    def park(self, lane: Lane, until: float, problem: str) -> None:
        """Free the bodies of a lane's messages until a broker group may be tried."""
        lane.is_parked = True
        lane.problem = problem
        self._parked_lanes[lane] = None
        for queue in (lane.old, lane.fresh):
            lane.late.add([(item.due_ms, item.ref) for item in queue])
            self.ready_bytes -= sum(len(item.data) for item in queue)
            queue.clear()
        self._park_until(lane, until)

    def _park_until(self, lane: Lane, until: float) -> None:
        lane.parked_until = until
        heapq.heappush(self._parked, (until, next(self._tie), lane))

    def routes_changed(self, subject: int) -> bool:
        """Use new routes of a subject; return whether its lane is to be resumed."""
        lane = self.by_subject.get(subject)
        if lane is None:
            return False
        lane.routes = []
        if lane.is_parked:
            self._park_until(lane, 0.0)
        return lane.is_parked

    def resume(self, now: float) -> bool:
        """Resume lanes and rejected messages whose pause is over; return whether there are more than RESUMED_MAX."""
        for _ in range(RESUMED_MAX):
            if self._parked and self._parked[0][0] <= now:
                lane = heapq.heappop(self._parked)[2]
                if lane.is_parked and lane.parked_until <= now:
                    lane.is_parked = False
                    lane.routes = []
                    del self._parked_lanes[lane]
                    self.enqueue(lane, now)
            elif self._refused and self._refused[0][0] <= now:
                self._resume_refused(heapq.heappop(self._refused)[2], now)
            else:
                return False
        return True

    def _resume_refused(self, item: Item, now: float) -> None:
        self._refused_bytes -= len(item.data)
        self._waiting += 1
        lane = self.lane(item.subject)
        if lane.is_parked:
            lane.late.add([(item.due_ms, item.ref)])
        else:
            self._load(lane.fresh, item)
            self.enqueue(lane, now)
