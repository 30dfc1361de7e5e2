"""Messages of a subject as they arrive: one poller a subject and process asks the brokers' browse page from the end on."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from channels.db import database_sync_to_async
from django.db import Error as DatabaseError

from console.cluster import limits
from console.cluster.asking import Nodes
from console.cluster.masking import ALL, masks_of
from console.cluster.messages import OLDEST, or_empty
from console.cluster.places import NodePlace
from console.live.audiences import Audience, Client, Shown
from console.snapshot.state import KIND_BROKER, encode
from console.times import rfc3339
from metaserver import queries
from qmq.clock import Clock
from qmq.node_admin import NodeAdmin
from qmq.protocol.delayed import FILTER_INVALID
from qmq.protocol.masking import Masks

logger = logging.getLogger("qmq.live")

POLL_SECONDS = 0.5
SOURCE_SECONDS = 5.0
"""How often the poller looks where the subject lives, and what is masked."""
MESSAGES_PER_SECOND_MAX = 20
"""Shown; of more that arrive the first of each look are shown, and the others counted."""
BODY_BYTES_MAX = 2_048
"""Of a message's properties together; longer ones are cut."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the messages of a subject come from, and what the nodes mask of them."""

    places: Sequence[NodePlace] = ()
    """The masters that hold, or will hold, messages."""
    masks: Masks = ALL


Sources = Callable[[str, str], Awaitable[Source]]


async def source_of(subject: str, role: str) -> Source:
    """Return the source of a subject's messages for readers in a role.

    Raises:
        django.db.Error: the database can't be reached.
    """

    def read() -> Source:
        route = queries.routes().filter(subject__name=subject).first()
        nodes = queries.approved_nodes().filter(broker_group__kind=KIND_BROKER)
        if route is not None:
            nodes = nodes.filter(broker_group__name__in=route.broker_groups)
        places = [
            NodePlace(row.node_id, row.broker_group.name, KIND_BROKER, True, row.address, row.admin_address)
            for row in nodes
            if row.broker_group.master in ("", row.node_id)
        ]
        return Source(places, masks_of(subject, role))

    found: Source = await database_sync_to_async(read)()
    return found


class FilterRefused(Exception):
    """The nodes reject the filter of a tail; the text says why."""


class Tail:
    """The poller of one subject, of messages that match one filter, for readers in one role; runs while it has an audience."""

    def __init__(self, subject: str, filter_text: str, role: str, clock: Clock, source: Sources = source_of) -> None:
        self.subject, self.role = subject, role
        self._filter_text = filter_text
        self.audience = Audience()
        self._clock = clock
        self._find_source = source
        self._source = Source()
        self._source_at: float | None = None
        self._positions: dict[str, int] = {}
        """By node: the sequence to continue from."""
        self._has_read = False
        self._version = 0
        self._problems: dict[str, str] = {}

    def join(self, client: Client) -> None:
        """Add a client. It gets a snapshot, and then what is stored from that moment on, or a count of what is left out.

        Not what nodes that are named as unknown store, nor the first seconds (SOURCE_SECONDS) of a broker group that is new
        to the subject.
        """
        self.audience.clients.add(client)
        if self._has_read:
            client.offer(self._snapshot())

    def _snapshot(self) -> str:
        return encode(
            {"type": "snapshot", "version": self._version, "subject": self.subject, "unknown": self._problems}
        )

    async def run(self) -> None:
        """Poll until cancelled. Raises FilterRefused."""
        while True:
            await self.look()
            await asyncio.sleep(POLL_SECONDS)

    async def look(self) -> None:
        """Request new messages from every node once and send them to the clients. Raises FilterRefused."""
        await self._refresh_source()
        before = dict(self._problems)
        share = max(1, int(MESSAGES_PER_SECOND_MAX * POLL_SECONDS) // max(1, len(self._source.places)))
        groups = {place.node_id: place.broker_group for place in self._source.places}
        nodes = Nodes.at({place.node_id: place.admin_address for place in self._source.places}, limits.TAIL_SECONDS)
        answers = await nodes.answers(lambda node_id, node: self._ask(node_id, groups[node_id], node, share))
        for node_id, code in answers.codes.items():
            if code == FILTER_INVALID:
                raise FilterRefused(answers.unreachable[node_id])
        away = {name: why[:300] for name, why in answers.unreachable.items()}
        self._problems = {name: why for name, why in self._problems.items() if name == "database"} | away
        if not self._has_read:
            # It knows where to begin on each node only now: to a client with a snapshot nothing may get lost.
            self._has_read = True
            self.audience.send(self._snapshot())
            return
        messages = [message for found, _ in answers.values.values() for message in found]
        left_out = sum(count for _, count in answers.values.values())
        if not messages and not left_out and before == self._problems:
            return
        self._version += 1
        messages.sort(key=lambda message: message["stored_at"] or "")
        found = {"messages": messages, "left_out": left_out, "unknown": self._problems}
        counted = Shown(len(messages), sum(bool(message["properties"]) for message in messages))
        self.audience.send(encode({"type": "delta", "version": self._version, **found}), counted)

    async def _refresh_source(self) -> None:
        now = self._clock.monotonic()
        if self._source_at is not None and now - self._source_at < SOURCE_SECONDS:
            return
        try:
            self._source = await self._find_source(self.subject, self.role)
            self._problems.pop("database", None)
        except DatabaseError as error:
            self._problems["database"] = f"the database is unavailable: {error}"[:300]
        self._source_at = now

    async def _ask(
        self, node_id: str, broker_group: str, node: NodeAdmin, share: int
    ) -> tuple[list[dict[str, Any]], int]:
        """New messages that match, and how many more there are; with a filter, how many more were not searched."""
        position = self._positions.get(node_id)
        if position is None:
            stats = await node.stats(self.subject)
            # A subject that is not there yet begins at 0: nothing of it is missed.
            self._positions[node_id] = next((item["end_sequence"] for item in stats["subjects"]), 0)
            return [], 0
        if self._filter_text:
            return await self._search(node_id, broker_group, node, position, share)
        page = await node.messages(self.subject, sequence=position, limit=share, masks=self._source.masks)
        end = page["end_sequence"]
        if end < position:
            # The node lost messages, or is a new one of that name: continue with what it has now.
            position = page["begin_sequence"]
        self._positions[node_id] = end
        found = [shown(message, broker_group) for message in page["messages"]]
        return found, max(0, end - max(position, page["begin_sequence"]) - len(found))

    async def _search(
        self, node_id: str, broker_group: str, node: NodeAdmin, position: int, share: int
    ) -> tuple[list[dict[str, Any]], int]:
        page = await or_empty(
            node.search(
                self.subject, filters=[self._filter_text], order=OLDEST, sequence=position, limit=share,
                masks=self._source.masks,
            )
        )  # fmt: skip
        end, following = page["end_sequence"], page["next_sequence"]
        is_full = following is not None and len(page["messages"]) >= share
        # A step that ended by its time continues with the next look; where more match than are shown, the rest is left out.
        self._positions[node_id] = end if following is None or is_full else following
        found = [shown(message, broker_group) for message in page["messages"]]
        return found, end - following if is_full and following is not None else 0


def shown(message: dict[str, Any], broker_group: str) -> dict[str, Any]:
    """A browsed message for people: sequences as texts, times in RFC 3339, long properties cut."""
    properties, room = {}, BODY_BYTES_MAX
    is_cut = False
    for name, value in message.get("properties", {}).items():
        text = str(value)
        if len(name) + len(text) > room:
            text = text.encode()[: max(0, room - len(name))].decode("utf-8", "ignore")
            is_cut = True
        room -= len(name.encode()) + len(text.encode())
        properties[name] = text
        if room <= 0:
            break
    is_cut = is_cut or len(properties) < len(message.get("properties", {}))
    stored_at_ms = message.get("stored_at_ms")
    return {
        "broker_group": broker_group,
        "sequence": str(message["sequence"]),
        "message_id": message.get("message_id"),
        "stored_at": rfc3339(stored_at_ms) if stored_at_ms is not None else None,
        "tags": message.get("tags", []),
        "properties": properties,
        "bytes": message["bytes"],
        "masked_values": message.get("masked", []),
        "decoding": message.get("decoding"),
        "is_cut": is_cut,
        "reason": message.get("reason"),
    }
