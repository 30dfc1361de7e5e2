"""Which broker group a producer sends a batch to."""

from collections.abc import Iterable

from qmq.client.outgoing import Batch, Key
from qmq.net.routing import WRITABLE, Breaker, RoundRobin, former_masters, usable
from qmq.net.session import MetaSession
from qmq.net.timing import Backoff
from qmq.protocol.commands import BrokerGroupRoute

NO_SPACE_SECONDS = 1.0
"""How long a broker group that had no space for a message gets no other."""


class GroupChoice:
    """Chooses a broker group for each batch, in turn. Avoids groups that failed or had no space a moment ago, and groups that have
    not answered half of the batches that may be in flight, so that a group which does not answer does not hold up sends to others.
    """

    def __init__(self, session: MetaSession, backoff: Backoff, batches_in_flight: int) -> None:
        self._session = session
        self._backoff = backoff
        self._batches_max = max(1, batches_in_flight // 2)
        """Of one group, if another one can have more."""
        self.breaker = Breaker(backoff)
        self._full_until: dict[str, float] = {}
        """Broker groups that had no space, and until when they get no messages."""
        self._round_robins: dict[Key, RoundRobin] = {}

    def choose(
        self, batch: Batch, now: float, in_flight: Iterable[Batch]
    ) -> tuple[BrokerGroupRoute | None, float | None]:
        """Return the next group; or None and when to try again, where None means that all writable groups lack space."""
        writable = usable(self._session.routes(*batch.key), WRITABLE)
        routes = self._with_space(writable, now)
        if writable and not routes:
            return None, None
        if len(routes) > 1:
            routes = self._answering(routes, batch, now, in_flight)
        round_robin = self._round_robins.get(batch.key)
        if round_robin is None:
            round_robin = self._round_robins[batch.key] = RoundRobin(self.breaker)
        route = round_robin.choose(routes, now, batch.last_group)
        if route is not None:
            return route, None
        return None, min((self.breaker.closes_at(r.master) for r in routes), default=now + self._backoff.first)

    def failed(self, route: BrokerGroupRoute, batch: Batch, now: float) -> None:
        """A request to the group failed: avoid its master for a while and request the subject's routes again."""
        self.breaker.failed(route.master, now)
        self._session.refresh(*batch.key)

    def has_moved(self, route: BrokerGroupRoute, batch: Batch) -> bool:
        """Whether the group has another master than this route says."""
        return bool(former_masters({route.name: route.master}, self._session.routes(*batch.key)))

    def is_any_left(self, full: str, batch: Batch, now: float) -> bool:
        """Avoid a group that has no space, and return whether another one may have."""
        self._full_until[full] = now + NO_SPACE_SECONDS
        self._session.refresh(*batch.key)
        return bool(self._with_space(usable(self._session.routes(*batch.key), WRITABLE), now))

    def _with_space(self, routes: list[BrokerGroupRoute], now: float) -> list[BrokerGroupRoute]:
        return [route for route in routes if now >= self._full_until.get(route.name, 0.0)]

    def _answering(
        self, routes: list[BrokerGroupRoute], batch: Batch, now: float, in_flight: Iterable[Batch]
    ) -> list[BrokerGroupRoute]:
        """Return the groups that may get one more batch in flight; all of them if none of these can be tried now."""
        groups = [one.group for one in in_flight if one is not batch]
        answering = [route for route in routes if groups.count(route.name) < self._batches_max]
        return answering if any(not self.breaker.is_open(route.master, now) for route in answering) else routes
