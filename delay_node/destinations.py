"""class Destinations: the broker groups that due messages are sent to."""

from dataclasses import dataclass, field

from delay_node.lanes import FairQueue, Lane
from qmq.net.routing import WRITABLE, Breaker, usable
from qmq.net.session import MetaSession
from qmq.net.timing import Backoff
from qmq.protocol.codes import ClientType
from qmq.protocol.commands import BrokerGroupRoute

FRAMES_IN_FLIGHT = 5
"""Unanswered SENDs per broker group."""
LANE_FRAMES_IN_FLIGHT = 4
"""Unanswered SENDs per broker group that hold messages of the same lane: the last one is free for other lanes."""
NO_ROUTE_SECONDS = 1.0
"""Pause of a subject without a writable broker group."""


@dataclass(eq=False, slots=True)
class Group:
    """A broker group with the lanes that have messages for it."""

    name: str
    queue: FairQueue = field(default_factory=FairQueue)
    in_flight: int = 0
    """Unanswered SENDs."""

    def has_room(self, lane: Lane) -> bool:
        """Whether another frame with messages of the lane may leave."""
        return self.in_flight < FRAMES_IN_FLIGHT and lane.frames[self.name] < LANE_FRAMES_IN_FLIGHT


class Destinations:
    """Broker groups by name, and which of them a lane may use."""

    def __init__(self, session: MetaSession, backoff: Backoff) -> None:
        self._session = session
        self.breaker = Breaker(backoff)
        self.groups: dict[str, Group] = {}

    def group(self, name: str) -> Group:
        """Return a broker group, created when it is new."""
        return self.groups.get(name) or self.groups.setdefault(name, Group(name))

    def routes(self, lane: Lane, now: float) -> list[BrokerGroupRoute]:
        """Return the broker groups of the lane's subject that may be tried now."""
        if not lane.routes:
            lane.routes = usable(self._session.routes(lane.name, ClientType.PRODUCER), WRITABLE)
        is_open = self.breaker.is_open
        return [route for route in lane.routes if not is_open(route.name, now)]

    def pause(self, lane: Lane, now: float) -> tuple[float, str]:
        """Return until when a lane without a usable broker group has to wait, and why."""
        if lane.routes:
            soonest = min(self.breaker.closes_at(route.name) for route in lane.routes)
            return soonest, lane.problem or "the broker groups of the subject fail"
        self._session.register(lane.name, ClientType.PRODUCER)
        self.refresh(lane)
        why = self._session.last_error or "no broker group of the subject is known to be writable"
        return now + NO_ROUTE_SECONDS, why

    def refresh(self, lane: Lane) -> None:
        """Request the routes of a lane's subject again."""
        self._session.refresh(lane.name, ClientType.PRODUCER)

    def preferred(self, lane: Lane, routes: list[BrokerGroupRoute]) -> Group:
        """Return the next broker group for a lane, of those with room; not the one where its last batch failed, if possible."""
        free = [group for route in routes if (group := self.group(route.name)).has_room(lane)]
        others = [group for group in free if group.name != lane.avoid] or free
        return others[lane.rotation % len(others)]
