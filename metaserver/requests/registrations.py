"""Registrations of clients, indexed by what can change them: a subject's route, or the delay groups.

The cost of a change follows the number of registrations it can affect, never the number of all registrations of a
connection. Every index is insertion-ordered, so that the order of pushes is the same in every run.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from metaserver.requests.sliced_queue import CallSoon, SlicedQueue
from qmq.clock import Clock
from qmq.protocol.codes import ClientType
from qmq.protocol.commands import ClientRegisterRequest
from qmq.protocol.frames import Frame
from qmq_node.server.connection import Connection
from qmq_node.server.server_limits import ServerLimits

Key = tuple[str, int, str]
"""(subject as registered, client type, consumer group): clients match answers by it."""
SentRoute = frozenset[tuple[str, str, int]]
"""(broker group, master, state) of each broker group of an answer."""


REMOVED_PER_BATCH = 500
"""Registrations of closed connections that are removed in one turn of the event loop."""


def is_pushed(client_type: int) -> bool:
    """Whether routes are pushed to clients of this type."""
    return client_type in (ClientType.PRODUCER, ClientType.CONSUMER, ClientType.DELAY_PRODUCER)


@dataclass(frozen=True, slots=True)
class RegistrationLimits:
    """Upper limits. A registration over one is answered and not indexed: it gets later changes with its own refresh, each 60 s."""

    per_connection_max: int = 10_000
    total_max: int = 500_000
    pending_max: int = 50_000
    """Registrations without a usable broker group that wait for their answer."""
    pending_per_connection_max: int = 4_000
    """The same of one connection. Below the server's limit of unanswered requests, which stops reading a connection."""
    stale_seconds: float = 180.0
    """A registration that is not refreshed for three refresh intervals may be removed."""


assert RegistrationLimits().pending_per_connection_max < ServerLimits().in_flight_requests_max


@dataclass(eq=False, slots=True)
class Registration:
    """One interest of one connection."""

    connection: Connection
    request: ClientRegisterRequest
    subject: str
    """The real subject."""
    refreshed_at: float
    last_sent: SentRoute | None = None
    pending: Frame | None = None
    """The request, while it waits for a usable broker group."""
    is_removed: bool = False

    @property
    def is_delay(self) -> bool:
        """Whether it depends on the delay groups instead of a route."""
        return self.request.client_type == ClientType.DELAY_PRODUCER


@dataclass(eq=False, slots=True)
class _Client:
    """The registrations of one connection, the least recently refreshed first."""

    registrations: OrderedDict[Key, Registration] = field(default_factory=OrderedDict)
    pending: int = 0


class Registrations:
    """All indexed registrations."""

    def __init__(self, clock: Clock, limits: RegistrationLimits | None, call_soon: CallSoon) -> None:
        self._clock = clock
        self._limits = limits or RegistrationLimits()
        self._clients: dict[Connection, _Client] = {}
        self._by_subject: dict[str, dict[Registration, None]] = {}
        self.delay: dict[Registration, None] = {}
        """Registrations that depend on the delay groups."""
        self.unserved: dict[Registration, None] = {}
        """Registrations without a usable broker group: the response is pending, was empty, or had only groups that reject sends."""
        self._removals = SlicedQueue(self._remove, REMOVED_PER_BATCH, call_soon)
        self._total = 0
        self.pending_count = 0
        """Requests that wait for their answer."""

    def __len__(self) -> int:
        return self._total

    def of_subject(self, subject: str) -> Iterable[Registration]:
        """The producers and consumers of a real subject."""
        return self._by_subject.get(subject, ())

    def put(self, connection: Connection, request: ClientRegisterRequest, subject: str) -> Registration | None:
        """Index a registration, or refresh it. None when a limit is reached, or for a client that nothing is pushed to. O(1)."""
        if not is_pushed(request.client_type):
            return None
        now = self._clock.monotonic()
        key = (request.subject, request.client_type, request.group)
        client = self._clients.get(connection)
        if client is not None:
            found = client.registrations.get(key)
            if found is not None:
                found.refreshed_at = now
                # Kept if equal, as the route: each new object that lasts is work for the garbage collector.
                if found.request != request:
                    found.request = request
                client.registrations.move_to_end(key)
                return found
            self._remove_stale(client, now)
        if self._total >= self._limits.total_max:
            return None
        if client is None:
            client = self._clients[connection] = _Client()
            connection.on_close(lambda: self.remove_connection(connection))
        if len(client.registrations) >= self._limits.per_connection_max:
            return None
        registration = client.registrations[key] = Registration(connection, request, subject, now)
        index = self.delay if registration.is_delay else self._by_subject.setdefault(subject, {})
        index[registration] = None
        self._total += 1
        return registration

    def hold(self, registration: Registration, frame: Frame) -> bool:
        """Keep the request of a registration until it can be answered; False when a limit is reached."""
        client = self._clients[registration.connection]
        if self.pending_count >= self._limits.pending_max or client.pending >= self._limits.pending_per_connection_max:
            return False
        # The answer needs the header alone; the body would keep a whole receive buffer in memory.
        frame.body, frame.buffer = memoryview(b""), bytearray()
        registration.pending = frame
        self.pending_count += 1
        client.pending += 1
        return True

    def release(self, registration: Registration) -> Frame | None:
        """Mark a registration as served; the request that waits for its answer, if one does."""
        self.unserved.pop(registration, None)
        frame, registration.pending = registration.pending, None
        if frame is not None:
            self.pending_count -= 1
            if (client := self._clients.get(registration.connection)) is not None:
                client.pending -= 1
        return frame

    def remove_connection(self, connection: Connection) -> None:
        """Remove everything of a closed connection, REMOVED_PER_BATCH registrations in a turn of the event loop."""
        self._removals.add(self._clients.pop(connection).registrations.values())

    def _remove_stale(self, client: _Client, now: float) -> None:
        # Two for each new one: the count of stale registrations falls, and no call does more.
        for _ in range(2):
            key, oldest = next(iter(client.registrations.items()), (None, None))
            if key is None or oldest is None or now - oldest.refreshed_at <= self._limits.stale_seconds:
                return
            if oldest.pending is not None:
                # The official client does not refresh what was never answered (trap T1).
                client.registrations.move_to_end(key)
                continue
            del client.registrations[key]
            self._remove(oldest)

    def _remove(self, registration: Registration) -> None:
        self.release(registration)
        registration.is_removed = True
        self._total -= 1
        if registration.is_delay:
            del self.delay[registration]
            return
        index = self._by_subject[registration.subject]
        del index[registration]
        if not index:
            del self._by_subject[registration.subject]
