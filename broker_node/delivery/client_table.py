"""Which connections send to a subject, and which consumers pull it how, for the operators' pages. Memory only."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from broker_node.storage.rates import DecayingRate
from qmq.clock import Clock
from qmq.errors import ProtocolError
from qmq.protocol.commands import Filter, PullRequest
from qmq.protocol.frames import Frame
from qmq.protocol.limited_kinds import NAME_CHARS_MAX
from qmq.protocol.messages import KEY_APP, KEY_SCHEDULE
from qmq.protocol.names import hidden_text_problem
from qmq.protocol.raw import RawView
from qmq.protocol.scan import Run
from qmq_node.server.connection import Connection

ENTRIES_MAX = 100_000
"""Most producers and most consumers recorded; further ones are not listed, and have no address, until others disconnect."""

ConsumerKey = tuple[str, str, str]
"""Subject, group, consumer ID."""


@dataclass(eq=False, slots=True)
class ProducerEntry:
    """A connection that sends to a subject."""

    subject: str
    connection: Connection
    protocol: int
    """Header version of its frames."""
    app: str
    """The application that its first message names; "" if that names none, or is not a name."""
    is_delayed: bool
    """Whether it is a delay node that sends what was due."""
    rate: DecayingRate
    """Of messages sent."""


@dataclass(eq=False, slots=True)
class ConsumerEntry:
    """A consumer of a group on a subject, and the connection of its last pull."""

    key: ConsumerKey
    connection: Connection
    protocol: int
    rate: DecayingRate
    """Of messages delivered."""
    filters: tuple[Filter, ...] = ()
    """Of its last pull."""
    is_broadcast: bool = False


@dataclass(eq=False, repr=False)
class ClientTable:
    """Producers and consumers with an open connection; entries of closed ones are removed at once."""

    _clock: Clock
    _producers: dict[Connection, dict[str, ProducerEntry]] = field(default_factory=dict, init=False)
    """By connection and subject."""
    _producer_count: int = field(default=0, init=False)
    _consumers: dict[ConsumerKey, ConsumerEntry] = field(default_factory=dict, init=False)
    _keys: dict[Connection, set[ConsumerKey]] = field(default_factory=dict, init=False)
    """Consumers by connection."""
    is_full: bool = field(default=False, init=False)
    """Whether a client was not recorded since the last one disconnected."""

    def entries(self) -> Iterator[ProducerEntry | ConsumerEntry]:
        """All entries at this moment; the table may change while they are read."""
        producers = [entry for by_subject in self._producers.values() for entry in by_subject.values()]
        yield from producers + list(self._consumers.values())

    def address(self, key: ConsumerKey) -> str | None:
        """Returns `host:port` of a consumer; None without an open connection that is recorded."""
        entry = self._consumers.get(key)
        return None if entry is None or entry.connection.is_closed else entry.connection.peer

    def sent(self, connection: Connection, frame: Frame, run: Run) -> None:
        """Record that a connection has sent messages of a subject."""
        by_subject = self._producers.get(connection)
        entry = by_subject.get(run.subject) if by_subject is not None else None
        if entry is None:
            entry = self._new_producer(connection, frame, run)
            if entry is None:
                return
        entry.rate.add(run.count, self._clock.monotonic())

    def pulled(self, connection: Connection, frame: Frame, request: PullRequest) -> None:
        """Record that a consumer has pulled on a connection."""
        key = (request.subject, request.group, request.consumer_id)
        entry = self._consumers.get(key)
        if entry is None or entry.connection is not connection:
            entry = self._connected(key, connection, frame.version)
            if entry is None:
                return
        entry.filters, entry.is_broadcast = request.filters, request.broadcast

    def delivered(self, request: PullRequest, count: int) -> None:
        """Record that a consumer is sent messages."""
        entry = self._consumers.get((request.subject, request.group, request.consumer_id))
        if entry is not None:
            entry.rate.add(count, self._clock.monotonic())

    def _new_producer(self, connection: Connection, frame: Frame, run: Run) -> ProducerEntry | None:
        if connection.is_closed:
            return None
        if self._producer_count >= ENTRIES_MAX:
            self.is_full = True
            return None
        by_subject = self._producers.get(connection)
        if by_subject is None:
            by_subject = self._producers[connection] = {}
            connection.on_close(lambda: self._producer_closed(connection))
        app, is_delayed = _sender_of(frame, run)
        rate = DecayingRate(self._clock.monotonic())
        entry = ProducerEntry(run.subject, connection, frame.version, app, is_delayed, rate)
        by_subject[run.subject] = entry
        self._producer_count += 1
        return entry

    def _connected(self, key: ConsumerKey, connection: Connection, protocol: int) -> ConsumerEntry | None:
        """The entry of a consumer that is new, or has another connection; None if it can't be recorded."""
        if connection.is_closed:
            return None
        entry = self._consumers.get(key)
        if entry is not None:
            self._keys[entry.connection].discard(key)
            entry.connection, entry.protocol = connection, protocol
        elif len(self._consumers) >= ENTRIES_MAX:
            self.is_full = True
            return None
        else:
            rate = DecayingRate(self._clock.monotonic())
            entry = self._consumers[key] = ConsumerEntry(key, connection, protocol, rate)
        keys = self._keys.get(connection)
        if keys is None:
            keys = self._keys[connection] = set()
            connection.on_close(lambda: self._consumer_closed(connection))
        keys.add(key)
        return entry

    def _producer_closed(self, connection: Connection) -> None:
        self._producer_count -= len(self._producers.pop(connection, ()))
        self.is_full = False

    def _consumer_closed(self, connection: Connection) -> None:
        for key in self._keys.pop(connection, ()):
            self._consumers.pop(key, None)
        self.is_full = False


def _sender_of(frame: Frame, run: Run) -> tuple[str, bool]:
    """The application that the first message of a run names, and whether it was a delayed message."""
    message = RawView(frame.buffer, run.raw_begins[0])
    try:
        app = message.property_text(KEY_APP.encode()) or ""
        is_delayed = message.property_text(KEY_SCHEDULE.encode()) is not None
    except ProtocolError:
        return "", False
    return ("" if len(app) > NAME_CHARS_MAX or hidden_text_problem(app) else app), is_delayed
