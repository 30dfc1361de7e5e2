"""The connections of a consumer. Memory only; no I/O.

A consumer id belongs to one process, and a process has one connection to a broker. Two processes with one id, or a process
whose old connection is not known to be lost yet, make two *sessions* of one consumer. Each message that a consumer has not
acked is held by the session it was delivered on. While that session is alive, no other session gets the message.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from weakref import ReferenceType, ref

SESSIONS_MAX = 16
"""Most sessions of one consumer. One more ends the session that was silent for the longest time; any session may get its
messages then."""


class Peer(Protocol):
    """The part of a connection that sessions use."""

    peer: str
    is_closed: bool

    def has_unread(self, mark: int) -> bool:
        """Whether answers up to a mark still wait for the peer to read."""
        ...


@dataclass(eq=False, slots=True)
class Session:
    """One connection of one consumer of one group on one subject."""

    _peer: ReferenceType[Peer]
    seen_at: float
    """Monotonic seconds of the last pull or ack that arrived on it."""
    named: int = -1
    """`pull_last` of the last pull that arrived on it."""
    delivered_end: int = 0
    """The pull sequence behind the last message delivered on it; 0: none was."""
    taken_end: int = 0
    """The pull sequence behind the last message that it took over from another session: below it, both know the messages."""
    answer_mark: int = 0
    """The connection's mark behind the last answer with messages; -1: that answer waits for the disk."""

    @property
    def peer(self) -> Peer | None:
        """Its connection; None once that is gone."""
        return self._peer()

    @property
    def is_open(self) -> bool:
        """Whether its connection is open."""
        peer = self._peer()
        return peer is not None and not peer.is_closed

    @property
    def has_unread_answer(self) -> bool:
        """Whether its last answer with messages has not left yet. Another one would come behind it and be of no use before."""
        peer = self._peer()
        return peer is not None and (self.answer_mark < 0 or peer.has_unread(self.answer_mark))

    def is_alive(self, now: float, lease_seconds: float) -> bool:
        """Whether its connection is open and was not silent for the lease."""
        return now - self.seen_at < lease_seconds and self.is_open

    def is_continued_by(self, pull_last: int) -> bool:
        """Whether a pull on another connection comes from this session's process.

        Pull sequences are unique within a consumer, so only the process that received `pull_last` can name it. It names
        the same number again when the answer to its last pull was lost with the connection.
        """
        return pull_last >= self.taken_end and pull_last in (self.named, self.delivered_end - 1)


class Sessions:
    """The sessions of one consumer, oldest first."""

    __slots__ = ("_items", "is_duplicate")

    def __init__(self) -> None:
        self._items: tuple[Session, ...] = ()
        self.is_duplicate = False
        """An older session was used after a younger one had begun: two processes use the consumer's id."""

    def __len__(self) -> int:
        return len(self._items)

    def on(self, peer: Peer | None) -> Session | None:
        """The session of a connection."""
        if peer is not None:
            for session in self._items:
                if session._peer() is peer:
                    return session
        return None

    def alive(self, now: float, lease_seconds: float) -> list[Session]:
        """Sessions that are alive."""
        return [session for session in self._items if session.is_alive(now, lease_seconds)]

    def others(self, own: Session | None, now: float, lease_seconds: float) -> list[Session]:
        """Sessions that are alive, except `own`: what they hold is not delivered on `own`."""
        items = self._items
        if not items or (len(items) == 1 and items[0] is own):
            return []
        return [session for session in self.alive(now, lease_seconds) if session is not own]

    def pull_arrived(self, peer: Peer, pull_last: int, now: float, lease_seconds: float) -> Session:
        """The session of a pull that arrived: the connection's, one whose process has reconnected, or a new one."""
        session = self.on(peer)
        if session is None:
            session = next((item for item in self._items if item.is_continued_by(pull_last)), None)
        if session is None:
            if len(self._items) >= SESSIONS_MAX:
                self.end(min(self._items, key=lambda item: item.seen_at))
            session = Session(ref(peer), now)
            self._items = (*self._items, session)
        session.named = pull_last
        self._use(session, peer, now, lease_seconds)
        return session

    def ack_arrived(
        self, peer: Peer, last: int, holder_of: Callable[[int], Session | None], now: float, lease_seconds: float
    ) -> Session | None:
        """The session of an ack up to `last` that arrived; None: there is none.

        Only the process that received a message acks it: from a connection without a session, it has reconnected.
        """
        session = self.on(peer)
        if session is None:
            holder = holder_of(last)
            if holder is not None and holder in self._items and last >= holder.taken_end:
                session = holder
        if session is not None:
            self._use(session, peer, now, lease_seconds)
        return session

    def prune(self, holders: set[Session | None]) -> None:
        """Remove sessions without a connection that hold nothing."""
        self._items = tuple(item for item in self._items if item.is_open or item in holders)

    def end(self, session: Session) -> None:
        """Remove a session; any other may get what it holds."""
        session.seen_at = float("-inf")
        self._items = tuple(item for item in self._items if item is not session)

    def are_duplicates(self, now: float, lease_seconds: float) -> bool:
        """Whether two processes that are alive use the consumer's id."""
        self.is_duplicate = self.is_duplicate and len(self.alive(now, lease_seconds)) > 1
        return self.is_duplicate

    def _use(self, session: Session, peer: Peer, now: float, lease_seconds: float) -> None:
        session.seen_at = now
        if session._peer() is not peer:
            # It continues on another connection of its process.
            session._peer, session.answer_mark = ref(peer), 0
        if len(self._items) > 1 and not self.is_duplicate:
            younger = self._items[self._items.index(session) + 1 :]
            self.is_duplicate = any(item.is_alive(now, lease_seconds) for item in younger)
