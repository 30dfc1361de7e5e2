"""Which broker group the messages of a producer go to: class GroupChoice."""

from qmq.client.outgoing import Batch
from qmq.client.send_outcomes import client_type_of
from qmq.net.routing import WRITABLE, Breaker, RoundRobin, usable
from qmq.net.session import MetaSession
from qmq.net.timing import Backoff
from qmq.protocol.codes import ClientType
from qmq.protocol.commands import BrokerGroupRoute

NO_SPACE_SECONDS = 1.0
"""How long a broker group that had no space for a message gets no other."""


class GroupChoice:
    """Chooses a broker group for each batch, in turn; avoids those that failed or had no space a moment ago."""

    def __init__(self, session: MetaSession, backoff: Backoff) -> None:
        self._session = session
        self._backoff = backoff
        self._breaker = Breaker(backoff)
        self._full_until: dict[str, float] = {}
        """Broker groups that had no space, and until when they get no messages."""
        self._round_robins: dict[tuple[str, ClientType], RoundRobin] = {}

    def has_routes(self, batch: Batch) -> bool:
        """Whether a route of the batch's subject is known."""
        return bool(self._session.routes(batch.subject, client_type_of(batch)))

    def choose(self, batch: Batch, now: float) -> tuple[BrokerGroupRoute | None, float | None]:
        """Return the next group; or None and when to try again, where None means that all writable groups lack space."""
        key = (batch.subject, client_type_of(batch))
        writable = usable(self._session.routes(*key), WRITABLE)
        routes = self._with_space(writable, now)
        if writable and not routes:
            return None, None
        round_robin = self._round_robins.get(key)
        if round_robin is None:
            round_robin = self._round_robins[key] = RoundRobin(self._breaker)
        route = round_robin.choose(routes, now, batch.last_group)
        if route is not None:
            return route, None
        return None, min((self._breaker.closes_at(r.name) for r in routes), default=now + self._backoff.first)

    def succeeded(self, group: str) -> None:
        """A request to the group succeeded."""
        self._breaker.succeeded(group)

    def failed(self, group: str, batch: Batch, now: float) -> None:
        """A request to the group failed: avoid it for a while and request the subject's routes again."""
        self._breaker.failed(group, now)
        self._session.refresh(batch.subject, client_type_of(batch))

    def is_any_left(self, full: str, batch: Batch, now: float) -> bool:
        """Avoid a group that has no space, and return whether another one may have."""
        self._full_until[full] = now + NO_SPACE_SECONDS
        client_type = client_type_of(batch)
        self._session.refresh(batch.subject, client_type)
        return bool(self._with_space(usable(self._session.routes(batch.subject, client_type), WRITABLE), now))

    def _with_space(self, routes: list[BrokerGroupRoute], now: float) -> list[BrokerGroupRoute]:
        return [route for route in routes if now >= self._full_until.get(route.name, 0.0)]
