"""A feed's clients: what each of them still lacks, and texts that are encoded once for all of them."""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any, Protocol

from console.snapshot.feeds import Feed
from console.snapshot.frames import slices
from console.snapshot.state import State, apply, encode

logger = logging.getLogger("qmq.live")

JOINING_DELTAS_MAX = 8
"""Deltas that a new client gets after an older snapshot, which costs less than to encode a new one for each version."""
PENDING_DELTAS_MAX = 30
"""Deltas kept while a feed's snapshot is read; more than that, and it is read again."""


@dataclass(frozen=True, slots=True)
class Shown:
    """How many messages of a subject a text shows, and how many of them with what they say."""

    messages: int = 0
    with_bodies: int = 0

    def plus(self, other: "Shown") -> "Shown":
        """Return the sum."""
        return Shown(self.messages + other.messages, self.with_bodies + other.with_bodies)


NOTHING_SHOWN = Shown()


class Client(Protocol):
    """A websocket, as its sources see it."""

    def offer(self, text: str, shown: Shown = NOTHING_SHOWN) -> None:
        """Take a message to send; never waits: a client that does not keep up is dropped."""
        ...


class Audience:
    """Clients that get the same texts."""

    def __init__(self) -> None:
        self.clients: set[Client] = set()

    def send(self, text: str, shown: Shown = NOTHING_SHOWN) -> None:
        """Offer a text to all clients, with what it shows of messages."""
        for client in tuple(self.clients):
            client.offer(text, shown)


@dataclass(slots=True)
class Subscribed:
    """A feed with clients."""

    feed: Feed
    audience: Audience = field(default_factory=Audience)
    """Clients that have the present state: they get the deltas."""
    joining: set[Client] = field(default_factory=set)
    """Clients that have no snapshot yet."""
    is_requested: bool = False
    """Whether the subscription was requested on this connection."""
    is_subscribed: bool = False
    """Redis confirmed: from now on nothing is missed unseen."""
    is_wanting: bool = True
    """A snapshot has to be read."""
    stream: str = ""
    version: int = 0
    at: str = ""
    state: State | None = None
    pending: list[dict[str, Any]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    """What makes the present state for a client: an encoded snapshot and the deltas after it; empty: not encoded."""
    since: list[str] | None = None
    """The deltas since the state that is being encoded; None: none is, or it has become useless."""
    encoding: "asyncio.Task[None] | None" = None

    @property
    def has_clients(self) -> bool:
        """Whether it has any, with a snapshot or without."""
        return bool(self.audience.clients or self.joining)

    def offer_to_all(self, text: str) -> None:
        """Offer a text that is no part of the state to all clients."""
        for client in (*self.audience.clients, *self.joining):
            client.offer(text)

    def replace(self, stored: dict[str, Any], state: State) -> None:
        """Take a state that was read. Clients of an earlier one have to join again."""
        if self.audience.clients:
            self.audience.send(encode({"type": "reset"}))
            self.joining |= self.audience.clients
            self.audience.clients.clear()
        self.stream, self.version, self.at = stored["stream"], stored["version"], stored["at"]
        self.state, self.texts, self.since, self.is_wanting = state, [], None, False

    def advance(self, value: dict[str, Any], text: str) -> None:
        """Apply a delta, whose encoded form is `text`."""
        assert self.state is not None
        self.state = apply(self.state, value["delta"])
        self.version, self.at = value["version"], value["at"]
        if len(self.texts) > JOINING_DELTAS_MAX:
            self.texts = []
        elif self.texts:
            self.texts.append(text)
        if self.since is not None:
            self.since.append(text)
            if len(self.since) > PENDING_DELTAS_MAX:
                self.since = None

    def admit(self) -> None:
        """Give clients that join the present state: now if it is encoded, else when it is."""
        if not self.joining or self.state is None or self.is_wanting:
            return
        if self.texts:
            for client in self.joining:
                for text in self.texts:
                    client.offer(text)
            self.audience.clients |= self.joining
            self.joining.clear()
        elif self.encoding is None or self.encoding.done():
            self.encoding = asyncio.create_task(self._encode())
            self.encoding.add_done_callback(self._encoded)

    async def _encode(self) -> None:
        """Encode the state for those that join, until one text and the deltas since then make the present state."""
        while self.joining and self.state is not None and not self.is_wanting:
            since = self.since = []
            head = {"stream": self.stream, "version": self.version, "at": self.at}
            text = await asyncio.to_thread(snapshot_text, head, self.state)
            if self.since is since:
                self.since, self.texts = None, [text, *since]
                self.admit()

    def _encoded(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error(
                "a snapshot of %s can't be encoded; the next delta tries again", self.feed.name, exc_info=error
            )


def snapshot_text(head: dict[str, Any], state: State) -> str:
    """A client's snapshot. Encoded in pieces: one call for a large state would hold the interpreter lock for seconds."""
    sections = [
        f'"{section}":{{{",".join(encode(part)[1:-1] for part in slices(entries))}}}'
        for section, entries in state.items()
    ]
    return f'{encode({"type": "snapshot", **head})[:-1]},"state":{{{",".join(sections)}}}}}'
